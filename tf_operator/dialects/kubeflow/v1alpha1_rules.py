"""Jobs that were created in ``kubeflow.org/v1alpha1``: stored and reconciled as v1, by the rules of v1alpha1.

Their replicas are read as v1alpha1 shows them, so what is wrong is named as the user has written it. What v1alpha1 has
no word for, such as a suspension, is read from v1.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import structs

from tf_operator.dialects import replica_lists
from tf_operator.dialects.fields import Fields
from tf_operator.dialects.json_values import object_of
from tf_operator.dialects.kubeflow.versions import conversion, v1alpha1, v1alpha1_status
from tf_operator.dialects.kubeflow.versions.v1alpha2_to_v1beta2 import REPLICAS
from tf_operator.job import defaults
from tf_operator.job.profile import Profile
from tf_operator.job.progress import NO_PROGRESS_POLICY
from tf_operator.job.training_job import CleanPodPolicy, FieldError, RestartScope, TrainingJob
from tf_operator.meta import Body

NAME: Final = v1alpha1.NAME


def profile_of(base: Profile) -> Profile:
    """The rules of v1alpha1, for jobs that are stored in another version."""
    return replica_lists.profile(
        api_version=base.api_version,
        kind=base.kind,
        operator_name=base.labels.operator_name,
        group=base.api_version.partition("/")[0],
        words=base.words,
    )


def has(body: Body) -> bool:
    """Whether a job in v1 was created in v1alpha1."""
    return conversion.origin_of(body) == NAME


def read(job: TrainingJob, body: Body, profile: Profile) -> TrainingJob:
    """The job, as it was read in v1, by the rules of v1alpha1."""
    problems = [problem for problem in job.problems if not problem.field.startswith(job.profile.words.replicas)]
    view = conversion.spec_in(body, NAME)
    fields = Fields({"spec": body.get("spec") if view is None else view}, "", problems).below("spec")
    spec_id = replica_lists.read_runtime_id(fields)
    replica_lists.read_clean_pods(fields, CleanPodPolicy.RUNNING)  # v1 has it, too
    runtime_id = conversion.runtime_id_of(body, spec_id)
    v1alpha1_job = structs.replace(
        job,
        profile=profile,
        replicas=replica_lists.read_replicas(fields),
        runtime_id=runtime_id,
        tensorboard=replica_lists.read_tensorboard(fields, runtime_id),
        deciding=replica_lists.read_deciding(fields),
    )
    problems += _not_listed(body, job.profile)
    policy = job.run_policy
    unknown = {
        "restarts": policy.restart_scope is RestartScope.JOB,
        "avoidNodes": policy.avoid_after,
        "progressPolicy": policy.progress != NO_PROGRESS_POLICY,
    }
    for name in filter(unknown.get, unknown):
        problems.append(FieldError(f"spec.runPolicy.{name}", "cannot be in a job that was created in v1alpha1"))
    problems += [
        FieldError(f"{spec.path}.oomPolicy", "cannot be in a job that was created in v1alpha1")
        for spec in job.replicas
        if spec.oom_policy
    ]
    return defaults.with_defaults(structs.replace(v1alpha1_job, problems=tuple(problems)))


def pinned_fields(job: TrainingJob) -> dict[str, str]:
    """What the status has of such a job, so that nothing can change its rules and names any more."""
    return {v1alpha1_status.ORIGIN: NAME, v1alpha1_status.RUNTIME_ID: job.runtime_id}


def _not_listed(body: Body, profile: Profile) -> list[FieldError]:
    """Replicas that somebody has added in v1, of types that v1alpha1 does not have."""
    spec = body.get("spec")
    if not isinstance(spec, Mapping):
        return []
    return [
        FieldError(f"{profile.words.replicas}.{key}", "cannot be in a job that was created in v1alpha1")
        for key in v1alpha1.not_listed(object_of(spec, REPLICAS))
    ]
