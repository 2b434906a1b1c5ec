"""What becomes of a job when its programs fail: restart policies, exit codes, the budget of restarts."""

from datetime import UTC, datetime, timedelta

from support.jobs import builders
from support.jobs.job_namespace import conditions, states
from support.operators.operator_fixture import ONE_OPERATOR, QUICK
from support.pods import pod_status
from support.pods.autopilot import autopilot
from support.pods.pod_scripts import Script, failing, running
from support.pods.pod_status import Exit
from support.settle import eventually
from tf_operator.meta import rfc3339

pytestmark = ONE_OPERATOR
ARGUMENTS = (QUICK,)


async def test_only_the_pod_that_was_killed_is_replaced(job_namespace):
    job = builders.tfjob("j").chief(restart="ExitCode").workers(1, restart="ExitCode")
    await job_namespace.begin_running(job.evaluators(1, restart="ExitCode"))
    old_pods = await job_namespace.pods()
    await job_namespace.kubelet.fail("j-evaluator-0", Exit(137))
    await job_namespace.wait("j", "Restarting", text="Evaluator")
    await job_namespace.wait_replaced(old_pods["j-evaluator-0"])
    await job_namespace.run("j-evaluator-0")
    running_job = await job_namespace.wait("j", "Running")
    assert states(running_job) == ["Created", "Running"]
    assert running_job["status"]["restarts"] == 1
    assert running_job["status"]["replicaStatuses"]["Evaluator"]["restarts"] == 1
    uids = await job_namespace.uids()
    assert {name for name, pod in old_pods.items() if pod["metadata"]["uid"] != uids[name]} == {"j-evaluator-0"}


async def test_a_permanent_code_fails_the_job_and_names_who_and_why(job_namespace):
    await job_namespace.begin_running(builders.tfjob("j").workers(2, restart="ExitCode"))
    uids = await job_namespace.uids()
    await job_namespace.kubelet.fail("j-worker-1", Exit(1, message="CUDA out of memory"))
    job = await job_namespace.wait("j", "Failed", reason="TFJobFailed", text="j-worker-1")
    assert "exited with code 1" in job["status"]["conditions"][-1]["message"]
    assert "Restarting" not in states(job)
    failure = job["status"]["firstFailure"]
    assert (failure["pod"], failure["container"], failure["exitCode"]) == ("j-worker-1", "tensorflow", 1)
    assert failure["message"] == "CUDA out of memory"
    await job_namespace.quiet()
    assert await job_namespace.uids() == uids


async def test_two_restarts_are_two_pods_and_then_the_end(job_namespace):
    script = Script().otherwise([running(), failing(Exit(137))])
    async with autopilot(job_namespace.kubelet, script) as pilot:
        await job_namespace.submit(builders.tfjob("j").workers(1, restart="ExitCode").backoff_limit(2))
        job = await job_namespace.wait("j", "Failed", reason="TFJobBackoffLimitExceeded", text="limit of 2")
        await job_namespace.quiet()
        assert pilot.completed["j-worker-0"] == 3
    assert job["status"]["restarts"] == 2
    assert job_namespace.created_pods() == 3


async def test_restarts_in_place_use_up_the_budget(job_namespace):
    await job_namespace.begin_running(
        builders.tfjob("j").workers(4, restart="OnFailure").backoff_limit(4).clean_pods("All")
    )
    for index in range(3):
        await job_namespace.kubelet.restart(f"j-worker-{index}", Exit(1))
        await job_namespace.wait_status(restarts=index + 1)
    await job_namespace.kubelet.restart("j-worker-3", Exit(1))
    job = await job_namespace.wait("j", "Failed", reason="TFJobBackoffLimitExceeded")
    assert job["status"]["restarts"] == 4
    assert "it last exited with code 1" in conditions(job)["Failed"]["message"]
    assert (job["status"]["firstFailure"]["pod"], job["status"]["firstFailure"]["exitCode"]) == ("j-worker-0", 1)
    told = "worker-2 (pod j-worker-2) exited with code 1; restarted in place (3 of 4 restarts used)"
    await job_namespace.wait_event("ReplicaRestarted", told)
    await job_namespace.wait_pods()


async def test_a_pod_that_failed_and_was_deleted_counts_as_a_failure(job_namespace):
    """Whoever was quicker: what it was when it went is what counts."""
    await job_namespace.begin_running(builders.tfjob("j").workers(2, restart="OnFailure"))
    pod = await job_namespace.kubelet.fail("j-worker-1", Exit(1))
    await eventually(lambda: job_namespace.kubelet.is_gone(pod))
    await job_namespace.wait_status(restarts=1)
    await job_namespace.wait_replaced(pod)


async def test_a_killed_worker_takes_along_all_that_train_in_step(job_namespace):
    job = builders.tfjob("j").chief(restart="ExitCode").workers(3, restart="OnFailure").backoff_limit(1)
    await job_namespace.begin_running(job.restarts_as_a_whole())
    await job_namespace.kubelet.succeed("j-worker-2")
    await job_namespace.wait_counts("Worker", succeeded=1, active=2)
    old_uids = await job_namespace.uids()
    await job_namespace.kubelet.fail("j-worker-1", Exit(137))
    await job_namespace.wait("j", "Restarting", text="Worker")
    told = "worker-1 (pod j-worker-1) exited with code 137; attempt 2 begins in "
    restarted = await job_namespace.wait_event("JobRestarted", told)
    assert restarted["message"].partition(" s ")[2].startswith("with new pods for it and 2 other replica(s)")

    given_up = ("j-chief-0", "j-worker-0", "j-worker-1")
    for name in given_up:
        await job_namespace.wait_replaced({"metadata": {"name": name, "uid": old_uids[name]}})
    await job_namespace.run(*given_up)
    running_job = await job_namespace.wait("j", "Running")

    uids = await job_namespace.uids()
    assert {name for name, uid in old_uids.items() if uids[name] != uid} == {*given_up}
    assert (running_job["status"]["restarts"], running_job["status"]["attempt"]) == (1, 2)
    assert job_namespace.created_pods() == 7


async def test_a_drain_is_no_failure_although_another_worker_fails_before_the_drained_pod_is_gone(job_namespace):
    await job_namespace.begin_running(
        builders.tfjob("j").workers(2, restart="ExitCode").backoff_limit(0).restarts_as_a_whole()
    )
    old_pods = await job_namespace.pods()
    for name in old_pods:
        await job_namespace.kubelet.hold(name)
    await job_namespace.kubelet.disrupt("j-worker-1", "EvictionByEvictionAPI", "Eviction API: evicting")
    await job_namespace.kubelet.fail("j-worker-0", Exit(1))
    await job_namespace.wait("j", "Restarting", text="disrupted")
    await job_namespace.wait_event("JobRestarted", "worker-1 (pod j-worker-1) was disrupted (EvictionByEvictionAPI")
    for name in old_pods:
        await job_namespace.kubelet.release(name)

    await job_namespace.wait_replaced(*old_pods.values())
    await job_namespace.run("j-worker-0", "j-worker-1")
    job = await job_namespace.wait("j", "Running")

    assert (job["status"]["disruptions"], job["status"].get("restarts", 0), job["status"]["attempt"]) == (1, 0, 2)


async def test_a_node_that_killed_a_worker_is_avoided_until_no_other_one_takes_its_pod(job_namespace):
    await job_namespace.begin(builders.tfjob("j").workers(1, restart="ExitCode").avoid_nodes(1))
    await job_namespace.kubelet.bind("j-worker-0", "node-17")
    await job_namespace.run("j-worker-0")
    killed = await job_namespace.kubelet.fail("j-worker-0", Exit(139))
    [waiting] = await job_namespace.wait_replaced(killed)

    assert waiting["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] == {
        "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["node-17"]}]}]
    }
    await job_namespace.wait_event("NodeAvoided", "new pods avoid node-17: 1 failure (worker-0 exit 139)")
    [node] = (await job_namespace.job())["status"]["avoidedNodes"]
    assert (node["node"], node["failures"], node["avoided"]) == ("node-17", 1, True)

    six_minutes_ago = rfc3339(datetime.now(UTC) - timedelta(minutes=6))
    await job_namespace.kubelet.write(
        waiting, lambda pod, _: pod_status.unschedulable(pod, six_minutes_ago, "0/1 nodes are available")
    )
    [successor] = await job_namespace.wait_replaced(waiting)

    assert "affinity" not in successor["spec"]
    await job_namespace.wait_event("NodeAllowedAgain", "no other node has taken worker-0 (pod j-worker-0) for 5 min")
    job = await job_namespace.job()
    assert "avoidedNodes" not in job["status"]
    assert job["status"]["restarts"] == 1, "who waited in vain has not failed"
