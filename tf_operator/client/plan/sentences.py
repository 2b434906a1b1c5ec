"""How a job ends, in sentences: success, restarts, limits, and what remains of it.

The rules are in ``planning.verdict``, ``pod_state`` and ``cleanup``; when one changes there, its sentence changes here.
``tfjob plan`` shows the sentences.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from tf_operator import quantity
from tf_operator.job import restart_rules, templates
from tf_operator.job.profile import FailureScope, RestartBy
from tf_operator.job.ranges import Indexes
from tf_operator.job.record import ReplicaType
from tf_operator.job.restart_rules import RestartRules
from tf_operator.job.training_job import (
    CleanPodPolicy,
    DecidingReplica,
    ElasticRange,
    ReplicaSpec,
    RestartPolicy,
    RestartScope,
    RunPolicy,
    SuccessPolicy,
    TrainingJob,
)
from tf_operator.local.node.processes import network
from tf_operator.meta import mapping_of, text_of
from tf_operator.planning import resizing
from tf_operator.planning.actions import Create
from tf_operator.planning.child_kinds import kinds, tensorboard
from tf_operator.planning.child_kinds.kind import ChildKind
from tf_operator.planning.pods import avoided_nodes
from tf_operator.planning.snapshot import DEFAULT_SETTINGS

_CLEAN_UP: Final = {
    CleanPodPolicy.NONE: "nothing is deleted: pods and Services stay",
    CleanPodPolicy.RUNNING: "pods that still run and all Services are deleted; other pods stay, for their logs",
    CleanPodPolicy.STOP: "pods that still run are stopped; all pods stay, for their logs, and all Services",
    CleanPodPolicy.ALL: "all pods and Services are deleted",
}
_MOST_SIZES: Final = 5


def sentences(
    job: TrainingJob, *, extras: Sequence[Create], gang_size: int | None, gang_scheduler: str
) -> Iterator[tuple[str, str]]:
    """Pairs of a heading and its sentence. ``extras``: what is created beside the replicas."""
    by_template = job.profile.restart_by is RestartBy.TEMPLATE
    yield "Succeeds", success(job)
    yield from _ends_by_template(job, job.deciding) if by_template and job.deciding else _ends_by_policy(job)
    if job.has_dynamic_workers:
        yield "Workers", "are dynamic: their number may change while the job runs, and failed ones do not fail the job"
    for elastic_range in job.elastic.ranges if job.elastic else ():
        yield "Elastic", _elastic(job, elastic_range)
    yield from (("Restarts", rules) for rules in _restart_rules(job))
    yield from (("Limit", limit) for limit in _limits(job.run_policy, job.profile.failure_scope))
    if failures := job.run_policy.avoid_after:
        yield "Nodes", _avoided(job, failures)
    yield "Clean-up", f"{job.clean_up_words}: {_CLEAN_UP[job.run_policy.clean_pods]}"
    if (seconds := job.run_policy.ttl_seconds) is not None:
        yield "Deletion", f"of the job and its remaining objects, {seconds} s after its end"
    for kind, creates in groupby(extras, kind_of):
        children = " and ".join(f"{create.resource.kind} {create.name}" for create in creates)
        condition = f", if the operator runs with --{kind.flag}" if kind.flag else ""
        otherwise = "; no pod is created without it" if kind.is_needed else ""
        end = "as long as the job runs" if kind.is_for_active else "until the job is deleted"
        yield kind.resource.kind, f"{children}{condition}{otherwise}; {end}"
    yield from _without_cluster(job)
    if gang_size is not None:
        yield "Gang", f"{gang_scheduler} starts {gang_size} pods together, or none"


def _without_cluster(job: TrainingJob) -> Iterator[tuple[str, str]]:
    """What differs there."""
    if job.is_isolated:
        yield "Network", f"tfjob run without a cluster gives its programs {network.MEANING}"
    if images := _images(job):
        here = "tfjob run without one uses programs and Python (--python) of this machine"
        yield "Images", f"{', '.join(images)} in a cluster; {here}"


def _avoided(job: TrainingJob, failures: int) -> str:
    if reason := avoided_nodes.without_effect(job, DEFAULT_SETTINGS):
        return f"avoidNodes has no effect: {reason}"
    times = "once" if failures == 1 else f"{failures} times"
    return f"new pods avoid a node that has failed the job {times}, for 24 h; or until no other takes them for 5 min"


def kind_of(create: Create) -> ChildKind:
    """Which kind of child it belongs to: a TensorBoard is a Deployment and a Service where there is no such object."""
    return next((kind for kind in kinds.ALL if kind.resource == create.resource), tensorboard.KIND)


def _images(job: TrainingJob) -> list[str]:
    """The images of the templates, each once."""
    images = (text_of(entry, "image") for spec in job.replicas for entry in templates.containers_of(spec))
    return list(dict.fromkeys(filter(None, images)))


def _elastic(job: TrainingJob, elastic_range: ElasticRange) -> str:
    more, fewer = (resizing.replaces_pods(job, elastic_range.type, is_growth=grows) for grows in (True, False))
    when = {(True, True): "a change", (True, False): "growth"}.get((more, fewer), "nothing")
    effect = "replaces the other pods"
    if job.elastic and job.elastic.restarts_in_place:
        effect = "restarts the other pods in place, or replaces them without --restart-in-place"
        effect += f"{ignored} in place" if (ignored := _ignored_grace(job)) else ""
    kind = job.profile.words.type(elastic_range.type)
    sizes = f"from {elastic_range.least} to {elastic_range.most} replicas of {kind}"
    return f"{sizes} while it runs; {when} {effect}"


def _restart_rules(job: TrainingJob) -> Iterator[str]:
    """What containers say themselves about their restarts, which comes before the policy of their replica."""
    for spec in job.replicas if job.pod_count else ():
        for container in (*templates.init_containers_of(spec), *templates.containers_of(spec)):
            name, rules = text_of(container, "name"), restart_rules.read(container)
            if rules and (rules.all or name == job.profile.container):
                yield f"{job.profile.words.type(spec.type)}, container {name}: {_by_rules(rules, job)}"


def _by_rules(rules: RestartRules, job: TrainingJob) -> str:
    clauses = []
    if one := rules.one.below(256):
        clauses.append(f"exit codes {_codes(one)} start it again in place")
    if together := rules.all.below(256):
        clauses.append(f"exit codes {_codes(together)} start all containers of the pod again (Kubernetes 1.36)")
    clauses.append(
        f"{'others follow ' if clauses else ''}its own restartPolicy {rules.policy}, not that of the replica"
    )
    advice = ": set backoffLimit" if job.profile.words.run_policy else ""
    limit = job.run_policy.backoff_limit
    count = f"each restart counts towards backoffLimit {limit}" if limit is not None else f"without a limit{advice}"
    return f"{'; '.join(clauses)}; {count}"


def _is_endless(job: TrainingJob, spec: ReplicaSpec) -> bool:
    """Whether its program is started again after exit code 0, too."""
    own = next((entry for entry in templates.containers_of(spec) if entry.get("name") == job.profile.container), {})
    rules = restart_rules.read(own)
    return rules.restarts_after(0) if rules else spec.restart_policy is RestartPolicy.ALWAYS


def _ends_by_template(job: TrainingJob, deciding: DecidingReplica) -> Iterator[tuple[str, str]]:
    """Only the end of the deciding replica can be the job's."""
    codes, kind = job.profile.exit_codes, job.profile.words.type(deciding.type)
    final = _codes(Indexes.of(range(1, 256)) - Indexes.of(codes.retryable))
    memory = " and too little memory" if codes.is_oom_final else ""
    yield "Failures", f"{kind} {deciding.index}: exit codes {final}{memory} end the job; else it runs again"
    yield "Failures", "other replicas run again whenever they fail or are lost; after exit code 0 only under Always"


def _ends_by_policy(job: TrainingJob) -> Iterator[tuple[str, str]]:
    if job.run_policy.restart_scope is RestartScope.JOB:
        yield "Failures", "replacing a replica restarts all others that have not completed, which counts as one restart"
    if job.run_policy.restarts_in_place:
        yield "Failures", _in_place(job)
    for policy in RestartPolicy:
        kinds = [spec.type for spec in job.replicas if spec.restart_policy is policy and spec.count]
        if kinds:
            yield "Failures", f"{job.profile.words.list_types(kinds)} ({policy}): {_failure(job, policy)}"
    yield from (("Memory", _growth(job, spec)) for spec in job.in_force().replicas if spec.oom_policy)
    if job.profile.failure_scope is FailureScope.DECIDING:
        yield "Failures", "only a failure of the replica that decides success fails the job"


def _in_place(job: TrainingJob) -> str:
    """What it means for programs that want to be told before they are ended."""
    note = f"{ignored}: method Recreate keeps it" if (ignored := _ignored_grace(job)) else ""
    return f"with --restart-in-place (Kubernetes 1.36) pods stay, and their containers are killed at once{note}"


def _ignored_grace(job: TrainingJob) -> str:
    """Of which types a restart in place passes over what their templates ask for; empty if none asks for anything."""
    graceful = [spec.type for spec in job.replicas if _ends_gracefully(spec)]
    types = job.profile.words.list_types(graceful)
    return f"; the preStop hook or grace period of {types} is ignored" if graceful else ""


def _ends_gracefully(spec: ReplicaSpec) -> bool:
    """Whether its template asks for time, or for a program, before its containers are killed."""
    hooks = (mapping_of(entry.get("lifecycle")).get("preStop") for entry in templates.containers_of(spec))
    return any(hooks) or templates.grace_seconds(spec) > templates.DEFAULT_GRACE


def _growth(job: TrainingJob, spec: ReplicaSpec) -> str:
    kind = job.profile.words.type(spec.type)
    if spec.memory is None:
        return f"of {kind}: its container has no limit, so oomPolicy has no effect"
    limits = spec.memory.policy.limits(spec.memory.template)
    sizes = [quantity.memory(limit) for limit in limits]
    path = ", ".join(sizes if len(sizes) <= _MOST_SIZES else [*sizes[: _MOST_SIZES - 1], "...", sizes[-1]])
    return f"of {kind}: {path}; each OOM kill before the last limit is tried again, and not counted (oomPolicy)"


def success(job: TrainingJob) -> str:
    if job.profile.restart_by is RestartBy.TEMPLATE and job.deciding:
        return f"when {job.deciding.type.label} {job.deciding.index} has exited with code 0"
    return _success_by_policy(job)


def _success_by_policy(job: TrainingJob) -> str:
    if not job.pod_count:
        return "not before it has replicas" if job.has_dynamic_workers else "at once: it has no replicas"
    workers = job.spec_of(ReplicaType.WORKER)
    decider = job.leader or workers
    deciding = [decider] if decider else [spec for spec in job.replicas if spec.count]
    if endless := [spec for spec in deciding if _is_endless(job, spec)]:
        is_by_policy = all(spec.restart_policy is RestartPolicy.ALWAYS for spec in endless)
        types = job.profile.words.list_types(spec.type for spec in endless)
        cause = "under restartPolicy Always" if is_by_policy else "by the rules of its container"
        return f"never: {cause}, {types} is started again after exit code 0 too"
    if job.leader:
        return f"when the {job.leader.type.lower()} has exited with code 0"
    if workers is None:
        return "when all replicas have exited with code 0"
    if job.success_policy is SuccessPolicy.ALL_WORKERS:
        return "when all workers have exited with code 0"
    return "when worker 0 has exited with code 0" + (", or all workers have" if workers.count > 1 else "")


def _failure(job: TrainingJob, policy: RestartPolicy) -> str:
    retryable = Indexes.of(job.profile.exit_codes.retryable)
    if job.profile.restart_by is RestartBy.NEW_POD:
        return {
            RestartPolicy.NEVER: "a pod that has run is not replaced",
            RestartPolicy.ON_FAILURE: "a pod that fails or is lost is replaced",
            RestartPolicy.ALWAYS: "a pod that ends or is lost is replaced, also after exit code 0",
            RestartPolicy.EXIT_CODE: f"after exit codes {_codes(retryable)} and when it is lost, the pod is replaced",
        }[policy]
    return {
        RestartPolicy.NEVER: "the first one ends the job, and so does the loss of a pod that ran, as when its node is"
        " drained; ExitCode and OnFailure survive that",
        RestartPolicy.ON_FAILURE: "containers are restarted in place; a pod that fails or is lost is replaced",
        RestartPolicy.ALWAYS: "containers are restarted in place, also after exit code 0; a pod that fails or is lost"
        " is replaced",
        RestartPolicy.EXIT_CODE: f"exit codes {_codes(retryable)} and lost pods: the pod is replaced;"
        f" exit codes {_codes(Indexes.of(range(1, 256)) - retryable)} end the job",
    }[policy]


def _codes(codes: Indexes) -> str:
    """As people write them: ``130, 137 to 138``."""
    return str(codes).replace("-", " to ").replace(",", ", ")


def _limits(policy: RunPolicy, scope: FailureScope) -> Iterator[str]:
    if (limit := policy.backoff_limit) is not None:
        then = "the job fails" if scope is FailureScope.ANY else "nothing is restarted"
        yield f"{limit} restarts in all, then {then} (backoffLimit)"
    if (seconds := policy.deadline_seconds) is not None:
        yield f"{seconds} s from its start, then the job fails (activeDeadlineSeconds)"
    if (seconds := policy.startup_deadline_seconds) is not None:
        yield f"all replicas must run within {seconds} s from its start, or the job fails (startupDeadlineSeconds)"
