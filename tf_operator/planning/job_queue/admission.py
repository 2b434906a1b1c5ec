"""What reconciles make of the queue's decisions, which are in the record of the job.

A job that waits for room is held back. The pods of one that has it prefer the node that was chosen for them.
``planning.job_queue`` decides; nothing here does.
"""

from typing import Any

from msgspec import structs

from tf_operator.job import templates
from tf_operator.job.profile import Words
from tf_operator.job.record import (
    NOT_ELASTIC,
    NOT_IN_QUEUE,
    JobPhase,
    JobRecord,
    QueueRecord,
    ReplicaType,
    UnfitCause,
    UnfitRecord,
)
from tf_operator.job.training_job import TrainingJob
from tf_operator.meta import list_of, mapping_of
from tf_operator.planning.job_queue import shapes
from tf_operator.planning.snapshot import Hold, Snapshot

REASON = "NoRoom"
_UNFIT_REASON = "CannotFit"
_MOST_WEIGHT = 100


def hold(snapshot: Snapshot) -> Hold | None:
    """Why the job may have no pods now, as far as the queue is concerned."""
    job = snapshot.job
    if not snapshot.settings.has_job_queue or not job.pod_count or not waits(job):
        return None
    rules = shapes.rules_of(templates.pod_of(spec) for spec in job.replicas if spec.count)
    if rules > shapes.MOST_RULES:
        most = f"{shapes.MOST_RULES} values of nodeSelector, node affinity and tolerations"
        return Hold(REASON, f"Its pods have {rules} rules about nodes; the queue compares at most {most} with nodes.")
    if unfit := job.record.queue.unfit:
        return Hold(_UNFIT_REASON, f"{_unfit_sentence(unfit, job.profile.words)} It waits for other nodes, or an edit.")
    pods = "pod fits" if job.pod_count == 1 else f"{job.pod_count} pods fit"
    return Hold(REASON, f"It waits until its {pods} into what the nodes have left.")


def _unfit_sentence(unfit: UnfitRecord, words: Words) -> str:
    pod = f"its {words.type(unfit.type)} pods" if unfit.type else "its pods"
    if unfit.cause is UnfitCause.TOO_MANY_PODS and unfit.resource:
        return f"Together {pod} request more {unfit.resource} than all nodes have."
    if unfit.cause is UnfitCause.TOO_MANY_PODS:
        return f"Even if nothing else ran on them, the nodes would not have room for all {pod}."
    if unfit.cause is UnfitCause.NO_NODE:
        return f"No node may run {pod}, by their nodeSelector, node affinity and tolerations."
    if unfit.resource:
        return f"No node that may run {pod} has as much {unfit.resource} as one of them requests."
    return f"No node that may run {pod} has all that one of them requests."


def is_outgrown(snapshot: Snapshot) -> bool:
    """Whether the job's pods ask for something else than what it was admitted with."""
    digest = snapshot.job.record.queue.admitted_pods
    return bool(digest and snapshot.pods_digest) and digest != snapshot.pods_digest


def requeued(snapshot: Snapshot, *, needs_pods: bool) -> Hold | None:
    """Why a job that has room gives it up: it needs pods for which no room was looked for.

    What runs was made from the template that was admitted, and goes on for as long as no pod is missing. While a part
    of the spec is ignored nobody knows how the job is meant: it goes on without new pods.
    """
    if not needs_pods or snapshot.ignored or not is_outgrown(snapshot):
        return None
    message = "What its pods ask for has changed since it was admitted, and it needs new ones: it is queued again."
    return Hold(REASON, message, gives_up_room=True)


def waits(job: TrainingJob) -> bool:
    """Whether a job has to wait for its admission. One that ran before there was a queue goes on."""
    record = job.record
    return record.queue.admitted_time is None and (record.start_time is None or record.is_idle)


def recorded(snapshot: Snapshot, record: JobRecord) -> JobRecord:
    """Since when a job waits, or how many workers have room; and nothing of a suspended one, which has given it up."""
    queue, has_job_queue = record.queue, snapshot.settings.has_job_queue
    if record.phase is JobPhase.SUSPENDED:
        return record.changed(queue=NOT_IN_QUEUE, elastic=NOT_ELASTIC)
    if record.phase is JobPhase.QUEUED and snapshot.hold and snapshot.hold.gives_up_room:
        return record.changed(queue=QueueRecord(queued_time=snapshot.now), elastic=NOT_ELASTIC)
    if record.phase is JobPhase.QUEUED and has_job_queue and not queue.queued_time:
        return record.changed(queue=structs.replace(queue, queued_time=snapshot.now))
    if record.is_idle or record.is_finished:
        return record
    pods = queue.admitted_pods or snapshot.pods_digest
    next_queue = with_room(queue, snapshot.job if has_job_queue else None, pods=pods if has_job_queue else "")
    return record.changed(queue=next_queue) if next_queue != queue else record


def with_room(queue: QueueRecord, job: TrainingJob | None, *, pods: str) -> QueueRecord:
    """What is remembered of a job that has room for all its replicas: an edit may want more of them."""
    counts = {spec.type: spec.count for spec in job.replicas} if job else {}
    workers, servers = counts.get(ReplicaType.WORKER), counts.get(ReplicaType.PS)
    return structs.replace(queue, admitted_workers=workers, admitted_servers=servers, admitted_pods=pods)


def near(pod: dict[str, Any], node: str) -> dict[str, Any]:
    """The pod's spec, with a preference for this node. It is no more: the scheduler may know better."""
    field = "preferredDuringSchedulingIgnoredDuringExecution"
    affinity = mapping_of(pod.get("affinity"))
    of_nodes = mapping_of(affinity.get("nodeAffinity"))
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    terms = [*list_of(of_nodes.get(field)), {"weight": _MOST_WEIGHT, "preference": term}]
    return {**pod, "affinity": {**affinity, "nodeAffinity": {**of_nodes, field: terms}}}
