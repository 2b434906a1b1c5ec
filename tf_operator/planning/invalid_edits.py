"""Edits of a job that runs which no new job may have: they are ignored and reported, and never end the job.

The schema refuses them; what gets here came by a CRD without its rules, or is older than a rule. Some of it can be
ignored alone: another number of replicas, of which the pods that are there know nothing, or one outside of the elastic
range; another way to restart than theirs; a negative time; a template that no pod can be made from. With anything else
that is wrong nobody knows how the job is meant, and its pods are left as they are.
"""

from collections.abc import Iterator, Mapping

from msgspec import structs

from tf_operator.job import constants, naming, validation
from tf_operator.job.progress import HangAction, ProgressPolicy
from tf_operator.job.record import ReplicaType
from tf_operator.job.training_job import (
    ElasticRange,
    FieldError,
    NetworkPolicyMode,
    ReplicaSpec,
    RestartMethod,
    RestartScope,
    RunPolicy,
    ServiceMode,
    TrainingJob,
)
from tf_operator.planning import resizing
from tf_operator.planning.bodies import resize_sidecar
from tf_operator.planning.replicas import is_from_before
from tf_operator.planning.snapshot import Pod, Snapshot


def ignored(snapshot: Snapshot) -> Snapshot:
    """The snapshot of the job as it goes on; the same one where nothing is wrong, or too much of it."""
    job = snapshot.job
    if not snapshot.is_under_way:
        return snapshot
    counts = {} if job.run_policy.is_suspended else dict(_fixed_counts(snapshot))
    in_place = _restarts_in_place_still(snapshot)
    mode = job.service_mode if job.run_policy.is_suspended else _mode_of_its_pods(snapshot)
    network = job.network_policy if job.run_policy.is_suspended else _network_of_its_pods(snapshot)
    problems = (*_not_tolerated(job), *_changes(job, counts, mode, network, in_place=in_place))
    if not problems:
        return snapshot
    valid_job = _correct(
        structs.replace(_with_replicas_of_pods(job, counts), service_mode=mode, network_policy=network)
    )
    if in_place:
        policy = structs.replace(
            valid_job.run_policy, restart_scope=RestartScope.JOB, restart_method=RestartMethod.IN_PLACE
        )
        valid_job = structs.replace(valid_job, run_policy=policy)
    templates = {error for spec in job.replicas for error in validation.template_problems(spec, job.profile)}
    if not templates.issuperset(_not_tolerated(valid_job)):
        return snapshot
    return snapshot.changed(job=valid_job, ignored=problems)


def _fixed_counts(snapshot: Snapshot) -> Iterator[tuple[ReplicaType, int]]:
    """The number of replicas of each type that has another one in the spec, and may not change while the job runs."""
    job = snapshot.job
    for spec in job.replicas:
        if resizing.may_change(job, spec.type):
            continue
        count = _plain_size(snapshot, spec)
        if count is not None and count != spec.count:
            yield spec.type, count


def _restarts_in_place_still(snapshot: Snapshot) -> bool:
    """Whether pods were made to restart in place, together, and the spec says nothing of it any more.

    They keep their rules: a program that fails would be started again alone.
    """
    job = snapshot.job
    if job.run_policy.is_suspended or job.run_policy.restart_method is RestartMethod.IN_PLACE:
        return False
    return any(
        pod.restart_rules
        and resize_sidecar.takes_attempts(pod)
        and pod.is_there
        and not is_from_before(pod, job.record)
        for pod in snapshot.pods
    )


def _plain_size(snapshot: Snapshot, spec: ReplicaSpec) -> int | None:
    """For how many replicas of a type the pods were made that may not be resized; ``None`` if nobody knows.

    It is recorded from the first edit on that is ignored. Before that, all replicas were running once, and what became
    of each is in the record; one that has left no trace at all is new.
    """
    record, replica = snapshot.job.record, snapshot.job.record.of(spec.type)
    if replica.size is not None or record.all_running_time is None:
        return replica.size
    if spec.type not in record.replicas:
        return 0
    if snapshot.job.generation == record.observed_generation:
        return None
    count = max((replica.started | replica.completed | replica.failed).members, default=-1) + 1
    has_traces = any(kind is spec.type and index >= count for kind, index in _traces(snapshot))
    return None if has_traces and count < spec.count else count


def _traces(snapshot: Snapshot) -> Iterator[tuple[ReplicaType, int]]:
    """The replicas that have, or had, a pod or a Service."""
    job = snapshot.job
    yield from ((pod.type, pod.index) for pod in snapshot.pods)
    yield from ((entry.type, entry.index) for entry in job.record.restart_records)
    for service in snapshot.services:
        if place := naming.replica_of(job.key.name, service.name, job.profile.names):
            yield place


def _mode_of_its_pods(snapshot: Snapshot) -> ServiceMode:
    """By which Services the pods find each other that have not ended; what the spec says, where nothing shows that."""
    job, services = snapshot.job, snapshot.services
    if not _active_pods(snapshot):
        return job.service_mode
    has_own = any(service.name == job.key.name for service in services)
    have_replicas = any(naming.replica_of(job.key.name, service.name, job.profile.names) for service in services)
    if has_own is have_replicas:
        return job.service_mode
    return ServiceMode.JOB if has_own else ServiceMode.REPLICA


def _network_of_its_pods(snapshot: Snapshot) -> NetworkPolicyMode | None:
    """In which network the pods are that have not ended, if they stay in it; else what the spec says."""
    job, pods = snapshot.job, _active_pods(snapshot)
    is_isolated = any(pod.is_isolated for pod in pods)
    if not snapshot.settings.marks_isolated or not pods or is_isolated is job.is_isolated:
        return job.network_policy
    return NetworkPolicyMode.JOB if is_isolated else NetworkPolicyMode.NONE


def _active_pods(snapshot: Snapshot) -> list[Pod]:
    return [pod for pod in snapshot.pods if not (pod.is_gone or pod.phase in {"Succeeded", "Failed"})]


def _changes(
    job: TrainingJob,
    counts: Mapping[ReplicaType, int],
    mode: ServiceMode,
    network: NetworkPolicyMode | None,
    *,
    in_place: bool,
) -> Iterator[FieldError]:
    word = job.profile.words.suspended
    when = f"can only change while the job is {word}" if word else "cannot change while the job runs"
    for spec in job.replicas:
        if spec.type in counts:
            rule = f"{when}, is {spec.count}, and the job runs with {counts[spec.type]}"
            yield FieldError(f"{spec.path}.replicas", rule)
    if in_place:
        yield FieldError("spec.runPolicy.restarts.method", f"{when}, and its pods restart in place")
    if mode is not job.service_mode:
        yield FieldError("spec.serviceMode", f"{when}, is {job.service_mode}, and the job runs with {mode}")
    if network is not job.network_policy:
        own = job.network_policy or NetworkPolicyMode.NONE
        yield FieldError("spec.networkPolicy", f"{when}, is {own}, and the job runs with {network}")


def _with_replicas_of_pods(job: TrainingJob, counts: Mapping[ReplicaType, int]) -> TrainingJob:
    """The job with the replicas that its pods know of, and with their numbers recorded; without types that are new."""
    if not counts:
        return job
    specs = (structs.replace(spec, count=counts.get(spec.type, spec.count)) for spec in job.replicas)
    sizes = {kind: structs.replace(job.record.of(kind), size=count) for kind, count in counts.items() if count}
    record = job.record.changed(replicas={**job.record.replicas, **sizes})
    return structs.replace(
        job, replicas=tuple(spec for spec in specs if spec.count or spec.type not in counts), record=record
    )


def _not_tolerated(job: TrainingJob) -> tuple[FieldError, ...]:
    return tuple(error for error in validation.validate(job) if not error.is_tolerated)


def _correct(job: TrainingJob) -> TrainingJob:
    """The job with as many replicas as its pods were made for, and without limits that are none."""
    if job.elastic:
        ranges = tuple(_range_including(limits, _made_for(job, limits)) for limits in job.elastic.ranges)
        replicas = tuple(_within(spec, job) for spec in job.replicas)
        job = structs.replace(job, elastic=structs.replace(job.elastic, ranges=ranges), replicas=replicas)
    return structs.replace(job, run_policy=_with_possible_times(job.run_policy))


def _within(spec: ReplicaSpec, job: TrainingJob) -> ReplicaSpec:
    """The replicas of one type, with the last number that was within their range, if this one is not."""
    limits = job.elastic.range_of(spec.type) if job.elastic else None
    if limits is None or 0 < limits.least <= spec.count <= limits.most:
        return spec
    made_for = _made_for(job, limits)
    if made_for is None:
        return structs.replace(spec, count=min(max(spec.count, limits.least), limits.most))
    return structs.replace(spec, count=made_for)


def _range_including(limits: ElasticRange, count: int | None) -> ElasticRange:
    """A range that does not take away what is there."""
    if count is None:
        return limits
    if not 0 < limits.least <= limits.most:
        return structs.replace(limits, least=count, most=count)
    return structs.replace(limits, least=min(limits.least, count), most=max(limits.most, count))


def _made_for(job: TrainingJob, limits: ElasticRange) -> int | None:
    """For how many replicas of a type the pods were made; the queue may have admitted fewer than were asked for."""
    asked_for = job.record.elastic.asked_for if limits.type is ReplicaType.WORKER else None
    return job.record.of(limits.type).size if asked_for is None else asked_for


def _with_possible_times(policy: RunPolicy) -> RunPolicy:
    return structs.replace(
        policy,
        backoff_limit=_possible(policy.backoff_limit, 0),
        avoid_after=_possible(policy.avoid_after, 1, constants.MOST_FAILURES_OF_NODE),
        deadline_seconds=_possible(policy.deadline_seconds, 0),
        startup_deadline_seconds=_possible(policy.startup_deadline_seconds, 1),
        progress=_possible_progress(policy.progress),
    )


def _possible_progress(policy: ProgressPolicy) -> ProgressPolicy:
    seconds = _possible(policy.deadline_seconds if policy.reports else None, constants.LEAST_PROGRESS_DEADLINE)
    return ProgressPolicy(policy.reports, seconds, policy.action if seconds else HangAction.REPORT)


def _possible(value: int | None, least: int, most: int | None = None) -> int | None:
    return value if value is not None and value >= least and (most is None or value <= most) else None
