"""A TensorFlowTrainingJob as a TFJob of ``kubeflow.org/v1``: the same replicas, by the rules of that API."""

from collections.abc import Iterator
from typing import Any

from tf_operator.dialects import metadata
from tf_operator.dialects.fields import Fields
from tf_operator.dialects.served import Translation
from tf_operator.job.training_job import ReplicaSpec, RunPolicy, TrainingJob
from tf_operator.meta import Body, metadata_of


def translate(job: TrainingJob, body: Body) -> Translation:
    """The TFJob; a paused job is a suspended one."""
    templates = {item["type"]: item["template"] for item in body["spec"]["replicaSpecs"]}
    replicas = {str(replica.type): _replica(replica, templates[replica.type.label]) for replica in job.replicas}
    spec = {"tfReplicaSpecs": replicas, "runPolicy": dict(_run_policy(job.run_policy))}
    head = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": metadata.portable(metadata_of(body))}
    return Translation({**head, "spec": spec}, tuple(_left_out(Fields(body).below("spec"))))


def _replica(replica: ReplicaSpec, template: Body) -> dict[str, Any]:
    return {"replicas": replica.count, "restartPolicy": str(replica.restart_policy), "template": template}


def _run_policy(policy: RunPolicy) -> Iterator[tuple[str, Any]]:
    yield "cleanPodPolicy", str(policy.clean_pods)
    if policy.backoff_limit is not None:
        yield "backoffLimit", policy.backoff_limit
    if policy.deadline_seconds is not None:
        yield "activeDeadlineSeconds", policy.deadline_seconds
    if policy.is_suspended:
        yield "suspend", True
    if policy.scheduling.queue:
        yield "schedulingPolicy", {"queue": policy.scheduling.queue}


def _left_out(spec: Fields) -> Iterator[str]:
    mode, scheduler = spec.below("runMode"), spec.below("scheduler").below("t9kScheduler")
    for fields, name, instead in (
        (mode, "debug", "edit the template"),
        (mode.below("pause"), "resumeSpecs", "edit the template while the job is suspended"),
        (scheduler, "priority", "use a priority class"),
        (spec, "tensorboardSpec", "create a TensorBoard"),
    ):
        if fields.body.get(name):
            yield f"{fields.at(name)}: is left out, for a TFJob has nothing like it; {instead}"
