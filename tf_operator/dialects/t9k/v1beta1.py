"""``batch.tensorstack.dev/v1beta1`` TensorFlowTrainingJob: how it is read, and what is special about its jobs.

``API`` is all that the rest of the operator sees of it.
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, Final

from msgspec import structs

from tf_operator.dialects import metadata as job_metadata
from tf_operator.dialects import summaries
from tf_operator.dialects.fields import Fields
from tf_operator.dialects.served import Crd, JobSummary, ServedAPI
from tf_operator.dialects.t9k import run_mode, status, tfjob, words
from tf_operator.job import defaults
from tf_operator.job.constants import T9K_SCHEDULER
from tf_operator.job.profile import AfterEnd, ExitCodes, FailureScope, Labels, Profile, RestartBy, Words
from tf_operator.job.record import ENDS, JobPhase, ReplicaType
from tf_operator.job.training_job import (
    CleanPodPolicy,
    FieldError,
    Override,
    ReplicaSpec,
    RestartPolicy,
    RunPolicy,
    SchedulingPolicy,
    TrainingJob,
)
from tf_operator.meta import Body, GroupVersionResource, objects_of, text_of

RESOURCE: Final = GroupVersionResource(
    "batch.tensorstack.dev", "v1beta1", "tensorflowtrainingjobs", "TensorFlowTrainingJob"
)
_TYPES: Final = {kind.label: kind for kind in ReplicaType if kind is not ReplicaType.MASTER}
PROFILE: Final = Profile(
    api_version=RESOURCE.api_version,
    kind=RESOURCE.kind,
    container="tensorflow",
    port_name="tfjob-port",
    port=2222,
    exit_codes=ExitCodes(frozenset({130, 137, 138, 143})),
    words=Words(
        "spec.replicaSpecs",
        types={kind: name for name, kind in _TYPES.items()},
        clean_up="cleanUpPolicy",
        clean_up_values={CleanPodPolicy.RUNNING: "cleanUpPolicy Unfinished"},
        scheduling="scheduler.t9kScheduler",
        suspend="spec.runMode.pause.enabled",
        resume="set spec.runMode.pause.enabled to false",
        suspended="paused",
    ),
    labels=Labels("tensorflowtrainingjob-controller", extra=(("tensorstack.dev/owner-name", "{job}"),)),
    failure_scope=FailureScope.DECIDING,
    restart_by=RestartBy.NEW_POD,
    after_end=AfterEnd.REPLICAS,
    has_tensorboard_spec=True,
)
MOST_REPLICAS: Final = 2000
"""The status lists each replica, in about 200 bytes."""
_LARGE: Final = 200
_SCHEDULER: Final = "t9kScheduler"
_TENSORBOARD: Final = "tensorboardSpec"
_HIGHEST_PRIORITY: Final = 100


class _CleanUpPolicy(StrEnum):
    NONE = "None"
    ALL = "All"
    UNFINISHED = "Unfinished"


_CLEAN_PODS: Final = {
    _CleanUpPolicy.NONE: CleanPodPolicy.NONE,
    _CleanUpPolicy.ALL: CleanPodPolicy.ALL,
    _CleanUpPolicy.UNFINISHED: CleanPodPolicy.RUNNING,
}


def read(metadata: Body, spec: object, stored_status: object) -> TrainingJob:
    """The job that a TensorFlowTrainingJob describes; with ``problems`` where it is none. Never raises."""
    problems: list[FieldError] = []
    fields = Fields({"spec": spec}, "", problems).below("spec")
    record = status.read(stored_status)
    job = structs.replace(
        job_metadata.job_of(metadata, stored_status, PROFILE),
        replicas=_read_replicas(fields, run_mode.overrides(fields, record)),
        run_policy=_read_run_policy(fields),
        record=record,
        problems=tuple(problems),
        tensorboard_spec=fields.below(_TENSORBOARD).body if fields.body.get(_TENSORBOARD) is not None else None,
    )
    return defaults.with_defaults(structs.replace(job, problems=(*job.problems, *_beyond_bounds(job))))


def _read_replicas(spec: Fields, overrides: Mapping[str, Override]) -> tuple[ReplicaSpec, ...]:
    """The replica specs in the order of the list. Two items for one type, and unknown types, are problems."""
    replicas: dict[ReplicaType, ReplicaSpec] = {}
    for index, entry in enumerate(objects_of(spec.body.get("replicaSpecs"))):
        item = Fields(entry, f"{spec.at('replicaSpecs')}[{index}]", spec.problems)
        kind = _TYPES.get(item.text("type"))
        if kind is None:
            item.wrong("type", f"is no replica type; there are {', '.join(_TYPES)}")
        elif kind in replicas:
            item.wrong("type", f"is {kind.label} again")
        else:
            replicas[kind] = structs.replace(_read_replica(kind, item), override=overrides.get(kind.label))
    return tuple(replicas.values())


def _read_replica(kind: ReplicaType, item: Fields) -> ReplicaSpec:
    count = item.integer("replicas")
    return ReplicaSpec(
        type=kind,
        count=defaults.REPLICAS if count is None else count,
        restart_policy=item.one_of("restartPolicy", RestartPolicy, RestartPolicy.ON_FAILURE),
        template=item.below("template").body,
        path=item.path,
    )


def _read_run_policy(spec: Fields) -> RunPolicy:
    policy = spec.below("runPolicy")
    return RunPolicy(
        clean_pods=_CLEAN_PODS[policy.one_of("cleanUpPolicy", _CleanUpPolicy, _CleanUpPolicy.NONE)],
        deadline_seconds=policy.integer("activeDeadlineSeconds"),
        backoff_limit=policy.integer("backoffLimit"),
        is_suspended=spec.below("runMode").below("pause").flag("enabled"),
        scheduling=_read_scheduling(spec.below("scheduler")),
    )


def _read_scheduling(scheduler: Fields) -> SchedulingPolicy:
    """Without ``t9kScheduler`` the operator's scheduler, if it has one, or the default one."""
    t9k = scheduler.below(_SCHEDULER)
    if scheduler.body.get(_SCHEDULER) is None:
        return SchedulingPolicy()
    priority = t9k.integer("priority") or 0
    if not 0 <= priority <= _HIGHEST_PRIORITY:
        t9k.wrong("priority", f"must be from 0 to {_HIGHEST_PRIORITY}, is {priority}")
    return SchedulingPolicy(queue=t9k.text("queue", "default"), scheduler=T9K_SCHEDULER, priority=priority)


def _beyond_bounds(job: TrainingJob) -> Iterator[FieldError]:
    """What is narrower here than in other APIs."""
    if job.pod_count > MOST_REPLICAS:
        rule = f"must have at most {MOST_REPLICAS} replicas in all, has {job.pod_count}"
        yield FieldError(job.profile.words.replicas, rule)
    if job.run_policy.deadline_seconds == 0:
        yield FieldError("spec.runPolicy.activeDeadlineSeconds", "must be at least 1, is 0")


def _progress_waits(job: TrainingJob) -> float:
    """The status of a large job has several 100 kB."""
    return 10.0 if job.pod_count > _LARGE else 1.0


# --- What metrics and the check for other controllers want to know of every job that changes ------------------------


def summarize(metadata: Mapping[str, Any], _spec: bytes, stored_status: bytes) -> JobSummary:
    """Where a job stands, in the phases that all APIs share: those of the metrics."""
    return summaries.summarize(metadata, stored_status, _end_in)


def _end_in(status: Body) -> JobPhase:
    phase = text_of(status, "phase")
    return JobPhase(phase) if phase in ENDS else JobPhase.NEW


API: Final = ServedAPI(
    resource=RESOURCE,
    profiles=(PROFILE,),
    read=read,
    write_status=status.write,
    summarize=summarize,
    record_in="operator",
    framework="t9k",
    crd=Crd(__package__),
    event_reasons=words.EVENT_REASONS,
    failure_reasons=words.FAILURE_REASONS,
    translate=tfjob.translate,
    shows_containers=True,
    gang_scheduler=T9K_SCHEDULER,
    progress_waits=_progress_waits,
)
