"""What the API server says of a TFJob that is created: each rule accepted and refused, with its exact message."""

import pytest

from support.api import RefusedError
from support.jobs import builders
from support.resources import TFJOBS

TYPES = ("Chief", "Master", "Worker", "PS", "Evaluator")
JOB = builders.tfjob("j").workers(1)
WITHOUT_REPLICAS = builders.tfjob("j").merged({"spec": {"tfReplicaSpecs": {}}})
SPECS = "spec.tfReplicaSpecs"
ELASTIC = "spec.elasticPolicy"
SERVERS = {"maxReplicas": 2}
TOO_LITTLE = {
    SPECS: "Invalid value: needs an oomPolicy.maxMemory that is at least the memory limit of the container tensorflow"
}


def policy(**fields):
    return JOB.merged({"spec": {"runPolicy": fields}})


def worker(**fields):
    return JOB.merged({"spec": {"tfReplicaSpecs": {"Worker": fields}}})


def grows(kind, limit, most, *, sidecars=0):
    """A job with so much memory for a type, and so much at most."""
    job = JOB.replicas(kind, 1).oom_policy(kind, most, limit=limit)
    main = job.replica_specs[kind]["template"]["spec"]["containers"]
    containers = [*({"name": f"side-{n}", "image": "none"} for n in range(sidecars)), *main]
    return job.merged({"spec": {"tfReplicaSpecs": {kind: {"template": {"spec": {"containers": containers}}}}}})


def scheduling(**fields):
    return policy(schedulingPolicy=fields)


def outside(least, count, most, kind="workers", field=ELASTIC):
    return {field: f"Invalid value: needs minReplicas ({least}) <= number of {kind} ({count}) <= maxReplicas ({most})"}


@pytest.fixture
def creates(admin, namespace):
    """Try to create a job; what the server answers: the stored job, or its complaints by field."""

    async def create(job):
        try:
            return await admin.create(TFJOBS.path(namespace), job.body(), dryRun="All"), {}
        except RefusedError as refusal:
            if refusal.reason != "Invalid":
                raise
            return {}, refusal.complaints

    return create


# The longest of my-job-worker-0, my-job-worker-10 ... that still has 63 characters.
@pytest.mark.parametrize(
    ("kind", "count", "longest"),
    [
        pytest.param("Worker", 0, 54, id="no worker counts as one"),
        pytest.param("Worker", 1, 54, id="worker-0"),
        pytest.param("Worker", 10, 54, id="worker-9"),
        pytest.param("Worker", 11, 53, id="worker-10"),
        pytest.param("Worker", 10000, 51, id="worker-9999"),
        pytest.param("evaluator", 1, 51, id="evaluator-0"),
        pytest.param("PS", 1, 58, id="ps-0"),
    ],
)
async def test_the_longest_name_of_a_service_has_63_characters(creates, kind, count, longest):
    job = builders.tfjob().replicas(kind, count)
    service = f"{'a' * longest}-{kind.lower()}-{max(count - 1, 0)}"

    assert len(service) == 63
    assert (await creates(job.named("a" * longest)))[1] == {}
    assert (await creates(job.named("a" * (longest + 1))))[1] == {
        "metadata.name": f"Invalid value: is too long for the type {kind}: Services are named <name>-<type>-<index> "
        "and may have at most 63 characters"
    }


@pytest.mark.parametrize("kind", [*TYPES, "chief", "MASTER", "wOrKeR", "ps", "evaluator"])
async def test_the_five_types_are_known_in_any_letter_case(creates, kind):
    stored, complaints = await creates(builders.tfjob("j").replicas(kind, 1))

    assert complaints == {}
    assert list(stored["spec"]["tfReplicaSpecs"]) == [kind]


@pytest.mark.parametrize(
    ("job", "complaint"),
    [
        pytest.param(
            WITHOUT_REPLICAS,
            "Invalid value: needs at least one type of replica: Chief, Master, Worker, PS or Evaluator",
            id="none",
        ),
        pytest.param(
            JOB.replicas("Foo", 1),
            "Invalid value: knows only the types Chief, Master, Worker, PS and Evaluator, in any letter case; not Foo",
            id="unknown",
        ),
        pytest.param(
            JOB.replicas("worker", 1), "Invalid value: has the same type twice, in different letter case", id="twice"
        ),
        pytest.param(
            JOB.chief().master(),
            "Invalid value: cannot have both a Chief and a Master, which are two names for the same",
            id="chief and master",
        ),
        pytest.param(
            JOB.replicas("chief", 1).replicas("MASTER", 1),
            "Invalid value: cannot have both a Chief and a Master, which are two names for the same",
            id="chief and master in another case",
        ),
        pytest.param(
            JOB.replicas("Chief", 2),
            "Invalid value: can have at most 1 replica of the type Chief or Master",
            id="two chiefs",
        ),
        pytest.param(
            JOB.replicas("master", 2),
            "Invalid value: can have at most 1 replica of the type Chief or Master",
            id="two masters",
        ),
    ],
)
async def test_replicas_that_make_no_job_are_refused(creates, job, complaint):
    assert (await creates(job))[1] == {SPECS: complaint}


@pytest.mark.parametrize(
    ("job", "complaints"),
    [
        pytest.param(JOB.elastic(1, 1), {}, id="the least range"),
        pytest.param(JOB.parameter_servers(2).elastic(1, 4, parameterServers=SERVERS), {}, id="servers, too"),
        pytest.param(JOB.elastic(2, 4), outside(2, 1, 4), id="fewer workers"),
        pytest.param(builders.tfjob("j").replicas("WORKER", 5).elastic(1, 4), outside(1, 5, 4), id="more workers"),
        pytest.param(JOB.elastic(4, 1), outside(4, 1, 1), id="the wrong way round"),
        pytest.param(builders.tfjob("j").chief().elastic(1, 4), outside(1, 0, 4), id="no workers"),
        pytest.param(
            JOB.elastic(1, 4, parameterServers=SERVERS),
            outside(1, 0, 2, "parameter servers", f"{ELASTIC}.parameterServers"),
            id="no servers",
        ),
        pytest.param(
            JOB.parameter_servers(3).elastic(1, 4, parameterServers=SERVERS),
            outside(1, 3, 2, "parameter servers", f"{ELASTIC}.parameterServers"),
            id="more servers",
        ),
    ],
)
async def test_an_elastic_policy_allows_the_number_that_there_is(creates, job, complaints):
    assert (await creates(job))[1] == complaints


@pytest.mark.parametrize("sidecars", [0, 3])
@pytest.mark.parametrize(
    ("limit", "most", "complaints"),
    [
        ("8Gi", "8Gi", {}),
        ("8Gi", "8192Mi", {}),
        ("1.5Gi", "1610612736", {}),
        (2**30, "1Gi", {}),
        ("8Gi", "8191Mi", TOO_LITTLE),
        ("1e9", "999M", TOO_LITTLE),
        ("8Gi", "7.9Gi", TOO_LITTLE),
    ],
)
async def test_the_most_memory_is_not_below_the_limit_of_the_template(creates, limit, most, complaints, sidecars):
    for kind in ("Worker", "ps"):
        assert (await creates(grows(kind, limit, most, sidecars=sidecars)))[1] == complaints


@pytest.mark.parametrize(
    "job",
    [
        *(worker(restartPolicy=value) for value in ("Always", "OnFailure", "Never", "ExitCode")),
        *(policy(cleanPodPolicy=value) for value in ("All", "Running", "None")),
        *(policy(managedBy=value) for value in ("kubeflow.org/training-operator", "kueue.x-k8s.io/multikueue")),
        *(JOB.success_policy(value) for value in ("", "AllWorkers")),
        *(policy(avoidNodes={"afterFailures": value}) for value in (1, 10)),
        *(JOB.progress_deadline(60, value) for value in ("Report", "Restart", "Fail")),
        *(JOB.oom_policy("Worker", "64Gi", percent=value) for value in (None, 10, 400)),
        *(policy(restarts=value) for value in ({}, {"scope": "Replica"}, {"scope": "Job"}, {"method": "Recreate"})),
        *(policy(restarts={"scope": "Job", "method": value}) for value in ("Recreate", "InPlace")),
        policy(ttlSecondsAfterFinished=0, activeDeadlineSeconds=0, backoffLimit=0, startupDeadlineSeconds=1),
        policy(activeDeadlineSeconds=2**40),
        worker(replicas=0),
        scheduling(minAvailable=0, scheduleTimeoutSeconds=0, queue="q", priorityClass="p"),
        scheduling(minResources={"cpu": 4, "memory": "1.5Gi", "example.com/gpu": "1"}),
    ],
    ids=lambda job: str(job.corrections or job.more_spec or job.replica_specs["Worker"].get("oomPolicy")),
)
async def test_every_value_with_a_meaning_is_accepted(creates, job):
    assert (await creates(job))[1] == {}
