"""``mlkube.io/v1beta1`` TfJob: a list of replica specs, and the restart policy of each pod template in force.

The first programs of this API wrote its keys with underscores, the later ones in camel case. Each field is read in
either spelling, and stays as it is written; both spellings of one field are a problem of the job.

``API`` is all that the rest of the operator sees of it.
"""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import structs

from tf_operator.dialects import metadata as job_metadata
from tf_operator.dialects import phases, replica_lists, summaries
from tf_operator.dialects.fields import Fields
from tf_operator.dialects.mlkube import status, tfjob, words
from tf_operator.dialects.served import Crd, JobSummary, ServedAPI
from tf_operator.job import defaults
from tf_operator.job.profile import Words
from tf_operator.job.training_job import CleanPodPolicy, FieldError, RunPolicy, TrainingJob
from tf_operator.meta import Body, GroupVersionResource

RESOURCE: Final = GroupVersionResource("mlkube.io", "v1beta1", "tfjobs", "TfJob")
PROFILE: Final = replica_lists.profile(
    api_version=RESOURCE.api_version,
    kind=RESOURCE.kind,
    operator_name="mlkube-tfjob-controller",
    group=RESOURCE.group,
    words=Words("", run_policy="", suspended=""),
)


def read(metadata: Body, spec: object, stored_status: object) -> TrainingJob:
    """The job that a TfJob describes; with ``problems`` where it is none. Never raises."""
    problems: list[FieldError] = []
    fields = Fields({"spec": spec}, "", problems).below("spec")
    job = job_metadata.job_of(metadata, stored_status, PROFILE)
    runtime_id = replica_lists.read_runtime_id(fields) or replica_lists.generated_runtime_id(job.uid)
    job = structs.replace(
        job,
        replicas=replica_lists.read_replicas(
            fields, replica_lists.key_of(fields, replica_lists.REPLICAS, "replica_specs")
        ),
        run_policy=RunPolicy(clean_pods=replica_lists.read_clean_pods(fields, CleanPodPolicy.STOP)),
        runtime_id=runtime_id,
        tensorboard=replica_lists.read_tensorboard(fields, runtime_id),
        deciding=replica_lists.read_deciding(fields),
        record=status.read(job.stored_status),
        problems=tuple(problems),
    )
    return defaults.with_defaults(job)


# --- What metrics and the check for other controllers want to know of every job that changes ------------------------


def summarize(metadata: Mapping[str, Any], _spec: bytes, stored_status: bytes) -> JobSummary:
    """Where a TfJob stands. Reads only the head of the status."""
    return summaries.summarize(metadata, stored_status, lambda body: phases.end_in(body).phase)


API: Final = ServedAPI(
    resource=RESOURCE,
    profiles=(PROFILE,),
    read=read,
    write_status=status.write,
    summarize=summarize,
    record_in="operator",
    translate=tfjob.translate,
    framework="mlkube",
    crd=Crd(__package__),
    event_reasons=words.EVENT_REASONS,
    failure_reasons=words.FAILURE_REASONS,
    tensorboards_in=RESOURCE.version,
)
