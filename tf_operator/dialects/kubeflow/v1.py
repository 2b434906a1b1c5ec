"""``kubeflow.org/v1`` TFJob: the storage version, and the contract with everybody who has manifests.

Reads what Kubeflow's training-operator 1.9 reads, with its leniency: the keys of ``tfReplicaSpecs`` may be written
in any letter case, and what is left out has its defaults. A wrong value of an enum is a problem of the job that names
the field; where 1.9 gives it a meaning, such as All for any other cleanPodPolicy, it is read so, for jobs that 1.9 has
started.

``API`` is all that the rest of the operator sees of it.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, Final

import msgspec
from msgspec import structs

from tf_operator.dialects import metadata as job_metadata
from tf_operator.dialects.fields import Fields
from tf_operator.dialects.json_values import object_of
from tf_operator.dialects.kubeflow import status, v1alpha1_rules, words
from tf_operator.dialects.kubeflow.conditions import ConditionType
from tf_operator.dialects.kubeflow.versions import stored_schema
from tf_operator.dialects.kubeflow.versions.conversion import CONVERSION
from tf_operator.dialects.served import Crd, JobSummary, ServedAPI
from tf_operator.job import defaults
from tf_operator.job.constants import GANG_SCHEDULER_ANNOTATION, GROUP, OWN_MANAGER
from tf_operator.job.memory import OOMPolicy
from tf_operator.job.profile import ExitCodes, Labels, Profile, RestartBy, Words
from tf_operator.job.progress import HangAction, ProgressPolicy
from tf_operator.job.record import REPLICA_TYPES, ReplicaType
from tf_operator.job.report import JobReport
from tf_operator.job.training_job import (
    CleanPodPolicy,
    ElasticPolicy,
    ElasticRange,
    NetworkPolicyMode,
    ReplicaSpec,
    RestartMethod,
    RestartPolicy,
    RestartScope,
    RunPolicy,
    SchedulingPolicy,
    ServiceMode,
    SuccessPolicy,
    TFConfigFormat,
    TrainingJob,
)
from tf_operator.meta import Body, GroupVersionResource, mapping_of, parse_time, text_of

RESOURCE: Final = GroupVersionResource(GROUP, "v1", "tfjobs", "TFJob")
PROFILE: Final = Profile(
    api_version=RESOURCE.api_version,
    kind=RESOURCE.kind,
    container="tensorflow",
    port_name="tfjob-port",
    port=2222,
    exit_codes=ExitCodes(range(128, 256)),
    words=Words("spec.tfReplicaSpecs", tf_config_format="spec.tfConfigFormat"),
    labels=Labels("tfjob-controller"),
    suspend_path=("runPolicy", "suspend"),
    takes_reports=True,
)
WHOLE_JOB: Final = replace(PROFILE, restart_by=RestartBy.NEW_POD)
"""Of jobs that start again as a whole: the kubelet would start one container of them again, while the others go on."""
V1ALPHA1: Final = v1alpha1_rules.profile_of(PROFILE)
"""Of jobs that were created in v1alpha1."""
FORK: Final = replace(V1ALPHA1, exit_codes=replace(V1ALPHA1.exit_codes, retryable=range(128, 256)))
"""The same with the exit codes of the fork that added gang scheduling and auto-scaling to v1alpha1."""
_TYPES: Final = {kind.label: kind for kind in ReplicaType}
_ONCE_IN_SPEC: Final = ("cleanPodPolicy", "ttlSecondsAfterFinished", "activeDeadlineSeconds", "backoffLimit")
_CLEAN_POD_POLICIES: Final = (CleanPodPolicy.NONE, CleanPodPolicy.RUNNING, CleanPodPolicy.ALL)


def read(metadata: Body, spec: object, stored_status: object, *, v1alpha1: Profile = V1ALPHA1) -> TrainingJob:
    """The job that a TFJob describes; with ``problems`` where it is none. Never raises.

    ``v1alpha1``: the rules of jobs that were created in that version.
    """
    problems = stored_schema.problems(object_of(metadata, "annotations"))
    fields = Fields({"spec": spec}, "", problems).below("spec")
    names = _outdated_fields(fields)
    job = structs.replace(
        job_metadata.job_of(metadata, stored_status, PROFILE),
        replicas=_read_replicas(fields),
        run_policy=_read_run_policy(fields, names),
        outdated_fields=tuple(fields.at(name) for name in names),
        success_policy=fields.one_of(
            "successPolicy", SuccessPolicy, SuccessPolicy.DEFAULT, other=SuccessPolicy.DEFAULT
        ),
        has_dynamic_workers=fields.flag("enableDynamicWorker"),
        tf_config_format=fields.one_of("tfConfigFormat", TFConfigFormat, TFConfigFormat.FULL),
        service_mode=fields.one_of("serviceMode", ServiceMode, ServiceMode.REPLICA),
        network_policy=_read_network_policy(fields),
        elastic=_read_elastic(fields),
        record=status.read(stored_status),
        problems=tuple(problems),
    )
    if scheduler := job.annotations.get(GANG_SCHEDULER_ANNOTATION):
        scheduling = structs.replace(job.run_policy.scheduling, scheduler=scheduler.lower())
        job = structs.replace(job, run_policy=structs.replace(job.run_policy, scheduling=scheduling))
    if job.run_policy.restart_scope is RestartScope.JOB:
        job = structs.replace(job, profile=WHOLE_JOB)
    body = {"metadata": metadata, "spec": spec, "status": stored_status}
    return v1alpha1_rules.read(job, body, v1alpha1) if v1alpha1_rules.has(body) else defaults.with_defaults(job)


def with_status(job: TrainingJob, metadata: Body, stored_status: object) -> TrainingJob | None:
    """A job of v1 with another status; by the rules of v1alpha1 the status says how its spec is to be read."""
    if job.runtime_id or v1alpha1_rules.has({"metadata": metadata, "status": stored_status}):
        return None
    version = text_of(metadata, "resourceVersion")
    return structs.replace(
        job, resource_version=version, record=status.read(stored_status), stored_status=mapping_of(stored_status)
    )


def write_status(report: JobReport, stored_status: Body) -> dict[str, Any]:
    """The whole status; that of a job of v1alpha1 says so, also when its annotations are lost."""
    fields = status.write(report, stored_status)
    return fields | v1alpha1_rules.pinned_fields(report.job) if report.job.runtime_id else fields


def _read_network_policy(spec: Fields) -> NetworkPolicyMode | None:
    if spec.body.get("networkPolicy") is None:
        return None
    return spec.one_of("networkPolicy", NetworkPolicyMode, NetworkPolicyMode.JOB)


def _read_replicas(spec: Fields) -> tuple[ReplicaSpec, ...]:
    """The replica specs in canonical order. Two keys for one type, and unknown ones, are problems."""
    specs = spec.below("tfReplicaSpecs")
    replicas: dict[ReplicaType, ReplicaSpec] = {}
    for key in specs.body:
        kind = _TYPES.get(key.lower())
        if kind is None:
            specs.wrong(key, f"is no replica type; there are {', '.join(ReplicaType)}")
        elif kind in replicas:
            specs.wrong(key, f"is {kind} again, in another letter case")
        else:
            replicas[kind] = _read_replica(kind, specs, key)
    return tuple(replicas[kind] for kind in REPLICA_TYPES if kind in replicas)


def _read_replica(kind: ReplicaType, specs: Fields, key: str) -> ReplicaSpec:
    entry = specs.below(key)
    if specs.body.get(key) is None:
        specs.wrong(key, "must not be null")
    count = entry.integer("replicas")
    return ReplicaSpec(
        type=kind,
        count=defaults.REPLICAS if count is None else count,
        restart_policy=entry.one_of("restartPolicy", RestartPolicy, RestartPolicy.NEVER),
        template=entry.below("template").body,
        path=entry.path,
        oom_policy=_read_oom_policy(entry),
    )


def _read_oom_policy(entry: Fields) -> OOMPolicy | None:
    if entry.body.get("oomPolicy") is None:
        return None
    policy = entry.below("oomPolicy")
    percent = policy.integer("growthPercent")
    return OOMPolicy(defaults.GROWTH_PERCENT if percent is None else percent, policy.text("maxMemory"))


def _read_elastic(spec: Fields) -> ElasticPolicy | None:
    if spec.body.get("elasticPolicy") is None:
        return None
    policy = spec.below("elasticPolicy")
    policies = {ReplicaType.WORKER: policy}
    if policy.body.get("parameterServers") is not None:
        policies[ReplicaType.PS] = policy.below("parameterServers")
    ranges = tuple(_read_range(kind, fields) for kind, fields in policies.items())
    metrics = tuple(metric.body for metric in policy.items("metrics"))
    return ElasticPolicy(ranges, metrics=metrics, restarts_in_place=policy.flag("restartInPlace"))


def _read_range(kind: ReplicaType, policy: Fields) -> ElasticRange:
    least, most = policy.integer("minReplicas"), policy.integer("maxReplicas")
    least = 1 if least is None else least
    if policy.body.get("maxReplicas") is None:
        policy.wrong("maxReplicas", "is required")
    return ElasticRange(kind, least, least if most is None else most, policy.path)


def _outdated_fields(spec: Fields) -> list[str]:
    """The policies that stand where releases before 1.0 had them, and nowhere else."""
    run_policy = mapping_of(spec.body.get("runPolicy"))
    # The schema writes None where nothing is said.
    names = {
        name for name, value in run_policy.items() if value is not None and (name, value) != ("cleanPodPolicy", "None")
    }
    return [name for name in _ONCE_IN_SPEC if spec.body.get(name) is not None and name not in names]


def _read_run_policy(spec: Fields, names: Collection[str]) -> RunPolicy:
    policy = spec.below("runPolicy")
    clean, ttl, deadline, limit = (spec if name in names else policy for name in _ONCE_IN_SPEC)
    restarts = policy.below("restarts")
    return RunPolicy(
        clean_pods=clean.one_of("cleanPodPolicy", _CLEAN_POD_POLICIES, CleanPodPolicy.NONE, other=CleanPodPolicy.ALL),
        ttl_seconds=ttl.integer("ttlSecondsAfterFinished"),
        deadline_seconds=deadline.integer("activeDeadlineSeconds"),
        startup_deadline_seconds=policy.integer("startupDeadlineSeconds"),
        backoff_limit=limit.integer("backoffLimit"),
        restart_scope=restarts.one_of("scope", RestartScope, RestartScope.REPLICA),
        restart_method=restarts.one_of("method", RestartMethod, RestartMethod.RECREATE),
        avoid_after=_read_avoid_after(policy),
        progress=_read_progress(policy.below("progressPolicy")),
        is_suspended=policy.flag("suspend"),
        managed_by=policy.text("managedBy", OWN_MANAGER),
        scheduling=_read_scheduling(policy.below("schedulingPolicy")),
    )


def _read_progress(policy: Fields) -> ProgressPolicy:
    action = policy.one_of("action", HangAction, HangAction.REPORT)
    return ProgressPolicy(policy.flag("reports"), policy.integer("deadlineSeconds"), action)


def _read_avoid_after(policy: Fields) -> int | None:
    avoiding = policy.below("avoidNodes")
    failures = avoiding.integer("afterFailures")
    if policy.body.get("avoidNodes") is not None and avoiding.body.get("afterFailures") is None:
        avoiding.wrong("afterFailures", "is required")
    return failures


def _read_scheduling(policy: Fields) -> SchedulingPolicy:
    return SchedulingPolicy(
        min_available=policy.integer("minAvailable"),
        queue=policy.text("queue"),
        min_resources=policy.below("minResources").body or None,
        priority_class=policy.text("priorityClass"),
        timeout_seconds=policy.integer("scheduleTimeoutSeconds"),
    )


# --- What metrics and the check for other controllers want to know of every job that changes ------------------------


class _Condition(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    type: str = ""
    status: str = ""
    last_transition_time: str | None = None


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    conditions: tuple[_Condition, ...] = ()
    start_time: str | None = None
    hung: object = False


class _RunPolicy(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    managed_by: str = OWN_MANAGER


class _Spec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    run_policy: _RunPolicy = _RunPolicy()


_STATUS: Final = msgspec.json.Decoder(_Status)
_SPEC: Final = msgspec.json.Decoder(_Spec)
_NO_CONDITION: Final = _Condition()
_CONDITIONS: Final = frozenset(ConditionType)
_ENDS: Final = frozenset({ConditionType.SUCCEEDED, ConditionType.FAILED})


def summarize(metadata: Mapping[str, Any], spec: bytes, stored_status: bytes) -> JobSummary:
    """Where a TFJob stands: the last of our conditions that is true. Reads only the heads of both parts."""
    is_ours = _is_ours(spec)
    try:
        head = _STATUS.decode(stored_status)
    except (msgspec.DecodeError, RecursionError):
        return JobSummary(is_ours=is_ours)
    ours = (entry for entry in reversed(head.conditions) if entry.type in _CONDITIONS)
    last = next((entry for entry in ours if entry.status == "True"), _NO_CONDITION)
    waits_since = _waits_since(last, metadata, head) if is_ours else None
    return JobSummary(last.type, waits_since, is_ours, last.type in _ENDS, is_hung=head.hung is True)


def _waits_since(last: _Condition, metadata: Mapping[str, Any], head: _Status) -> datetime | None:
    match last.type:
        case "":
            return parse_time(metadata.get("creationTimestamp"))
        case ConditionType.CREATED:
            return parse_time(head.start_time)  # there is none as long as it waits for its gang
        case ConditionType.RESTARTING:
            return parse_time(last.last_transition_time)
    return None


def _is_ours(spec: bytes) -> bool:
    try:
        return _SPEC.decode(spec).run_policy.managed_by == OWN_MANAGER
    except (msgspec.DecodeError, RecursionError):
        return True  # somebody has to report that it is malformed


API: Final = ServedAPI(
    resource=RESOURCE,
    profiles=(PROFILE, V1ALPHA1),
    read=read,
    with_status=with_status,
    write_status=write_status,
    summarize=summarize,
    crd=Crd(__package__, older="older_versions.json"),
    event_reasons=words.EVENT_REASONS,
    failure_reasons=words.FAILURE_REASONS,
    conversion=CONVERSION,
    tensorboards_in=v1alpha1_rules.NAME,
)
FORK_API: Final = replace(API, profiles=(PROFILE, FORK), read=partial(read, v1alpha1=FORK))
