"""The pods of a world: what a kubelet can make of one, as a small value, and the object that stands for it.

What the operator sees of a pod is read from the object by the reader of the caches.
"""

from functools import cache, partial
from typing import Any, NamedTuple

import msgspec

from proof.oracle import Look
from support.jobs.templates import CONTAINER
from support.pods import pod_status
from support.pods.pod_status import Exit, Waiting
from support.resources import Json
from tf_operator.controller.departed_pods import DepartedPods
from tf_operator.dialects.served import ServedAPI
from tf_operator.job.constants import AVOIDED_NODES_ANNOTATION, MEMORY_ANNOTATION
from tf_operator.planning.snapshot import Pod
from tf_operator.projections.pods import pod_reader

JOB, NAMESPACE, UID = "job", "team", "u"
# Moments in the life of any pod, each after the one before: nothing is decided by how long it took.
OLD = "2020-01-01T00:00:00Z"
LONG_AGO = "2026-03-01T07:50:00Z"
MADE, STARTED, ENDED, DISRUPTED, STOPPED = (f"2026-03-01T07:59:{second}Z" for second in range(50, 55))

PENDING, RUNS, SUCCEEDED, EVICTED, REJECTED = "Pending", "Running", "exit 0", "Evicted", "rejected"
OOM_KILLED = "exit 137 OOMKilled"
EVICTED_EARLY = "Evicted before it ran"
UNPLACED, UNSCHEDULABLE, STUCK = "waits for a node", "waits in vain", "has waited in vain for five minutes"
WAITS = frozenset({UNPLACED, UNSCHEDULABLE, STUCK})
"""Of a pod without a node."""
TAKEN = frozenset({EVICTED, EVICTED_EARLY, REJECTED})
ALIVE = "alive"
DELETED, DRAINED, OURS = "deleted", "drained", "deleted by the operator"


class PodState(NamedTuple):
    """One pod. In states it is a plain tuple."""

    kind: str
    ordinal: int
    birth: int
    name: str
    policy: str
    """Of the pod, as its kubelet reads it."""
    attempt: int = 1
    """The run of the job in which it was made."""
    node: str = "node"
    """Empty as long as it has none."""
    avoids: tuple[str, ...] = ()
    """The nodes on which it must not be."""
    memory: str = ""
    """To what the memory of its type had grown by then."""
    is_host: bool = False
    """Whether its name is one in the Service of the job."""
    how: str = PENDING
    """What its program does, or how it has ended: ``exit 137``, or ``exit 137 beside a sidecar``."""
    restarts: int = 0
    was_killed: bool = False
    """Whether it was last restarted in place after an OOM kill."""
    leaving: str = ALIVE
    """Who deletes it."""
    ended_first: bool = False
    """Whether its program had ended by then."""
    is_old: bool = False
    """Whether it was made before the job was last resumed."""
    is_hidden: bool = False
    """Whether it lacks the label by which it is watched."""

    @property
    def uid(self) -> str:
        return f"{self.name}#{self.birth}"

    @property
    def is_terminating(self) -> bool:
        return self.leaving != ALIVE

    @property
    def has_ended(self) -> bool:
        """Whether all its containers have."""
        return self.how not in {PENDING, RUNS, *WAITS} and not self.how.endswith("sidecar")

    @property
    def code(self) -> int | None:
        return int(self.how.split(" ")[1]) if self.how.startswith("exit") else None

    @property
    def phase(self) -> str:
        if self.how in {PENDING, RUNS, *WAITS}:
            return RUNS if self.how == RUNS else PENDING
        if not self.has_ended:
            return RUNS
        return "Succeeded" if self.how == SUCCEEDED else "Failed"

    def deleted(self, by: str) -> "PodState":
        return self._replace(leaving=by, ended_first=self.has_ended)


def ended(code: int, *, has_sidecar: bool = False) -> str:
    return f"exit {code} beside a sidecar" if has_sidecar else f"exit {code}"


@cache
def look(pod: PodState, *, is_gone: bool = False) -> Look:
    """The same for the oracle."""
    return Look(
        pod.kind,
        pod.ordinal,
        pod.birth,
        pod.phase,
        code=pod.code,
        restarts=pod.restarts,
        memory=pod.memory,
        is_too_small=pod.was_killed or pod.how == OOM_KILLED,
        has_run=pod.how not in {PENDING, REJECTED, EVICTED_EARLY, *WAITS} or pod.restarts > 0,
        shows_run=pod.how not in {PENDING, *TAKEN, *WAITS},
        is_terminating=pod.is_terminating,
        is_gone=is_gone,
        is_disrupted=pod.how in TAKEN or pod.leaving == DRAINED,
        ended_first=pod.ended_first or (pod.has_ended and not pod.is_terminating and pod.how not in TAKEN),
        is_from_before=pod.is_old,
        is_unwatched=pod.is_hidden,
        is_host=pod.is_host,
        attempt=pod.attempt,
        node=pod.node,
        is_refused=pod.how == REJECTED,
        is_unschedulable=pod.how in {UNSCHEDULABLE, STUCK},
        has_waited=pod.how == STUCK,
    )


@cache
def value(pod: PodState, api: ServedAPI) -> Pod:
    """The same as planning has it, by way of the object and the caches' reader."""
    pod_value = pod_reader((api,))(msgspec.json.encode(body(pod, api))).pod
    assert pod_value, "a pod of no replica"
    return pod_value.changed(is_unwatched=pod.is_hidden)


def body(pod: PodState, api: ServedAPI) -> Json:
    owner = {"apiVersion": api.resource.api_version, "kind": api.resource.kind, "name": JOB, "uid": UID}
    container = {**CONTAINER, "name": api.profile.container}
    sidecar = [{"name": "sidecar", "image": "s"}] if pod.how.endswith("sidecar") else []
    metadata: Json = {
        "name": pod.name,
        "namespace": NAMESPACE,
        "uid": pod.uid,
        "creationTimestamp": OLD if pod.is_old else MADE,
        "labels": api.profile.labels.selector,
        "ownerReferences": [owner | {"controller": True}],
    }
    annotations = {AVOIDED_NODES_ANNOTATION: ",".join(pod.avoids), MEMORY_ANNOTATION: pod.memory}
    metadata["annotations"] = {name: text for name, text in annotations.items() if text}
    if pod.is_terminating:
        metadata["deletionTimestamp"] = "2026-03-01T09:00:00Z"
    spec = {"restartPolicy": pod.policy, "schedulerName": "s", "containers": [container, *sidecar]}
    body: Json = {"metadata": metadata, "spec": spec | ({"nodeName": pod.node} if pod.node else {}), "status": {}}
    for change, moment in _history(pod):
        body = body | {"status": change(body, moment)}
    return body


def _history(pod: PodState) -> list[tuple[Any, str]]:
    """What the kubelet has written, and when."""
    if pod.how == REJECTED:
        return [(partial(pod_status.rejected, reason="OutOfcpu", message="no"), STARTED)]
    if pod.how in WAITS:
        says = partial(pod_status.unschedulable, message="no")
        return [] if pod.how == UNPLACED else [(says, LONG_AGO if pod.how == STUCK else MADE)]
    happened: list[tuple[Any, str]] = [(partial(pod_status.pending, waiting=Waiting("ContainerCreating", "")), MADE)]
    if pod.how not in {PENDING, EVICTED_EARLY}:
        happened.append((pod_status.running, STARTED))
    last = Exit(137, reason="OOMKilled") if pod.was_killed else Exit(1)
    happened += [(partial(pod_status.restarted, how=last), STARTED)] * pod.restarts
    end: list[tuple[Any, str]] = []
    if pod.how in {EVICTED, EVICTED_EARLY}:
        end = [(pod_status.evicted, ENDED)]
    elif pod.code is not None:
        change = pod_status.main_ended if pod.how.endswith("sidecar") else pod_status.finished
        reason = "OOMKilled" if pod.how == OOM_KILLED else ""
        end = [
            (
                partial(change, how=Exit(pod.code, reason=reason)),
                ENDED if pod.ended_first or not pod.is_terminating else STOPPED,
            )
        ]
    drain = partial(pod_status.disrupted, reason="EvictionByEvictionAPI", message="evicting")
    drained = [(drain, DISRUPTED)] if pod.leaving == DRAINED else []
    return [*happened, *end, *drained] if pod.ended_first else [*happened, *drained, *end]


class Notes(NamedTuple):
    """What one life of an operator knows of pods that are gone, or were different before they were deleted."""

    departed: tuple[PodState, ...] = ()
    ended: tuple[PodState, ...] = ()


@cache
def noted(notes: Notes, event: str, pod: PodState, api: ServedAPI) -> Notes:
    """After an event of a pod: ``terminating``, with how it was before, or ``deleted`` or ``created``."""
    real = DepartedPods(lambda _: "Running", lambda _: None)
    real.begin_term()
    for noted_pod in notes.departed:
        real.note_deleted(UID, value(noted_pod, api))
    for noted_pod in notes.ended:
        real.note_terminating(UID, value(noted_pod, api))
    ended = notes.ended
    match event:
        case "terminating":
            real.note_terminating(UID, value(pod, api))
            others = tuple(noted_pod for noted_pod in ended if noted_pod[:2] != pod[:2])
            ended = (*others, pod) if pod.has_ended else ended
        case "deleted":
            real.note_deleted(UID, value(pod, api))
            ended = tuple(noted_pod for noted_pod in ended if noted_pod[:2] != pod[:2])
        case "created":
            real.note_created(UID, value(pod, api))
    departed = []
    for last in real.of(UID):
        # With the state from before its deletion, if that is what is kept.
        options = (state for state in (*notes.ended, pod, *notes.departed) if state.uid == last.uid)
        departed.append(next(state for state in options if _is(last, value(state, api))))
    return Notes(tuple(sorted(departed)), tuple(sorted(ended)))


def _is(last: Pod, state: Pod) -> bool:
    return (last.phase, last.main, last.is_terminating, last.restarts) == (
        state.phase,
        state.main,
        state.is_terminating,
        state.restarts,
    )
