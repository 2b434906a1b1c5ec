"""What may change in a stored TFJob, and what may not; what may is not looked at a second time."""

import pytest

from support.api import RefusedError
from support.jobs import builders
from support.resources import TFJOBS

JOB = builders.tfjob("j")
MANAGED = "spec.runPolicy.managedBy"
QUEUE = "spec.runPolicy.schedulingPolicy.queue"
SPECS = "spec.tfReplicaSpecs"
FORMAT, MODE = "spec.tfConfigFormat", "spec.serviceMode"
METHOD = "spec.runPolicy.restarts.method"
ONLY_SUSPENDED = "Invalid value: can only change while the job is suspended (spec.runPolicy.suspend)"
REFUSED = {
    MANAGED: "Invalid value: cannot be set, changed or removed after creation",
    QUEUE: "Invalid value: cannot be changed or removed once it is set",
    FORMAT: ONLY_SUSPENDED,
    METHOD: ONLY_SUSPENDED,
    MODE: ONLY_SUSPENDED,
    SPECS: "Invalid value: types and numbers of replicas can only change while the job is suspended "
    "(spec.runPolicy.suspend); the number of workers also with spec.enableDynamicWorker or within spec.elasticPolicy, "
    "which has to be set before",
}
DYNAMIC = JOB.workers(2).parameter_servers().dynamic_workers()
ELASTIC = JOB.workers(2).parameter_servers().elastic(2, 4)
ELASTIC_SERVERS = ELASTIC.elastic(2, 4, parameterServers={"maxReplicas": 2})
OURS, THEIRS = "kubeflow.org/training-operator", "kueue.x-k8s.io/multikueue"


def replicas(**counts):
    return {"tfReplicaSpecs": {kind: count if count is None else {"replicas": count} for kind, count in counts.items()}}


def policy(**fields):
    return {"runPolicy": fields}


def whole(kind):
    """A new type of replica."""
    return JOB.replicas(kind, 1).body()["spec"]


@pytest.fixture
def changes(admin, namespace):
    """Store a job, then merge a patch into its spec; what the server complains of, by field."""

    async def change(job, spec):
        await admin.create(TFJOBS.path(namespace), job.body())
        try:
            await admin.patch(TFJOBS.path(namespace, "j"), {"spec": spec})
        except RefusedError as refusal:
            if refusal.reason != "Invalid":
                raise
            return refusal.complaints
        return {}

    return change


@pytest.mark.parametrize(
    ("job", "spec"),
    [
        pytest.param(JOB.workers(2), policy(managedBy=OURS), id="set"),
        pytest.param(JOB.workers(2).managed_by(OURS), policy(managedBy=THEIRS), id="change"),
        pytest.param(JOB.workers(2).managed_by(OURS), policy(managedBy=None), id="remove"),
        pytest.param(JOB.workers(2).managed_by(OURS), {"runPolicy": None}, id="remove the whole policy"),
        pytest.param(
            JOB.workers(2).managed_by(OURS).suspended(), policy(managedBy=THEIRS), id="change while suspended"
        ),
    ],
)
async def test_managed_by_never_changes(changes, job, spec):
    assert await changes(job, spec) == {MANAGED: REFUSED[MANAGED]}


@pytest.mark.parametrize(
    ("job", "spec"),
    [
        pytest.param(JOB.workers(2).scheduling(queue="a"), policy(schedulingPolicy={"queue": "b"}), id="change"),
        pytest.param(JOB.workers(2).scheduling(queue="a"), policy(schedulingPolicy={"queue": None}), id="remove"),
        pytest.param(JOB.workers(2).scheduling(queue="a"), policy(schedulingPolicy=None), id="remove the scheduling"),
        pytest.param(JOB.workers(2).scheduling(queue="a"), {"runPolicy": None}, id="remove the whole policy"),
    ],
)
async def test_a_queue_stays_once_it_is_set(changes, job, spec):
    assert await changes(job, spec) == {QUEUE: REFUSED[QUEUE]}


@pytest.mark.parametrize(
    ("job", "spec"),
    [
        pytest.param(JOB.workers(2), replicas(Worker=3), id="more workers"),
        pytest.param(JOB.workers(2), replicas(Worker=1), id="fewer workers"),
        pytest.param(JOB.workers(2), whole("PS"), id="a new type"),
        pytest.param(JOB.workers(2).chief(), replicas(Chief=None), id="a type less"),
        pytest.param(DYNAMIC, replicas(PS=2), id="more parameter servers of dynamic workers"),
        pytest.param(DYNAMIC, replicas(Worker=None), id="no workers any more"),
        pytest.param(JOB.workers(2), {"enableDynamicWorker": True, **replicas(Worker=3)}, id="dynamic only now"),
        pytest.param(DYNAMIC, {"enableDynamicWorker": False, **replicas(Worker=3)}, id="dynamic no longer"),
        pytest.param(JOB.workers(2), {"elasticPolicy": {"maxReplicas": 4}} | replicas(Worker=3), id="elastic only now"),
        pytest.param(ELASTIC, {"elasticPolicy": None, **replicas(Worker=3)}, id="elastic no longer"),
        pytest.param(ELASTIC, replicas(PS=2), id="more parameter servers of elastic workers"),
    ],
)
async def test_replicas_of_a_running_job_stay_as_they_are(changes, job, spec):
    assert await changes(job, spec) == {SPECS: REFUSED[SPECS]}


@pytest.mark.parametrize(
    ("job", "spec"),
    [
        pytest.param(JOB.workers(2).suspended(), {**replicas(Worker=5), **whole("Chief")}, id="suspended"),
        pytest.param(JOB.workers(2).suspended(), {**replicas(Worker=1), **policy(suspend=False)}, id="on resume"),
        pytest.param(JOB.workers(2), {**replicas(Worker=1), **policy(suspend=True)}, id="on suspension"),
        pytest.param(DYNAMIC, replicas(Worker=0), id="fewer dynamic workers"),
        pytest.param(DYNAMIC, replicas(Worker=9), id="more dynamic workers"),
        pytest.param(
            JOB.replicas("worker", 2).dynamic_workers(), replicas(worker=9), id="dynamic workers in another case"
        ),
        pytest.param(JOB.workers(2), {"enableDynamicWorker": True}, id="dynamic from now on"),
        pytest.param(JOB.workers(2), {"elasticPolicy": {"maxReplicas": 4}}, id="elastic from now on"),
        pytest.param(ELASTIC, replicas(Worker=4), id="as many workers as the policy allows"),
        pytest.param(JOB.replicas("worker", 2).elastic(1, 4), replicas(worker=1), id="elastic workers in another case"),
        pytest.param(ELASTIC_SERVERS, replicas(PS=2), id="elastic parameter servers"),
        pytest.param(JOB.workers(2), policy(schedulingPolicy={"queue": "a"}), id="a first queue"),
        pytest.param(JOB.workers(2), policy(ttlSecondsAfterFinished=5, activeDeadlineSeconds=9), id="times"),
        pytest.param(JOB.workers(2), policy(suspend=True, cleanPodPolicy="All", backoffLimit=1), id="policies"),
        pytest.param(JOB.workers(2), {"runPolicy": None}, id="the whole policy away"),
        pytest.param(
            JOB.workers(2),
            {"tfReplicaSpecs": {"Worker": {"template": {"spec": {"nodeSelector": {"gpu": "yes"}}}}}},
            id="a template",
        ),
    ],
)
async def test_everything_else_may_change(changes, job, spec):
    assert await changes(job, spec) == {}


@pytest.mark.parametrize(
    ("job", "spec", "complaints"),
    [
        pytest.param(JOB.workers(2), {"tfConfigFormat": "Sparse"}, {FORMAT: REFUSED[FORMAT]}, id="while it runs"),
        pytest.param(JOB.workers(2), {"tfConfigFormat": "Full"}, {}, id="the default"),
        pytest.param(JOB.workers(2).suspended(), {"tfConfigFormat": "Sparse"}, {}, id="suspended"),
    ],
)
async def test_the_form_of_tf_config_changes_only_while_no_pod_runs(changes, job, spec, complaints):
    assert await changes(job, spec) == complaints


WHOLE, IN_PLACE = JOB.workers(2).restarts_as_a_whole(), JOB.workers(2).restarts_as_a_whole("InPlace")
ASK_FOR_IN_PLACE = {"restarts": {"scope": "Job", "method": "InPlace"}}


@pytest.mark.parametrize(
    ("job", "spec", "complaints"),
    [
        pytest.param(WHOLE, policy(restarts={"method": "InPlace"}), {METHOD: REFUSED[METHOD]}, id="in place"),
        pytest.param(JOB.workers(2), policy(**ASK_FOR_IN_PLACE), {METHOD: REFUSED[METHOD]}, id="with its scope"),
        pytest.param(IN_PLACE, policy(restarts={"method": "Recreate"}), {METHOD: REFUSED[METHOD]}, id="by new pods"),
        pytest.param(IN_PLACE, policy(restarts=None), {METHOD: REFUSED[METHOD]}, id="none"),
        pytest.param(IN_PLACE, {"runPolicy": None}, {METHOD: REFUSED[METHOD]}, id="no policy"),
        pytest.param(WHOLE, policy(restarts={"method": "Recreate"}), {}, id="the default"),
        pytest.param(JOB.workers(2), policy(restarts={"scope": "Job"}), {}, id="the scope"),
        pytest.param(WHOLE.suspended(), policy(restarts={"method": "InPlace"}), {}, id="suspended"),
        pytest.param(IN_PLACE.suspended(), policy(restarts=None, suspend=False), {}, id="on resume"),
        pytest.param(IN_PLACE, policy(restarts=None, suspend=True), {}, id="on suspension"),
    ],
)
async def test_how_a_whole_job_restarts_changes_only_while_no_pod_runs(changes, job, spec, complaints):
    assert await changes(job, spec) == complaints


@pytest.mark.parametrize(
    ("job", "spec", "complaints"),
    [
        pytest.param(JOB.workers(2), {"serviceMode": "Job"}, {MODE: REFUSED[MODE]}, id="while it runs"),
        pytest.param(JOB.workers(2).service_mode("Job"), {"serviceMode": None}, {MODE: REFUSED[MODE]}, id="and back"),
        pytest.param(JOB.workers(2), {"serviceMode": "Replica"}, {}, id="the default"),
        pytest.param(JOB.workers(2).suspended(), {"serviceMode": "Job"}, {}, id="suspended"),
        pytest.param(
            JOB.workers(2), {"serviceMode": "Job", "runPolicy": {"suspend": True}}, {}, id="with the suspension"
        ),
    ],
)
async def test_the_service_mode_changes_only_while_no_pod_runs(changes, job, spec, complaints):
    assert await changes(job, spec) == complaints


@pytest.mark.parametrize("mode", ["Job", "None", None])
async def test_who_may_connect_changes_at_any_time(changes, mode):
    assert (
        await changes(JOB.workers(2).network_policy("None" if mode == "Job" else "Job"), {"networkPolicy": mode}) == {}
    )


async def test_dynamic_workers_cannot_outgrow_the_name(admin, namespace):
    name = "a" * 54
    await admin.create(TFJOBS.path(namespace), DYNAMIC.named(name).body())

    await admin.patch(TFJOBS.path(namespace, name), {"spec": replicas(Worker=10)})
    with pytest.raises(RefusedError, match="is too long for the type Worker"):
        await admin.patch(TFJOBS.path(namespace, name), {"spec": replicas(Worker=11)})


async def test_the_scale_subresource_changes_dynamic_workers_and_tells_what_runs(admin, namespace):
    await admin.create(TFJOBS.path(namespace), DYNAMIC.body())
    await admin.patch(
        TFJOBS.path(namespace, "j", "status"),
        {"status": {"replicaStatuses": {"Worker": {"active": 2, "selector": "a=b,c=d"}}}},
    )

    await admin.patch(TFJOBS.path(namespace, "j", "scale"), {"spec": {"replicas": 4}})

    scale = await admin.get(TFJOBS.path(namespace, "j", "scale"))
    assert (scale["spec"], scale["status"]) == ({"replicas": 4}, {"replicas": 2, "selector": "a=b,c=d"})
    assert (await admin.get(TFJOBS.path(namespace, "j")))["spec"]["tfReplicaSpecs"]["Worker"]["replicas"] == 4


async def test_a_write_to_the_status_changes_no_spec_whatever_it_says(admin, namespace):
    job = await admin.create(TFJOBS.path(namespace), JOB.workers(2).managed_by(OURS).body())

    patch = {"spec": {**replicas(Worker=7), **policy(managedBy=THEIRS)}, "status": {"ready": "1/2"}}
    written = await admin.patch(TFJOBS.path(namespace, "j", "status"), patch)

    assert written["spec"] == job["spec"]
    assert written["status"] == {"ready": "1/2"}


async def test_a_changed_status_in_a_write_to_the_spec_opens_no_door(admin, namespace):
    """The rules let a write pass that changes the status: only a write to /status can."""
    await admin.create(TFJOBS.path(namespace), JOB.workers(2).body())

    with pytest.raises(RefusedError, match="types and numbers of replicas"):
        await admin.patch(TFJOBS.path(namespace, "j"), {"spec": replicas(Worker=7), "status": {"ready": "1/2"}})
