"""What reconciles make of the queue's decisions, which are in the record of the job.

A job that waits for room is held back. The pods of one that has it prefer the node that was chosen for them.
``planning.autoscaling`` decides; nothing here does.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tf_operator.job.record import NOT_ELASTIC, ElasticRecord, JobPhase, JobRecord, ReplicaType
from tf_operator.job.training_job import ReplicaSpec, TrainingJob
from tf_operator.meta import Body
from tf_operator.planning import resizing
from tf_operator.planning.autoscaling import shapes
from tf_operator.planning.snapshot import Hold, Snapshot

REASON = "NoRoom"
_MOST_WEIGHT = 100


def hold(snapshot: Snapshot) -> Hold | None:
    """Why the job may have no pods now, as far as the queue is concerned."""
    job = snapshot.job
    if not snapshot.settings.has_queue or not job.pod_count or not waits(job):
        return None
    rules = shapes.rules_of(pod_of(spec) for spec in job.replicas if spec.count)
    if rules > shapes.MOST_RULES:
        most = f"{shapes.MOST_RULES} values of nodeSelector, node affinity and tolerations"
        return Hold(REASON, f"Its pods have {rules} rules about nodes; the queue compares at most {most} with nodes.")
    return Hold(REASON, f"It waits until its {job.pod_count} pods fit into what the nodes have left.")


def waits(job: TrainingJob) -> bool:
    """Whether a job has to wait for its admission. One that ran before there was a queue goes on."""
    record = job.record
    return record.elastic.admitted_at is None and (record.start_time is None or record.is_idle)


def recorded(snapshot: Snapshot, record: JobRecord) -> JobRecord:
    """Since when a job waits, or how many workers have room; and nothing of a suspended one, which has given it up."""
    elastic, has_queue = record.elastic, snapshot.settings.has_queue
    if record.phase is JobPhase.SUSPENDED:
        return record.changed(elastic=NOT_ELASTIC)
    if record.phase is JobPhase.QUEUED and has_queue and not elastic.queued_at:
        return record.changed(elastic=replace(elastic, queued_at=snapshot.now))
    if record.is_idle or record.is_finished:
        return record
    admitted = with_room(elastic, snapshot.job if has_queue else None)
    return record.changed(elastic=admitted) if admitted != elastic else record


def with_room(elastic: ElasticRecord, job: TrainingJob | None) -> ElasticRecord:
    """What is remembered of a job that has room for all its replicas, as far as these can be more later."""
    specs = job.replicas if job else ()
    counts = {spec.type: spec.count for spec in specs if job and resizing.may_change(job, spec.type)}
    workers, servers = counts.get(ReplicaType.WORKER), counts.get(ReplicaType.PS)
    return replace(elastic, admitted=workers, admitted_servers=servers)


def near(pod: dict[str, Any], node: str) -> dict[str, Any]:
    """The pod's spec, with a preference for this node. It is no more: the scheduler may know better."""
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    affinity = _object(pod.get("affinity"))
    of_nodes = _object(affinity.get("nodeAffinity"))
    listed = of_nodes.get(preferred)
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    terms = [*(listed if isinstance(listed, list) else ()), {"weight": _MOST_WEIGHT, "preference": term}]
    return {**pod, "affinity": {**affinity, "nodeAffinity": {**of_nodes, preferred: terms}}}


def pod_of(spec: ReplicaSpec) -> Body:
    """The spec of its pods, as the template says it."""
    return _object(spec.template.get("spec"))


def _object(value: object) -> Body:
    return value if isinstance(value, Mapping) else {}
