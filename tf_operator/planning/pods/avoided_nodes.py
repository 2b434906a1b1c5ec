"""The nodes on which replicas of a job have failed: which failures count, what pods get to stay away, and until when.

A failure counts in the write that records the loss, so it counts once. Nothing is shared between jobs: a tenant could
drive others off a node. And it never keeps a job from running: when no node takes a pod for a while, the node that has
been avoided longest is allowed again, and the pods that wait are made again, because their affinity cannot change.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from msgspec import structs

from tf_operator.job import constants, templates
from tf_operator.job.profile import OOM_KILLED
from tf_operator.job.record import ENDS, IDLE, LONGEST_CAUSE, MOST_AVOIDED, MOST_CAUSES, JobPhase, NodeRecord
from tf_operator.job.training_job import ReplicaSpec, TrainingJob
from tf_operator.meta import Body, list_of, mapping_of, objects_of
from tf_operator.planning.kueue import admission
from tf_operator.planning.pods import pod_state
from tf_operator.planning.pods.pod_state import PodState
from tf_operator.planning.replicas import Replica, ReplicaLoss
from tf_operator.planning.snapshot import Pod, Settings, Snapshot
from tf_operator.text import one_line

FORGOTTEN_AFTER: Final = timedelta(hours=24)
ALLOWED_AFTER: Final = timedelta(minutes=5)
"""So long no node takes a pod before one is allowed again."""
_LEAST_CODE: Final = 128
"""Lower exit codes are the program's own fault, on every node."""
_REASONS: Final = frozenset({"NodeLost", "NodeShutdown", "Terminated", "UnexpectedAdmissionError"})
"""Of pods that their node has disrupted, and not whoever drains it or needs its room."""
_UNSCHEDULABLE: Final = "Unschedulable"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_NAME: Final = "metadata.name"
_HOST_NAME: Final = "kubernetes.io/hostname"


# --- What is remembered --------------------------------------------------------------------------------------------


def next_records(
    snapshot: Snapshot, replicas: Iterable[Replica], losses: Iterable[ReplicaLoss], phase: JobPhase
) -> tuple[NodeRecord, ...]:
    """The nodes after these losses, if the job is in this phase from now on.

    A job that will wait in the job queue forgets them: that might find no other node for it, and without pods nothing
    would allow one again.
    """
    limit = _limit(snapshot.job, snapshot.settings)
    if limit is None or (phase in IDLE and snapshot.settings.has_job_queue):
        return ()
    without = None if phase in ENDS | IDLE else allowed_again(snapshot, replicas)
    entries = (entry for entry in snapshot.job.record.avoided_nodes if not is_over(entry.time, snapshot.now))
    nodes = {entry.node: entry for entry in entries if entry.node != without}
    for loss in losses:
        if loss.pod and (cause := _cause(loss, loss.pod)):
            entry = _add_failure(nodes, loss.pod.host.node, cause, snapshot.now)
            is_avoided = entry.is_avoided or loss.pod.host.has_unhealthy_device
            nodes[entry.node] = structs.replace(entry, is_avoided=is_avoided)
    records = [
        structs.replace(entry, is_avoided=entry.is_avoided or entry.failures >= limit) for entry in nodes.values()
    ]
    return tuple(records[-MOST_AVOIDED:])


def allowed_again(snapshot: Snapshot, replicas: Iterable[Replica]) -> str | None:
    """The node that has been avoided longest, if no node takes a pod for too long that must not be there."""
    rules = {node for replica in replicas if _has_waited(replica, snapshot.now) for node in _avoided_by(replica)}
    return next((node for node in names(snapshot.job, snapshot.job.record.avoided_nodes) if node in rules), None)


def stranded(snapshot: Snapshot, replicas: Sequence[Replica]) -> Iterator[Replica]:
    """The replicas without a node whose pods are made again, because new ones may be where those must not be."""
    allowed_node = allowed_again(snapshot, replicas)
    in_force = set(names(snapshot.job, snapshot.job.record.avoided_nodes)) - {allowed_node}
    for replica in replicas:
        nodes = _avoided_by(replica) - in_force
        if allowed_node in nodes or (nodes and _has_waited(replica, snapshot.now)):
            yield replica


def wake_ups(replicas: Iterable[Replica], nodes: Iterable[NodeRecord]) -> Iterator[datetime]:
    """When a node is allowed again, or forgotten, if nothing happens until then."""
    yield from (entry.time + FORGOTTEN_AFTER for entry in nodes if entry.time)
    moments = (replica.waits_since for replica in replicas if _avoided_by(replica))
    yield from (moment + ALLOWED_AFTER for moment in moments if moment)


def _add_failure(nodes: dict[str, NodeRecord], node: str, cause: str, now: datetime) -> NodeRecord:
    """The record of a node with one more failure. Unless it is avoided already, it becomes the newest."""
    entry = nodes.get(node) or NodeRecord(node, failures=0)
    if not entry.is_avoided:
        nodes.pop(node, None)
        entry = structs.replace(entry, time=now.replace(microsecond=0))
    return structs.replace(entry, failures=entry.failures + 1, causes=(*entry.causes, cause)[-MOST_CAUSES:])


def _cause(loss: ReplicaLoss, pod: Pod) -> str:
    """What is blamed on the node of a pod, in a few words; empty for what may have happened anywhere."""
    main, text = pod.main, ""
    if pod_state.is_disrupted(pod):
        text = pod.reason if pod.reason in _REASONS or pod_state.was_refused(pod) else ""
    elif loss.outcome is PodState.FAILED and main and main.exit_code and main.exit_code >= _LEAST_CODE:
        text = "" if main.reason == OOM_KILLED else f"exit {main.exit_code}"
    if pod.host.has_unhealthy_device:
        text = "unhealthy device"
    return one_line(f"{loss.type.label}-{loss.index} {text}", most=LONGEST_CAUSE) if text and pod.host.node else ""


def _avoided_by(replica: Replica) -> set[str]:
    """The nodes that its pod was made to stay away from, as long as it waits for a node."""
    pod = replica.pod if replica.outcome is PodState.PENDING else None
    return set(pod.host.avoided.split(",")) if pod and pod.host.avoided else set()


def _has_waited(replica: Replica, now: datetime) -> bool:
    """Whether the scheduler has said for long that no node takes its pod."""
    is_refused = replica.pod is not None and replica.pod.pending_reason.startswith(_UNSCHEDULABLE)
    return is_refused and is_over(replica.waits_since, now, ALLOWED_AFTER)


def is_over(moment: datetime | None, now: datetime, span: timedelta = FORGOTTEN_AFTER) -> bool:
    """Whether so much lies between the two; what lies as far ahead was noted by a wrong clock, or by nobody."""
    return moment is None or abs(now - moment) >= span


# --- What pods get -------------------------------------------------------------------------------------------------


def names(job: TrainingJob, nodes: Iterable[NodeRecord]) -> tuple[str, ...]:
    """The nodes that new pods of the job avoid."""
    return tuple(entry.node for entry in nodes if entry.is_avoided) if job.run_policy.avoid_after is not None else ()


def describe(node: NodeRecord) -> str:
    """What is blamed on a node: ``2 failures (worker-1 exit 139, worker-3 exit 134)``."""
    causes = f" ({', '.join(node.causes)})" if node.causes else ""
    return f"{node.failures} failure{'s' * (node.failures != 1)}{causes}"


def annotations(spec: ReplicaSpec, nodes: Sequence[str]) -> dict[str, str]:
    """What tells the pods of one type apart that were made to stay away from these nodes."""
    return (
        {constants.AVOIDED_NODES_ANNOTATION: ",".join(nodes)} if nodes and not fixed_by(templates.pod_of(spec)) else {}
    )


def avoiding(pod: dict[str, Any], nodes: Iterable[str]) -> dict[str, Any]:
    """The pod's spec, with each term of its required node affinity, or a new one, without these nodes.

    A term without requirements accepts no node, and stays so. What is not of the type that it should be is left to the
    API server.
    """
    exclusions = [{"key": _NAME, "operator": "NotIn", "values": [node]} for node in nodes]
    if not exclusions:
        return pod
    affinity = pod.get("affinity") or {}
    of_nodes = mapping_of(affinity).get("nodeAffinity") or {}
    affinity_required = mapping_of(of_nodes).get(_REQUIRED)
    terms = [{}] if affinity_required is None else mapping_of(affinity_required).get("nodeSelectorTerms")
    is_understood = all(isinstance(part, dict) for part in (affinity, of_nodes, affinity_required or {}))
    if not is_understood or not isinstance(terms, list) or fixed_by(pod):
        return pod
    new_terms = [_exclude_nodes(term, exclusions, accepts_none=affinity_required is not None) for term in terms]
    affinity_required = {**(affinity_required or {}), "nodeSelectorTerms": new_terms}
    return {**pod, "affinity": {**affinity, "nodeAffinity": {**of_nodes, _REQUIRED: affinity_required}}}


def _exclude_nodes(term: object, exclusions: Sequence[Body], *, accepts_none: bool) -> object:
    """The term, of which an empty one ``accepts_none``, without these nodes."""
    if not isinstance(term, dict):
        return term
    fields = term.get("matchFields") or []
    is_empty = not (fields or term.get("matchExpressions"))
    if (is_empty and accepts_none) or not isinstance(fields, list):
        return term
    return {**term, "matchFields": [*fields, *exclusions]}


def fixed_by(pod: Body) -> str:
    """What decides alone on which node a pod runs, in words; empty if it may be on others."""
    if any(gate.get("name") == admission.TOPOLOGY_GATE for gate in objects_of(pod.get("schedulingGates"))):
        return "Kueue's topology names the node of each pod"
    affinity = mapping_of(mapping_of(mapping_of(pod.get("affinity")).get("nodeAffinity")).get(_REQUIRED))
    nodes = {_only_name(term) for term in objects_of(affinity.get("nodeSelectorTerms"))}
    has_host_name = bool(mapping_of(pod.get("nodeSelector")).get(_HOST_NAME))
    if pod.get("nodeName") or has_host_name or (len(nodes) == 1 and "" not in nodes):
        return "the template names the node"
    return ""


def without_effect(job: TrainingJob, settings: Settings) -> str:
    """Why pods do not avoid nodes although the job asks for it; empty if all do."""
    if job.run_policy.avoid_after is None:
        return ""
    if settings.has_one_node:
        return "there is only one node"
    reasons = {spec.type: fixed_by(templates.pod_of(spec)) for spec in job.replicas}
    return "; ".join(f"{job.profile.words.type(kind)}: {reason}" for kind, reason in reasons.items() if reason)


def _limit(job: TrainingJob, settings: Settings) -> int | None:
    """After how many failures a node is avoided; ``None`` where no pod could be kept away from it."""
    if job.run_policy.avoid_after is None:
        return None
    has_choice = not settings.has_one_node and not all(fixed_by(templates.pod_of(spec)) for spec in job.replicas)
    return job.run_policy.avoid_after if has_choice else None


def _only_name(term: Body) -> str:
    """The node that a term names; empty if it accepts others."""
    fields = (entry for entry in objects_of(term.get("matchFields")) if entry.get("key") == _NAME)
    name_lists = [list_of(entry.get("values")) for entry in fields if entry.get("operator") == "In"]
    return str(name_lists[0][0]) if name_lists and len(name_lists[0]) == 1 else ""
