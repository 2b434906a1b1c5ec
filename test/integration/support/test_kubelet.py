"""The kubelet driver against a real apiserver: every status is accepted, and deletion is as in life."""

import pytest

from support import builders
from support.api import Api, RefusedError
from support.kubelet import HOLD
from support.pod_status import IMAGE_PULL_BACK_OFF, OOM_KILLED, Exit, killed_by
from support.resources import PODS
from support.templates import Template

FULL = Template().sidecar().init().sidecar("native", native=True)


@pytest.fixture
def create(admin: Api, namespace: str):
    """Create a pod ``p`` from a template."""

    async def create(template: Template | None = None, restart: str = "Never") -> dict:
        pod = builders.pod("p").shaped(template or Template()).restart(restart)
        return await admin.create(PODS.path(namespace), pod.body())

    return create


@pytest.fixture
def is_gone(admin: Api, namespace: str):
    async def is_gone() -> bool:
        return await admin.find(PODS.path(namespace, "p")) is None

    return is_gone


def state(pod: dict, container: str = "tensorflow") -> dict:
    every = pod["status"].get("containerStatuses", []) + pod["status"].get("initContainerStatuses", [])
    return next(entry["state"] for entry in every if entry["name"] == container)


async def test_a_pod_with_all_kinds_of_containers_lives_from_pending_to_succeeded(create, kubelet):
    await create(FULL)

    phases = [
        (await step)["status"]["phase"]
        for step in (
            kubelet.refuse("p"),
            kubelet.wait_in("p"),
            kubelet.wait_in("p", IMAGE_PULL_BACK_OFF, container="tensorflow"),
            kubelet.run("p", is_ready=False),
            kubelet.set_ready("p", True),
            kubelet.exit("p", {"sidecar": Exit()}),
            kubelet.exit("p", {"tensorflow": Exit()}),
        )
    ]

    assert phases == ["Pending", "Pending", "Pending", "Running", "Running", "Running", "Succeeded"]


@pytest.mark.parametrize(
    "how",
    [Exit(1, message="out of luck"), OOM_KILLED, killed_by(9)],
    ids=["error", "out of memory", "signal"],
)
@pytest.mark.parametrize("policy", ["Never", "OnFailure", "Always"])
async def test_a_pod_fails_under_every_policy_and_says_how(create, kubelet, policy, how):
    await create(FULL, policy)
    await kubelet.run("p")

    pod = await kubelet.fail("p", how)

    assert pod["status"]["phase"] == "Failed"
    ended = state(pod)["terminated"]
    assert (ended["exitCode"], ended.get("message", "")) == (how.code, how.message)
    assert state(pod, "sidecar")["terminated"]["exitCode"] == 0


async def test_a_pod_can_finish_without_having_been_seen_running(create, kubelet):
    await create(FULL)

    assert (await kubelet.succeed("p"))["status"]["phase"] == "Succeeded"


async def test_restarts_in_place_count_up_and_a_crash_loop_waits(create, kubelet):
    await create(FULL, "OnFailure")
    await kubelet.run("p")

    await kubelet.restart("p", Exit(1))
    await kubelet.restart("p", Exit(2), container="native")
    pod = await kubelet.restart("p", OOM_KILLED, is_backing_off=True)

    (main,) = [entry for entry in pod["status"]["containerStatuses"] if entry["name"] == "tensorflow"]
    assert main["restartCount"] == 2
    assert main["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert main["lastState"]["terminated"]["reason"] == "OOMKilled"
    assert pod["status"]["phase"] == "Running"
    assert (await kubelet.run("p"))["status"]["phase"] == "Running"


async def test_an_eviction_leaves_no_container_statuses(create, kubelet):
    await create(FULL)
    await kubelet.run("p")

    status = (await kubelet.evict("p"))["status"]

    assert (status["phase"], status["reason"]) == ("Failed", "Evicted")
    assert not {"containerStatuses", "initContainerStatuses"} & set(status)
    assert "DisruptionTarget" in {entry["type"] for entry in status["conditions"]}


async def test_a_preempted_pod_says_so_before_it_goes(create, kubelet, is_gone):
    await create()
    await kubelet.run("p")
    await kubelet.hold("p")

    pod = await kubelet.preempt("p")

    (target,) = [entry for entry in pod["status"]["conditions"] if entry["type"] == "DisruptionTarget"]
    assert target["reason"] == "PreemptionByScheduler"
    assert pod["metadata"]["deletionTimestamp"]
    await kubelet.release("p")
    assert await is_gone()


async def test_a_lost_node_leaves_its_pod_unknown_and_terminating(create, kubelet, is_gone):
    await create()
    await kubelet.run("p")

    await kubelet.lose_node("p")

    pod = await kubelet.pod("p")
    assert (pod["status"]["phase"], pod["status"]["reason"]) == ("Unknown", "NodeLost")
    assert pod["metadata"]["finalizers"] == [HOLD]
    assert pod["metadata"]["deletionTimestamp"]
    await kubelet.release("p")
    assert await is_gone()


async def test_a_bound_pod_is_deleted_gracefully_and_goes_when_the_kubelet_says_so(
    create, kubelet, admin, namespace, is_gone
):
    await create()
    assert (await kubelet.bind("p", "n"))["spec"]["nodeName"] == "n"
    await kubelet.run("p")

    await admin.delete(PODS.path(namespace, "p"))

    pod = await kubelet.pod("p")
    assert pod["metadata"]["deletionGracePeriodSeconds"] == 30
    await kubelet.confirm_deletion("p")
    assert await is_gone()


async def test_a_pod_that_was_never_bound_is_gone_the_moment_it_is_deleted(create, kubelet, admin, namespace, is_gone):
    await create()
    await kubelet.run("p")

    await admin.delete(PODS.path(namespace, "p"))

    assert await is_gone()


async def test_a_held_pod_can_still_finish_while_it_terminates(create, kubelet, admin, namespace):
    await create()
    await kubelet.run("p")
    await kubelet.hold("p")
    await admin.delete(PODS.path(namespace, "p"))

    pod = await kubelet.fail("p", killed_by(15))

    assert pod["status"]["phase"] == "Failed"
    assert pod["metadata"]["deletionTimestamp"]
    await kubelet.release("p")


async def test_release_takes_away_our_finalizer_and_no_other(create, kubelet, admin, namespace):
    await create()
    await admin.patch(PODS.path(namespace, "p"), {"metadata": {"finalizers": ["foreign.test/f"]}})

    assert set((await kubelet.hold("p"))["metadata"]["finalizers"]) == {"foreign.test/f", HOLD}
    await kubelet.release("p")

    assert (await kubelet.pod("p"))["metadata"]["finalizers"] == ["foreign.test/f"]
    await admin.patch(PODS.path(namespace, "p"), {"metadata": {"finalizers": None}})


async def test_a_status_never_goes_to_a_namesake(create, kubelet, admin, namespace):
    old = await create()
    await admin.delete(PODS.path(namespace, "p"))
    await create()

    with pytest.raises(RefusedError, match="field is immutable"):
        await kubelet.write(old, lambda pod, now: {"phase": "Failed"})

    assert (await kubelet.pod("p"))["status"]["phase"] == "Pending"
