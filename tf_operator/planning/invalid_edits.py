"""Edits of a job that runs which no new job may have: they are ignored and reported, and never end the job.

The schema refuses them; what gets here came by a CRD without its rules, or is older than a rule. Some of it can be
ignored alone: a number of replicas outside of the elastic range, a negative time, a template that no pod can be made
from. With anything else that is wrong nobody knows how the job is meant, and its pods are left as they are.
"""

from dataclasses import replace

from tf_operator.job import validation
from tf_operator.job.record import ReplicaType
from tf_operator.job.training_job import ElasticRange, FieldError, ReplicaSpec, RunPolicy, TrainingJob
from tf_operator.planning.snapshot import Snapshot


def ignored(snapshot: Snapshot) -> Snapshot:
    """The snapshot of the job as it goes on; the same one where nothing is wrong, or too much of it."""
    job = snapshot.job
    found = _not_tolerated(job)
    if not found or not snapshot.is_under_way:
        return snapshot
    changed = _corrected(job)
    templates = {error for spec in job.replicas for error in validation.template_problems(spec, job.profile)}
    if not templates.issuperset(_not_tolerated(changed)):
        return snapshot
    return replace(snapshot, job=changed, ignored=found)


def _not_tolerated(job: TrainingJob) -> tuple[FieldError, ...]:
    return tuple(error for error in validation.validate(job) if not error.is_tolerated)


def _corrected(job: TrainingJob) -> TrainingJob:
    """The job with as many replicas as its pods were made for, and without limits that are none."""
    if job.elastic:
        ranges = tuple(_around(found, _made_for(job, found)) for found in job.elastic.ranges)
        replicas = tuple(_within(spec, job) for spec in job.replicas)
        job = replace(job, elastic=replace(job.elastic, ranges=ranges), replicas=replicas)
    return replace(job, run_policy=_with_possible_times(job.run_policy))


def _within(spec: ReplicaSpec, job: TrainingJob) -> ReplicaSpec:
    """The replicas of one type, with the last number that was within their range, if this one is not."""
    found = job.elastic.range_of(spec.type) if job.elastic else None
    if found is None or 0 < found.least <= spec.count <= found.most:
        return spec
    made_for = _made_for(job, found)
    if made_for is None:
        return replace(spec, count=min(max(spec.count, found.least), found.most))
    return replace(spec, count=made_for)


def _around(found: ElasticRange, count: int | None) -> ElasticRange:
    """A range that does not take away what is there."""
    if count is None:
        return found
    if not 0 < found.least <= found.most:
        return replace(found, least=count, most=count)
    return replace(found, least=min(found.least, count), most=max(found.most, count))


def _made_for(job: TrainingJob, found: ElasticRange) -> int | None:
    """For how many replicas of a type the pods were made; the queue may have admitted fewer than were asked for."""
    elastic = job.record.elastic
    if found.type is ReplicaType.WORKER and elastic.workers is not None and elastic.asked is not None:
        return elastic.asked
    return job.record.of(found.type).size


def _with_possible_times(policy: RunPolicy) -> RunPolicy:
    return replace(
        policy,
        backoff_limit=_possible(policy.backoff_limit, 0),
        deadline_seconds=_possible(policy.deadline_seconds, 0),
        startup_deadline_seconds=_possible(policy.startup_deadline_seconds, 1),
    )


def _possible(value: int | None, least: int) -> int | None:
    return None if value is not None and value < least else value
