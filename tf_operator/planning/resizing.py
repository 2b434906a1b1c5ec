"""Resizes of elastic jobs: what has changed, and whether the other pods have to be made again.

For how many replicas the pods of a type were made is in the record. The new number is recorded together with the UIDs
of the pods that are given up for it, before any is deleted: so a crash in between resizes nothing twice. A resize is
no failure and no disruption, and counts in no budget.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tf_operator.job.record import ReplicaType
from tf_operator.job.training_job import TFConfigFormat, TrainingJob


@dataclass(frozen=True, slots=True)
class SizeChange:
    """Another number of replicas of one type than that for which the pods were made."""

    type: ReplicaType
    old_count: int
    new_count: int
    replaces_pods: bool
    """Whether all pods of the job are made again, because the cluster that TF_CONFIG tells them is another."""


def resizes(job: TrainingJob) -> Iterator[SizeChange]:
    """What is not recorded yet. The first number that is seen of a type is recorded, and no resize."""
    for kind, count in sizes(job).items():
        old_count = job.record.of(kind).size
        if old_count is not None and old_count != count:
            yield SizeChange(
                kind, old_count, count, replaces_pods=replaces_pods(job, kind, is_growth=count > old_count)
            )


def may_change(job: TrainingJob, kind: ReplicaType) -> bool:
    """Whether there may be another number of this type while the job runs."""
    is_dynamic = job.has_dynamic_workers and kind is ReplicaType.WORKER
    return is_dynamic or (job.elastic is not None and job.elastic.range_of(kind) is not None)


def sizes(job: TrainingJob) -> Mapping[ReplicaType, int]:
    """The number of replicas in force, of each type that may be resized."""
    ranges = {limits.type for limits in job.elastic.ranges} if job.elastic else frozenset[ReplicaType]()
    return {spec.type: spec.count for spec in job.replicas if spec.type in ranges}


def replaces_pods(job: TrainingJob, kind: ReplicaType, *, is_growth: bool) -> bool:
    """Whether a resize of this type replaces the other pods.

    Every replica has to know all parameter servers, and their variables are distributed again. Of workers, those that
    remain go on if they do not know each other; or if one is gone that parameter servers can do without. Without
    parameter servers they train in step, and none goes on without the one that is gone.
    """
    if kind is ReplicaType.PS:
        return True
    if job.has_dynamic_workers or job.tf_config_format is TFConfigFormat.SPARSE:
        return False
    return is_growth or job.spec_of(ReplicaType.PS) is None
