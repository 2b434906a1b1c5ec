"""The jobs of a life: small ones of three APIs, what people change of them, and how to tell what became of them."""

import random
from collections.abc import Callable
from dataclasses import dataclass

from proof import wordings
from proof.wordings import Wording
from support.jobs import t9k
from support.jobs.builders import TFJobBuilder, tfjob
from support.resources import Json
from tf_operator.dialects import registry
from tf_operator.dialects.mlkube import v1beta1 as mlkube
from tf_operator.dialects.t9k import v1beta1 as training
from tf_operator.machinery.transport.requests import Resource

POLICIES = ("Never", "OnFailure", "ExitCode")
ENDS = frozenset({"Succeeded", "Failed"})


def tfjob_of(name: str, chance: random.Random) -> Json:
    """Of kubeflow.org/v1."""
    job = tfjob(name).workers(chance.randint(1, 2), restart=chance.choice(POLICIES))
    job = job.clean_pods(chance.choice(["None", "Running", "All"]))
    changes: tuple[Callable[[TFJobBuilder], TFJobBuilder], ...] = (
        lambda job: job.chief(restart=chance.choice(POLICIES)),
        lambda job: job.parameter_servers(1, restart=chance.choice((*POLICIES, "Always"))),
        chance.choice([TFJobBuilder.restarts_as_a_whole, TFJobBuilder.dynamic_workers]),
        lambda job: job.backoff_limit(chance.randint(0, 3)),
        TFJobBuilder.suspended,
        TFJobBuilder.success_policy,
        lambda job: job.deadline(chance.randint(20, 60)),
        lambda job: job.ttl(chance.randint(0, 30)),
    )
    for change in changes:
        job = change(job) if chance.random() < 0.3 else job
    return job.body()


def training_job_of(name: str, chance: random.Random) -> Json:
    """Of batch.tensorstack.dev."""
    types = [t9k.replicas("worker", chance.randint(1, 2), chance.choice(POLICIES[1:]))]
    types += [t9k.replicas("chief", 1, chance.choice(POLICIES[1:]))] if chance.random() < 0.4 else []
    policy = {"cleanUpPolicy": chance.choice(["None", "All", "Unfinished"]), "backoffLimit": chance.randint(0, 3)}
    return t9k.job(name, *types, runPolicy=policy, runMode={"pause": {"enabled": chance.random() < 0.2}})


def listed_job_of(name: str, chance: random.Random) -> Json:
    """Of mlkube.io."""
    pod = {"containers": [{"name": "tensorflow", "image": "i"}], "restartPolicy": "OnFailure"}
    roles: list[Json] = [{"tfReplicaType": "MASTER"}, {"tfReplicaType": "WORKER", "replicas": chance.randint(1, 2)}]
    specs = [{**role, "template": {"spec": pod}} for role in roles]
    return {
        "apiVersion": "mlkube.io/v1beta1",
        "kind": "TfJob",
        "metadata": {"name": name},
        "spec": {"replicaSpecs": specs, "cleanupPodPolicy": chance.choice(["All", "Running", "None"])},
    }


@dataclass(frozen=True, slots=True)
class Kind:
    """The jobs of one API."""

    resource: Resource
    wording: Wording
    make: Callable[[str, random.Random], Json]
    suspend: Callable[[bool], Json] | None = None
    """The change of the spec by which a job is suspended, or goes on."""


KINDS = (
    Kind(
        registry.DEFAULT.resource,
        wordings.V1,
        tfjob_of,
        lambda is_suspended: {"runPolicy": {"suspend": is_suspended}},
    ),
    Kind(
        training.API.resource,
        wordings.T9K,
        training_job_of,
        lambda is_suspended: {"runMode": {"pause": {"enabled": is_suspended}}},
    ),
    Kind(mlkube.API.resource, wordings.LISTS, listed_job_of),
)
BY_RESOURCE = {str(kind.resource): kind for kind in KINDS}


def translated(body: Json, kind: Kind) -> Json:
    """A job in the words of kubeflow.org/v1."""
    if kind is KINDS[0]:
        return body
    job = kind.wording.job(body["spec"])
    specs = {
        name: {"replicas": replicas.count, "restartPolicy": replicas.policy} for name, replicas in job.replicas.items()
    }
    spec = {"tfReplicaSpecs": specs, "runPolicy": {"suspend": job.is_suspended}}
    status = body.get("status", {})
    counts = {"replicaStatuses": {"": {"succeeded": status.get("aggregate", {}).get("succeeded", 0)}}}
    return {**body, "spec": spec, "status": {**kind.wording.status(status), **counts}}


def has_ended(body: Json, kind: Kind) -> bool:
    conditions = kind.wording.status(body.get("status", {})).get("conditions", ())
    return any(entry["type"] in ENDS and entry["status"] == "True" for entry in conditions)
