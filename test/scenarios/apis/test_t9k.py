"""TensorFlowTrainingJobs on a real API server, as the T9k manual describes them."""

import secrets
from datetime import timedelta

import pytest

from support.crds import create_crd
from support.jobs import builders, t9k
from support.jobs.job_namespace import PATIENCE, JobNamespace, moment
from support.jobs.t9k import T9kNamespace, condition, documented, job, over, replicas
from support.operators.operator_fixture import ONE_OPERATOR, QUICK, OperatorFixture
from support.pods.pod_groups import pod_group_crd
from support.pods.pod_status import Exit
from support.resources import EVENTS, SERVICES, TRAINING_JOBS, Resource
from support.settle import eventually
from support.stopwatch import Stopwatch

pytestmark = ONE_OPERATOR
ARGUMENTS = (QUICK, "--enable-scheme=tensorflowtrainingjob", "--enable-scheme=tfjob")
prepare = t9k.prepare
EXAMPLE = documented("tensorflow-example")
GROUPS = Resource("scheduler.tensorstack.dev", "v1beta1", "podgroups")
WORKERS = [f"tensorflow-example-worker-{index}" for index in range(4)]


@pytest.fixture(scope="module")
def control_plane(fresh_plane):
    """A plane of this module's own: it gives the operator rights that it has nowhere else."""
    with fresh_plane() as plane:
        yield plane


@pytest.fixture
def here(job_namespace: JobNamespace) -> T9kNamespace:
    return T9kNamespace.of(job_namespace)


@pytest.mark.documents(
    "t9k/replicas",
    "t9k/main-replica",
    "t9k/success",
    "t9k/clean-none",
    "t9k/conditions",
    "t9k/phases",
    "t9k/tasks",
    "t9k/aggregate",
    "t9k/printed-example",
    "t9k/printed-conditions",
    "t9k/printed-tasks",
)
async def test_the_documented_job_goes_through_its_phases_to_the_documented_status(here: T9kNamespace) -> None:
    """Conditions in the manual's order with its reasons and messages; the times of the start stay."""
    await here.submit(EXAMPLE)
    await here.wait_pods(*WORKERS)
    begun = await here.says(EXAMPLE["metadata"]["name"], phase="Pending", flags="TFFFF", pending=4)
    await here.run(*WORKERS[1:3])
    await here.says(EXAMPLE["metadata"]["name"], phase="Pending", pending=2, running=2)
    await here.run(*WORKERS)
    await here.says(EXAMPLE["metadata"]["name"], phase="Running", flags="TTFFF", running=4)
    await Stopwatch.passes(moment(condition(begun, "Initialized")["lastTransitionTime"]) + timedelta(seconds=1))
    await here.succeed(WORKERS[0])
    ended = await here.says(EXAMPLE["metadata"]["name"], phase="Succeeded", running=3, succeeded=1)

    printed = documented("status/conditions")["status"]
    times = {entry["type"]: entry.pop("lastTransitionTime") for entry in ended["conditions"]}
    for entry in printed["conditions"]:
        entry.pop("lastTransitionTime")
    assert (ended["phase"], ended["conditions"]) == (printed["phase"], printed["conditions"])
    assert times["Initialized"] == times["ReplicaFailure"] == condition(begun, "Initialized")["lastTransitionTime"]
    assert times["Running"] == times["Failed"] == times["Completed"] > times["Initialized"]
    (task,) = documented("status/tasks")["status"]["tasks"]
    uids = await here.uids()
    main = {**task["replicas"][0], "name": WORKERS[0], "uid": uids[WORKERS[0]]}
    assert ended["tasks"][0]["replicas"][0] == main
    assert {entry["phase"] for entry in ended["tasks"][0]["replicas"][1:]} == {"Running"}
    assert set(await here.pods()) == set(WORKERS)


@pytest.mark.documents("t9k/main-replica")
async def test_a_chief_alone_decides_how_the_job_ends(here: T9kNamespace) -> None:
    roles = replicas("worker", 4, "Never"), replicas("chief", 1, "Never")
    await here.begin_running(job("a", *roles))
    await here.succeed("a-worker-0")
    status = await here.says("a", phase="Running", running=4, succeeded=1)
    assert [task["type"] for task in status["tasks"]] == ["worker", "chief"]
    await here.succeed("a-chief-0")
    await here.says("a", phase="Succeeded", flags="TFFTF", running=3, succeeded=2)

    await here.begin_running(job("b", *roles))
    await here.kubelet.fail("b-chief-0", Exit(1))
    status = await here.says("b", phase="Failed", flags="TFTFT", running=4, failed=1)
    assert condition(status, "Failed")["reason"] == condition(status, "Completed")["reason"] == "Failed"
    assert "exited with code 1" in condition(status, "ReplicaFailure")["message"]


@pytest.mark.documents("t9k/exit-code", "t9k/conditions")
async def test_under_exit_code_four_codes_restart_a_replica_and_all_others_are_final(here: T9kNamespace) -> None:
    """The other workers go on without it, and worker 0 still succeeds."""
    await here.begin_running(job("t", replicas("worker", 4, "ExitCode")))
    for count, code in enumerate((130, 137, 138, 143), start=1):
        pod = await here.kubelet.fail("t-worker-2", Exit(code))
        status = await here.says(phase="Running", flags="TTFFT")
        await here.wait_replaced(pod)
        await here.run("t-worker-2")
        status = await here.says(phase="Running", flags="TTFFF", running=4)
        assert (status["backoffCount"], status["tasks"][0]["restartCount"]) == (count, count)
    await here.kubelet.fail("t-worker-2", Exit(1))
    await here.says(phase="Running", flags="TTFFT", running=3, failed=1)
    await here.succeed("t-worker-0")
    status = await here.says(phase="Succeeded", flags="TFFTT", running=2, failed=1, succeeded=1)
    assert status["backoffCount"] == 4


@pytest.mark.documents("t9k/on-failure", "t9k/backoff-limit", "t9k/main-replica-restarts")
async def test_all_replicas_share_one_limit_of_restarts(here: T9kNamespace) -> None:
    """When it is used up a failed worker stays as it is; when the main one fails, the job does."""
    await here.begin_running(job("t", replicas("worker", 4), runPolicy={"backoffLimit": 2}))
    for name in ("t-worker-1", "t-worker-2"):
        await here.wait_replaced(await here.kubelet.fail(name, Exit(1)))
        await here.run(name)
    await here.says(phase="Running", flags="TTFFF", running=4)
    await here.kubelet.fail("t-worker-3", Exit(1))
    await here.says(phase="Running", flags="TTFFT", running=3, failed=1)
    await here.kubelet.fail("t-worker-0", Exit(1))
    status = await here.says(phase="Failed", flags="TFTFT", running=2, failed=2)
    assert (condition(status, "Failed")["reason"], status["backoffCount"]) == ("BackoffLimitExceeded", 2)

    await here.begin_running(job("none", runPolicy={"backoffLimit": 0}))
    await here.kubelet.fail("none-worker-0", Exit(137))
    await here.says("none", phase="Failed", flags="TFTFT", running=1, failed=1)


@pytest.mark.documents("t9k/always", "t9k/backoff-limit")
async def test_under_always_a_replica_runs_again_after_its_success_as_long_as_the_limit_allows(
    here: T9kNamespace,
) -> None:
    await here.begin_running(job("t", replicas("worker", 2, "Always"), runPolicy={"backoffLimit": 1}))
    pod = await here.kubelet.succeed("t-worker-1")
    await here.wait_replaced(pod)
    await here.run("t-worker-1")
    await here.says(running=2)
    await here.succeed("t-worker-1")
    status = await here.says(phase="Running", running=1, succeeded=1)
    assert status["tasks"][0]["restartCount"] == 1

    await here.begin_running(job("main", replicas("worker", 1, "Always")))
    for _ in range(3):
        await here.wait_replaced(await here.kubelet.succeed("main-worker-0"))
        await here.run("main-worker-0")
    status = await here.says("main", phase="Running", running=1)
    assert status["backoffCount"] == 3


@pytest.mark.documents("t9k/policy-wins", "t9k/never", "t9k/deadline")
async def test_under_never_a_failed_pod_stays_and_a_deadline_ends_the_job(here: T9kNamespace) -> None:
    await here.begin_running(job("t", replicas("worker", 2, "Never", restartPolicy="Always")))
    pod = await here.kubelet.fail("t-worker-1", Exit(1))
    status = await here.says(phase="Running", flags="TTFFT", running=1, failed=1)
    await here.edit({"spec": {"runPolicy": {"activeDeadlineSeconds": 5}}}, "t")
    started = moment(status["operator"]["startTime"])
    status = await here.says(phase="Failed", flags="TFTFT", running=1, failed=1)
    assert condition(status, "Failed")["reason"] == "DeadlineExceeded"
    assert moment(condition(status, "Failed")["lastTransitionTime"]) - started >= timedelta(seconds=5)
    assert (await here.uids())["t-worker-1"] == pod["metadata"]["uid"]


@pytest.mark.documents(
    "t9k/replicas",
    "t9k/templates",
    "t9k/resources",
    "t9k/shared-memory",
    "t9k/environment",
    "t9k/policy-wins",
    "t9k/default-scheduler",
    "t9k/printed-example",
    "t9k/printed-resources",
    "t9k/printed-shared-memory",
    "t9k/printed-environment",
)
async def test_what_the_manual_adds_to_a_template_is_in_each_pod(here: T9kNamespace) -> None:
    """Whatever restartPolicy the template has, the pod has Never."""
    body = over(EXAMPLE, documented("fragments/resources"))
    body = over(over(body, documented("fragments/shared-memory")), documented("fragments/environment"))
    body["spec"]["replicaSpecs"][0] |= {"restartPolicy": "ExitCode"}
    body["spec"]["replicaSpecs"][0]["template"]["spec"]["restartPolicy"] = "Always"
    await here.submit(body)
    for pod in (await here.wait_pods(*WORKERS)).values():
        (container,) = pod["spec"]["containers"]
        assert container["command"] == ["python", "dist_mnist.py"]
        assert container["image"] == "tensorflow/tensorflow:2.11.0"
        assert container["resources"]["limits"] == {"cpu": "4", "memory": "4Gi"}
        assert {"name": "dshm", "mountPath": "/dev/shm"} in container["volumeMounts"]
        assert {entry["name"] for entry in container["env"]} == {"ENV_DIRECT", "ENV_REFERENCED", "TF_CONFIG"}
        assert (pod["spec"]["restartPolicy"], pod["spec"]["schedulerName"]) == ("Never", "default-scheduler")
        assert pod["metadata"]["labels"]["tensorstack.dev/owner-name"] == "tensorflow-example"


@pytest.mark.documents("t9k/limits-below-requests")
async def test_limits_below_requests_are_reported_in_the_words_of_the_server(here: T9kNamespace) -> None:
    less = {"name": "tensorflow", "resources": {"limits": {"cpu": "100m"}}}
    change = {"spec": {"replicaSpecs": [{"type": "worker", "template": {"spec": {"containers": [less]}}}]}}
    await here.submit(over(EXAMPLE, change))
    status = await here.says("tensorflow-example", phase="Failed", flags="FFTFF")
    assert condition(status, "Failed")["reason"] == "InvalidSpec"
    assert "must be less than or equal to cpu limit" in condition(status, "Completed")["message"]


@pytest.mark.documents("t9k/clean-none", "t9k/clean-all", "t9k/clean-unfinished")
@pytest.mark.parametrize(
    ("policy", "left", "counts"),
    [
        ("None", 3, {"running": 1, "succeeded": 2}),
        ("Unfinished", 2, {"succeeded": 2, "deleted": 1}),
        ("All", 0, {"deleted": 3}),
    ],
)
async def test_the_clean_up_policy_says_which_replicas_are_deleted(
    here: T9kNamespace, policy: str, left: int, counts: dict[str, int]
) -> None:
    roles = replicas("ps", 1), replicas("worker", 2)
    await here.begin_running(job("t", *roles, runPolicy={"cleanUpPolicy": policy}))
    await here.succeed("t-worker-1")
    await here.says(running=2, succeeded=1)
    await here.succeed("t-worker-0")
    ended = await here.says(phase="Succeeded", flags="TFFTF")
    status = await here.says(phase="Succeeded", **counts)
    assert status["conditions"] == ended["conditions"]
    assert len(await here.pods()) == left


@pytest.mark.documents(
    "t9k/pause",
    "t9k/resume",
    "t9k/pause-changes",
    "t9k/conditions",
    "t9k/phases",
    "t9k/printed-pause",
    "t9k/printed-pause-defaults",
)
async def test_a_paused_job_has_no_pods_and_runs_its_resume_command_afterwards(here: T9kNamespace) -> None:
    paused = over(job("t", replicas("worker", 2, initContainers=[{"name": "init", "image": "i"}])), PAUSE)
    await here.submit(over(paused, {"spec": {"replicaSpecs": [replicas("ps", 1)]}}))
    status = await here.says(phase="Paused", flags="FFFFFT", deleted=3)
    assert condition(status, "Initialized")["reason"] == "Paused"
    await here.edit(NO_PAUSE)
    pods = await here.wait_pods("t-worker-0", "t-worker-1", "t-ps-0")
    await here.says(phase="Resuming", flags="TFFFFF", pending=3)
    assert program(pods["t-worker-0"]) == (["/usr/bin/sshd"], ["--fast"], False)
    assert program(pods["t-ps-0"]) == (["train"], ["--fast"], False)
    await here.run(*pods)
    await here.says(phase="Running", flags="TTFFFF", running=3)

    await here.wait_replaced(await here.kubelet.fail("t-worker-1", Exit(1)))
    await here.edit(documented("fragments/pause-with-defaults"))
    await here.says(phase="Paused", flags="FFFFFT", deleted=3)
    await here.wait_pods()
    await here.edit(NO_PAUSE)
    pods = await here.wait_pods("t-worker-0", "t-worker-1", "t-ps-0")
    assert program(pods["t-worker-0"])[0] == ["/usr/bin/sshd"]
    await here.run(*pods)
    status = await here.says(phase="Running", running=3)
    assert status["backoffCount"] == 1
    await here.succeed("t-worker-0")
    await here.says(phase="Succeeded", flags="TFFTFF")


@pytest.mark.documents("t9k/debug", "t9k/debug-fields", "t9k/printed-debug")
async def test_debugged_pods_wait_for_somebody_to_come_in(here: T9kNamespace) -> None:
    probes = {"livenessProbe": {"exec": {"command": ["x"]}}, "startupProbe": {"exec": {"command": ["x"]}}}
    roles = [replicas(kind, 1, initContainers=[{"name": "init", "image": "i"}]) for kind in ("worker", "ps")]
    for role in roles:
        role["template"]["spec"]["containers"][0] |= probes
    await here.submit(over(job("t", *roles), documented("fragments/debug")))
    pods = await here.wait_pods("t-worker-0", "t-ps-0")
    assert program(pods["t-worker-0"]) == (["/usr/bin/sshd"], [], False)
    assert program(pods["t-ps-0"]) == (["sleep", "inf"], [], True)
    assert not {"livenessProbe", "startupProbe"} & set(pods["t-ps-0"]["spec"]["containers"][0])
    await here.run(*pods)
    await here.says(phase="Running", flags="TTFFF", running=2)


@pytest.mark.documents("t9k/t9k-scheduler", "t9k/printed-scheduler")
async def test_a_job_gets_the_scheduler_of_t9k_as_soon_as_that_is_installed(here: T9kNamespace) -> None:
    """Until then the default one places its pods, and an event and the status say so."""
    asks = over(job("before"), documented("fragments/scheduler"))
    await here.submit(asks)
    pods = await here.wait_pods("before-worker-0", "before-worker-1")
    assert {pod["spec"]["schedulerName"] for pod in pods.values()} == {"default-scheduler"}
    status = await here.says("before", flags="TFFFF", pending=2)
    assert "t9k-scheduler is not installed" in condition(status, "Running")["message"]

    async def is_told() -> bool:
        told = await here.admin.list(EVENTS.path(here.namespace))
        return [event["reason"] for event in told if event["type"] == "Warning"] == ["SchedulerUnavailable"]

    assert await eventually(is_told)

    await create_crd(here.admin, pod_group_crd(GROUPS))

    async def is_placed() -> bool:
        name = f"after-{secrets.token_hex(2)}"
        await here.submit(over(job(name), documented("fragments/scheduler")))
        status = await here.says(name, flags="TFFFF", pending=2)
        assert condition(status, "Running")["message"] == "The job is waiting for its replicas."
        group = await here.admin.get(GROUPS.path(here.namespace, name))
        assert group["spec"] == {"minMember": 2, "queue": "default", "priority": 50}
        pod = (await here.pods())[f"{name}-worker-1"]
        assert pod["spec"]["schedulerName"] == "t9k-scheduler"
        assert pod["metadata"]["labels"]["scheduler.tensorstack.dev/group-name"] == name
        return True

    assert await eventually(is_placed, within=60, every=2.0)


@pytest.mark.documents("t9k/types")
async def test_an_evicted_replica_is_replaced_and_costs_nothing(here: T9kNamespace) -> None:
    roles = [replicas(kind) for kind in ("ps", "worker", "evaluator", "chief")]
    await here.begin_running(job("t", *roles, runPolicy={"backoffLimit": 0}))
    await here.wait_replaced(await here.kubelet.evict("t-chief-0"))
    await here.run("t-chief-0")
    status = await here.says(phase="Running", flags="TTFFF", running=4)
    assert (status["backoffCount"], status["operator"]["disruptions"]) == (0, 1)


async def test_a_deadline_of_meanwhile_fires_at_the_start_and_what_the_product_has_ended_is_left_alone(
    here: T9kNamespace, operator_fixture: OperatorFixture
) -> None:
    begun = await here.begin_running(job("late"))
    await operator_fixture.kill()
    await here.edit({"spec": {"runPolicy": {"activeDeadlineSeconds": 2}}}, "late")
    await Stopwatch.passes(moment(begun["operator"]["startTime"]) + timedelta(seconds=2))
    assert (await here.job("late"))["status"]["phase"] == "Running"
    await here.submit(job("ended"))
    completed = {"type": "Completed", "status": "True", "reason": "Succeeded", "message": "It is done."}
    status = {"phase": "Succeeded", "conditions": [completed | {"lastTransitionTime": "2024-01-01T00:00:00Z"}]}
    path = TRAINING_JOBS.path(here.namespace, "ended")
    stored = await here.admin.patch(f"{path}/status", {"status": status})

    await operator_fixture.start()
    ended = await here.says("late", phase="Failed", flags="TFTFF")
    assert condition(ended, "Failed")["reason"] == "DeadlineExceeded"
    assert ended["operator"]["startTime"] == begun["operator"]["startTime"]
    await here.quiet()
    assert await here.admin.get(path) == stored
    assert not [name for name in await here.pods() if name.startswith("ended")]


async def test_jobs_of_one_name_in_two_kinds_never_touch_each_others_children(
    here: T9kNamespace, job_namespace: JobNamespace
) -> None:
    """The later one waits for the names that it shares with the first, says so, and selects none of its pods."""
    await job_namespace.begin_running(builders.tfjob("t").workers(1))
    first = await here.uids()
    await here.submit(job("t", replicas("chief"), replicas("worker")))
    pods = await here.wait_pods("t-worker-0", "t-chief-0")

    async def is_reported() -> bool:
        events = await here.admin.list(EVENTS.path(here.namespace))
        refusals = [event for event in events if event["involvedObject"]["kind"] == "TensorFlowTrainingJob"]
        return any("t-worker-0" in event["message"] for event in refusals if event["type"] == "Warning")

    assert await eventually(is_reported, within=PATIENCE)
    service = await here.admin.get(SERVICES.path(here.namespace, "t-worker-0"))
    assert service["spec"]["selector"].items() <= pods["t-worker-0"]["metadata"]["labels"].items()
    names = {pod["metadata"]["labels"]["training.kubeflow.org/operator-name"] for pod in pods.values()}
    assert len(names) == 2, "which selectors tell apart"

    await here.succeed("t-worker-0")
    await job_namespace.wait("t", "Succeeded")
    await here.says(phase="Pending", creating=1, pending=1)
    assert (await here.uids())["t-worker-0"] == first["t-worker-0"]
    await here.admin.delete(SERVICES.path(here.namespace, "t-worker-0"))
    await here.wait_replaced(await here.delete_pod("t-worker-0"), within=90)
    await here.run("t-worker-0", "t-chief-0")
    await here.says(phase="Running", running=2)
    await here.succeed("t-chief-0")
    await here.says(phase="Succeeded", flags="TFFTF")


PAUSE = documented("fragments/pause")
NO_PAUSE = {"spec": {"runMode": {"pause": {"enabled": False}}}}


def program(pod):
    """What the container runs: command, args, and whether there are init containers."""
    (main,) = pod["spec"]["containers"]
    return main["command"], main.get("args", []), bool(pod["spec"].get("initContainers"))
