"""Jobs, workers and nodes of a cluster with the job queue: as small values, and as the caches have them."""

from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final, NamedTuple

import msgspec

from proof.queues.job_queue_bounds import SLOT, QueueBound, Spec
from support.pods import pod_status
from support.pods.pod_status import Waiting
from support.resources import Json
from tf_operator.controller.job_queue import projections
from tf_operator.dialects.kubeflow import v1
from tf_operator.meta import rfc3339
from tf_operator.planning.snapshot import Pod
from tf_operator.projections.jobs import StoredJob, job_reader
from tf_operator.projections.pods import pod_reader

NOW: Final = datetime(2026, 3, 1, 8, tzinfo=UTC)
_READ_COUNTED: Final = projections.counted_pod_reader((v1.API,))
_READ_POD: Final = pod_reader((v1.API,))
_READ_JOB: Final = job_reader(v1.API)


class JobState(NamedTuple):
    """One job. In states it is a plain tuple."""

    life: int
    """Two jobs of one name, one after the other, are not the same."""
    spec: tuple[Any, ...]
    status: int


class PodState(NamedTuple):
    """One worker. In states it is a plain tuple."""

    job: int
    life: int
    ordinal: int
    birth: int
    slots: int
    node: int = -1
    is_leaving: bool = False


class Objects:
    """The objects of one bound, each made once."""

    def __init__(self, bound: QueueBound) -> None:
        self.bound = bound
        self._stored: dict[Any, StoredJob] = {}
        self._pods: dict[Any, tuple[projections.CountedPod, Pod]] = {}

    def stored(self, job: int, state: JobState, status: Json) -> StoredJob:
        """A job as it is cached."""
        key = (job, state)
        stored = self._stored.get(key)
        if stored is None:
            queued, spec = self.bound.jobs[job], Spec._make(state.spec)
            body = queued.body(spec)
            created = NOW - timedelta(days=30 - 10 * state.life) + timedelta(seconds=job)
            body["metadata"] |= {
                "uid": job_uid(queued.name, state.life),
                "resourceVersion": f"{job}.{state.life}.{hash(spec)}.{state.status}",
                "generation": spec.generation,
                "creationTimestamp": rfc3339(created),
            }
            stored = self._stored[key] = _READ_JOB(msgspec.json.encode(body | {"status": status}))
        return stored

    def pod(self, state: PodState) -> tuple[projections.CountedPod, Pod]:
        """The pod as the queue counts it, and as a plan sees it."""
        if state not in self._pods:
            raw = msgspec.json.encode(self._pod_body(state))
            pod = _READ_POD(raw).pod
            assert pod, "a pod of no replica"
            self._pods[state] = _READ_COUNTED(raw), pod
        return self._pods[state]

    def _pod_body(self, state: PodState) -> Json:
        queued = self.bound.jobs[state.job]
        template = queued.template(state.slots).body()
        owner = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": queued.name}
        metadata: Json = {
            "name": f"{queued.name}-worker-{state.ordinal}",
            "namespace": queued.key[0],
            "uid": pod_uid(queued.name, state.ordinal, state.birth),
            "creationTimestamp": rfc3339(NOW - timedelta(minutes=1)),
            "labels": v1.API.profile.labels.selector,
            "ownerReferences": [owner | {"uid": job_uid(queued.name, state.life), "controller": True}],
        }
        if state.is_leaving:
            metadata["deletionTimestamp"] = rfc3339(NOW + timedelta(days=1))
        spec = {**template["spec"], "restartPolicy": "Never"} | (
            {"nodeName": f"n{state.node}"} if state.node >= 0 else {}
        )
        body: Json = {"metadata": metadata, "spec": spec}
        moment = rfc3339(NOW - timedelta(seconds=50))
        body["status"] = pod_status.pending(body, moment, waiting=Waiting("ContainerCreating", ""))
        return body | ({"status": pod_status.running(body, moment)} if state.node >= 0 else {})


READY, CORDONED, GONE = 0, 1, 2
"""The conditions of nodes."""


@cache
def node(number: int, slots: int, *, is_usable: bool) -> projections.CachedNode:
    raw = {
        "metadata": {
            "name": f"n{number}",
            "uid": f"n{number}",
            "resourceVersion": "1",
            "labels": {"node": str(number)},
        },
        "spec": {"unschedulable": not is_usable},
        "status": {
            "allocatable": {SLOT: str(slots), "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    return projections.read_node(msgspec.json.encode(raw))


def job_uid(name: str, life: int) -> str:
    return f"uid-{name}-{life}"


def pod_uid(name: str, ordinal: int, birth: int) -> str:
    return f"{name}-worker-{ordinal}#{birth}"
