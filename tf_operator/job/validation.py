"""What must be so for a job to be run: each rule a small function, the list of them in reading order.

The CRD's schema refuses most of this before it is stored. It is checked again here, because objects may be older
than a rule, and because a check can be switched off. What a dialect could not even read (a text where a number
should be) has been found by it already, in ``job.problems``.
"""

import re
from collections.abc import Callable, Iterator

from tf_operator import quantity
from tf_operator.job import constants, memory
from tf_operator.job.memory import MemoryLimit
from tf_operator.job.naming import service_name
from tf_operator.job.profile import FailureScope, Profile
from tf_operator.job.progress import HangAction
from tf_operator.job.record import ReplicaType
from tf_operator.job.templates import containers_of, has_host_network, main_containers, pod_of
from tf_operator.job.training_job import FieldError, ReplicaSpec, RestartMethod, RestartScope, TrainingJob

_DNS_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_SINGLE = (ReplicaType.CHIEF, ReplicaType.MASTER)
_HOST_NAMES = ("hostname", "subdomain")
_CHECKED = "validated"
_OWN_RESTARTS = frozenset({"restartPolicy", "restartPolicyRules"})


def validate(job: TrainingJob) -> tuple[FieldError, ...]:
    """Everything that is wrong with the job; empty when it can be run. Checked once: no job changes."""
    checked: dict[str, tuple[FieldError, ...]] = vars(job)
    if _CHECKED not in checked:
        checked[_CHECKED] = (*job.problems, *(error for rule in _RULES for error in rule(job)))
    return checked[_CHECKED]


def template_problems(spec: ReplicaSpec, profile: Profile) -> Iterator[FieldError]:
    """Why no pod can be made from the template of one replica type; nothing when one can."""
    path, containers = f"{spec.path}.template.spec.containers", containers_of(spec)
    if all(container.get("name") != profile.container for container in containers):
        yield FieldError(path, f"must have a container named {profile.container!r}")
    for container in containers:
        if not isinstance(container.get("image"), str) or not container["image"]:
            name = container.get("name")
            which = f"the container {name!r}" if name else "a container without a name"
            yield FieldError(path, f"{which} must have an image")


def _has_a_replica_type(job: TrainingJob) -> Iterator[FieldError]:
    if not job.replicas and not job.problems:
        yield FieldError(job.profile.words.replicas, "must name at least one replica type")


def _has_one_leader(job: TrainingJob) -> Iterator[FieldError]:
    if {spec.type for spec in job.replicas}.issuperset(_SINGLE):
        yield FieldError(job.profile.words.replicas, "must not have both Chief and Master: they are the same role")


def _has_a_deciding_replica(job: TrainingJob) -> Iterator[FieldError]:
    is_needed = job.profile.failure_scope is FailureScope.DECIDING
    if not (job.deciding or is_needed):
        return
    kind, index = job.main_replica
    spec = job.spec_of(kind)
    if job.deciding and not (spec and 0 <= index < spec.count):
        yield FieldError(job.deciding.path, f"must name a replica of the job, and there is no {kind.label}-{index}")
    elif is_needed and not spec and job.replicas:
        rule = "must have a chief or a worker: it decides how the job ends"
        yield FieldError(job.profile.words.replicas, rule)


def _has_counts_in_bounds(job: TrainingJob) -> Iterator[FieldError]:
    for spec in job.replicas:
        most = 1 if spec.type in _SINGLE else constants.MOST_REPLICAS
        if not 0 <= spec.count <= most:
            yield FieldError(f"{spec.path}.replicas", f"must be from 0 to {most}, is {spec.count}")


def _has_counts_in_elastic_ranges(job: TrainingJob) -> Iterator[FieldError]:
    for limits in job.elastic.ranges if job.elastic else ():
        spec = next((spec for spec in job.replicas if spec.type is limits.type), None)
        if not 0 < limits.least <= limits.most:
            rule = f"must have 0 < minReplicas <= maxReplicas, has {limits.least} and {limits.most}"
            yield FieldError(limits.path, rule)
        elif spec is None:
            kind = job.profile.words.type(limits.type)
            yield FieldError(limits.path, f"needs replicas of the type {kind}, and there are none")
        elif not limits.least <= spec.count <= limits.most:
            rule = f"must be from {limits.least} to {limits.most}, as {limits.path} has it, is {spec.count}"
            yield FieldError(f"{spec.path}.replicas", rule)


def _has_times_in_bounds(job: TrainingJob) -> Iterator[FieldError]:
    policy, path = job.run_policy, job.profile.words.run_policy
    for name, value, least in (
        ("backoffLimit", policy.backoff_limit, 0),
        ("activeDeadlineSeconds", policy.deadline_seconds, 0),
        ("ttlSecondsAfterFinished", policy.ttl_seconds, 0),
        ("startupDeadlineSeconds", policy.startup_deadline_seconds, 1),
    ):
        if value is not None and value < least:
            rule = f"must be at least {least}, is {value}"
            yield FieldError(f"{path}.{name}", rule, is_tolerated=name == "ttlSecondsAfterFinished")


def _avoids_nodes_in_time(job: TrainingJob) -> Iterator[FieldError]:
    failures = job.run_policy.avoid_after
    if failures is not None and not 1 <= failures <= constants.MOST_FAILURES_OF_NODE:
        rule = f"must be from 1 to {constants.MOST_FAILURES_OF_NODE}, is {failures}"
        yield FieldError(f"{job.profile.words.run_policy}.avoidNodes.afterFailures", rule)


def _has_a_possible_progress_policy(job: TrainingJob) -> Iterator[FieldError]:
    policy, path = job.run_policy.progress, f"{job.profile.words.run_policy}.progressPolicy"
    seconds = policy.deadline_seconds
    if seconds is None and policy.action is not HangAction.REPORT:
        yield FieldError(f"{path}.action", f"must not be {policy.action} without deadlineSeconds")
    if seconds is None:
        return
    if seconds < constants.LEAST_PROGRESS_DEADLINE:
        rule = f"must be at least {constants.LEAST_PROGRESS_DEADLINE}, is {seconds}"
        yield FieldError(f"{path}.deadlineSeconds", rule)
    if not policy.reports:
        yield FieldError(f"{path}.deadlineSeconds", "needs reports: true")


def _can_start_again_as_a_whole(job: TrainingJob) -> Iterator[FieldError]:
    if job.run_policy.restart_scope is RestartScope.JOB and job.has_dynamic_workers:
        rule = "must be Replica with enableDynamicWorker: such workers continue without each other"
        yield FieldError("spec.runPolicy.restarts.scope", rule)


def _can_start_again_in_place(job: TrainingJob) -> Iterator[FieldError]:
    if job.run_policy.restart_method is not RestartMethod.IN_PLACE:
        return
    path = "spec.runPolicy.restarts.method"
    if job.run_policy.restart_scope is not RestartScope.JOB:
        yield FieldError(path, "must be Recreate unless the scope is Job")
    container = job.profile.container
    if any(_OWN_RESTARTS & entry.keys() for spec in job.replicas for entry in main_containers(spec, container)):
        rule = f"must be Recreate where a container {container!r} has a restartPolicy or restartPolicyRules of its own"
        yield FieldError(path, rule)


def _may_have_one_service(job: TrainingJob) -> Iterator[FieldError]:
    if job.has_one_service and any(pod_of(spec).get(field) for spec in job.replicas for field in _HOST_NAMES):
        rule = "must be Replica where a template has a hostname or subdomain of its own"
        yield FieldError("spec.serviceMode", rule)


def _may_be_isolated(job: TrainingJob) -> Iterator[FieldError]:
    if job.is_isolated and has_host_network(job.replicas):
        rule = "must be None where a template has hostNetwork: no NetworkPolicy applies to such pods"
        yield FieldError("spec.networkPolicy", rule)


def _has_possible_oom_policies(job: TrainingJob) -> Iterator[FieldError]:
    for spec in job.replicas:
        policy, path = spec.oom_policy, f"{spec.path}.oomPolicy"
        if policy is None:
            continue
        if not memory.LEAST_PERCENT <= policy.growth_percent <= memory.MOST_PERCENT:
            rule = f"must be from {memory.LEAST_PERCENT} to {memory.MOST_PERCENT}, is {policy.growth_percent}"
            yield FieldError(f"{path}.growthPercent", rule)
        limit = MemoryLimit.of(policy, spec.template, job.profile.container, "")
        if quantity.parse(policy.maximum) is None:
            yield FieldError(f"{path}.maxMemory", "must be a quantity, such as 64Gi")
        elif limit and limit.problem:
            yield FieldError(f"{path}.maxMemory", limit.problem)


def _has_a_possible_name(job: TrainingJob) -> Iterator[FieldError]:
    name = job.key.name
    if not _DNS_1035.fullmatch(name):
        rule = "must be a DNS-1035 label: lower case letters, digits and '-', beginning with a letter"
        yield FieldError("metadata.name", f"{rule}, because its Services are named after it")
        return
    services = (service_name(job, spec.type, max(spec.count - 1, 0)) for spec in job.replicas)
    longest = max((name, *services), key=len)
    if len(longest) > constants.LONGEST_NAME:
        rule = f"is too long: {longest!r} would have {len(longest)} characters"
        yield FieldError("metadata.name", f"{rule}, and at most {constants.LONGEST_NAME} are possible")


def _has_the_containers(job: TrainingJob) -> Iterator[FieldError]:
    for spec in job.replicas:
        yield from template_problems(spec, job.profile)


_RULES: tuple[Callable[[TrainingJob], Iterator[FieldError]], ...] = (
    _has_a_replica_type,
    _has_one_leader,
    _has_a_deciding_replica,
    _has_counts_in_bounds,
    _has_counts_in_elastic_ranges,
    _has_times_in_bounds,
    _avoids_nodes_in_time,
    _has_a_possible_progress_policy,
    _can_start_again_as_a_whole,
    _can_start_again_in_place,
    _may_have_one_service,
    _may_be_isolated,
    _has_possible_oom_policies,
    _has_a_possible_name,
    _has_the_containers,
)
