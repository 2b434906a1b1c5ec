"""The pods of a job: which replica each one is, and how its program stands."""

from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Final

import msgspec

from tf_operator.client import changes
from tf_operator.client.job import Job, NotPossible
from tf_operator.dialects.served import ServedAPI
from tf_operator.job import naming
from tf_operator.job.record import ReplicaType
from tf_operator.job.training_job import RestartPolicy
from tf_operator.machinery.clock import Clock
from tf_operator.machinery.transport.client import ApiClient
from tf_operator.machinery.transport.requests import Resource, Scope
from tf_operator.meta import Body, controller_of, metadata_of, parse_time, text_of

if TYPE_CHECKING:
    from tf_operator.planning.snapshot import MainContainer, Pod

PODS: Final = Resource("", "v1", "pods", "Pod")
_ORDER: Final = tuple(ReplicaType)


@dataclass(frozen=True, slots=True)
class JobPod:
    """One pod of a job."""

    name: str
    namespace: str
    uid: str
    replica: str
    """``worker-0``."""
    phase: str
    state: "Pod" = field(repr=False)
    """The fields that the operator reads."""
    node: str = ""
    created: datetime | None = None
    container: str = ""
    """The container that decides about the replica."""
    body: Body = field(default_factory=dict, repr=False, compare=False)

    @property
    def restarts(self) -> int:
        """Restarts in place of its containers."""
        return self.state.restarts

    @property
    def pending_reason(self) -> str:
        """Why it is Pending, as the scheduler or the kubelet says."""
        return self.state.pending_reason

    @property
    def is_starting(self) -> bool:
        """Whether it is Pending only because it is new."""
        return self.phase == "Pending" and (self.state.is_starting or self.state.waits_since is None)

    @property
    def is_terminating(self) -> bool:
        """Whether it was deleted."""
        return self.state.is_terminating

    @property
    def has_ended(self) -> bool:
        """Whether its program has ended and is not started again in place."""
        return self.phase in {"Succeeded", "Failed"}

    @property
    def is_running(self) -> bool:
        """Whether its program runs; not while it waits to be restarted in place."""
        is_waiting = self.restarts > 0 and self.main is None
        return self.phase == "Running" and not self.is_terminating and not is_waiting

    @property
    def main(self) -> "MainContainer | None":
        """The deciding container, once it has been started."""
        return self.state.main

    @property
    def run(self) -> tuple[str, int] | None:
        """Identifies a run of the program; ``None`` before the first one."""
        return (self.uid, self.restarts) if self.phase == "Running" or self.has_ended else None


def scope_of(job: Job) -> Scope:
    """How the pods of a job are selected: by a label of the API that all its operators set."""
    labels = job.spec.profile.labels
    return Scope(job.namespace, label_selector=f"{labels.job}={job.name}")


def read_pods(job: Job, bodies: Iterable[Body], api: ServedAPI) -> tuple[JobPod, ...]:
    """The pods that belong to this very job, in the order of its replicas. A label alone proves nothing."""
    return in_order(pod for body in bodies if (pod := read_pod(job, body, api)))


async def follow(client: ApiClient, job: Job, api: ServedAPI, clock: Clock) -> AsyncGenerator[tuple[JobPod, ...], None]:
    """The pods of a job now, and after each change, for ever."""
    current = dict[str, JobPod]()
    async with aclosing(changes.follow(client, PODS, scope_of(job), clock)) as batches:
        async for batch in batches:
            for change in batch:
                pod = read_pod(job, change.body, api)
                if pod and change.is_deleted:
                    current.pop(pod.name, None)
                elif pod:
                    current[pod.name] = pod
            yield in_order(current.values())


def in_order(pods: Iterable[JobPod]) -> tuple[JobPod, ...]:
    return tuple(sorted(pods, key=lambda pod: (_ORDER.index(pod.state.type), pod.state.index, pod.name)))


def read_pod(job: Job, body: Body, api: ServedAPI) -> JobPod | None:
    """One pod; ``None`` when it is not a replica of this job."""
    from tf_operator.projections.pods import pod_reader  # noqa: PLC0415 (most commands read no pod)

    owner, metadata = controller_of(body), metadata_of(body)
    if owner is None or owner.uid != job.uid:
        return None
    place = naming.replica_of(job.name, text_of(metadata, "name"), job.spec.profile.names)
    state = pod_reader((api,))(msgspec.json.encode(body)).pod if place else None
    if place is None or state is None:
        return None
    spec = body.get("spec")
    return JobPod(
        name=state.name,
        namespace=text_of(metadata, "namespace"),
        uid=state.uid,
        replica=f"{place[0].label}-{place[1]}",
        phase=state.phase,
        state=state,
        node=text_of(spec, "nodeName") if isinstance(spec, Mapping) else "",
        created=parse_time(metadata.get("creationTimestamp")),
        container=job.spec.profile.container,
        body=body,
    )


def replicas_of(job: Job) -> frozenset[str]:
    """The replicas that are wanted, as in ``worker-0``."""
    specs = job.spec.in_force().replicas
    return frozenset(f"{spec.type.label}-{index}" for spec in specs for index in range(spec.count))


def restarts(job: Job, pods: Iterable[JobPod]) -> dict[str, int]:
    """How often each replica was restarted, in place or by new pods, as far as its pod and the job's status tell.

    A status has the sum of each type, and of a replica what its next restart depends on. Where one replica alone was
    restarted, the sum is its number; of several, restarts in a row are known.
    """
    there = {pod.replica: pod for pod in pods}
    numbers = {name: pod.restarts for name, pod in there.items()}
    records = job.spec.record.restart_records
    of_type = Counter(record.type for record in records)
    for record in records:
        name, total = f"{record.type.label}-{record.index}", job.spec.record.of(record.type).restarts
        own, pod = numbers.get(name, 0), there.get(name)
        earlier = 0 if pod and pod.uid == record.uid else record.in_place
        counted = total if of_type[record.type] == 1 else min(total, own + earlier + record.attempts)
        numbers[name] = max(own, counted)
    return numbers


def to_restart(job: Job, job_pods: Iterable[JobPod], replica: str) -> tuple[JobPod, ...]:
    """The pods whose programs have not ended, of one replica or of all; ``NotPossible`` if the job would fail then."""
    named = [pod for pod in job_pods if replica in {"", pod.replica}]
    if replica and not named and replica not in replicas_of(job):
        raise NotPossible(f"{job.kind} {job.name} has no replica {replica}: it has {shown_replicas(job)}")
    running = tuple(pod for pod in named if not (pod.has_ended or pod.is_terminating))
    never = {spec.type for spec in job.spec.replicas if spec.restart_policy is RestartPolicy.NEVER}
    if only := next((pod for pod in running if pod.state.type in never), None):
        raise NotPossible(
            f"{only.replica} has restartPolicy Never, so the job would fail without its pod: suspend and resume it"
        )
    return running


def shown_replicas(job: Job) -> str:
    """The same for a sentence: ``chief-0, worker-0 to worker-9``."""
    groups = [(spec.type.label, spec.count - 1) for spec in job.spec.in_force().replicas if spec.count]
    return ", ".join(f"{label}-0{f' to {label}-{last}' if last else ''}" for label, last in groups) or "none"


def is_replica_name(job: Job, name: str) -> bool:
    """Whether a pod of this name may be, or have been, one of the job."""
    return naming.replica_of(job.name, name, job.spec.profile.names) is not None
