"""What a kubelet writes: phases by its own rule, container by container."""

import pytest

from support import builders, pod_status
from support.pod_status import IMAGE_PULL_BACK_OFF, OOM_KILLED, Exit, killed_by
from support.templates import Template

T0, T1, T2 = "2026-01-01T00:00:00Z", "2026-01-01T00:00:10Z", "2026-01-01T00:00:20Z"


def new_pod(template: Template | None = None, restart: str = "Never") -> dict:
    pod = builders.pod("p").shaped(template or Template()).restart(restart)
    return pod.merged({"metadata": {"uid": "u-1"}, "status": {"phase": "Pending", "qosClass": "BestEffort"}}).body()


def after(pod: dict, status: dict) -> dict:
    """The pod as the apiserver would return it."""
    return {**pod, "status": status}


def running_pod(template: Template | None = None, restart: str = "Never") -> dict:
    pod = new_pod(template, restart)
    return after(pod, pod_status.running(pod, T0))


def container(status: dict, name: str = "tensorflow", group: str = "containerStatuses") -> dict:
    return next(entry for entry in status[group] if entry["name"] == name)


def conditions(status: dict) -> dict:
    return {entry["type"]: (entry["status"], entry.get("reason", "")) for entry in status["conditions"]}


def test_a_pending_pod_is_scheduled_and_its_containers_wait():
    status = pod_status.pending(new_pod(Template().sidecar()), T0)

    assert status["phase"] == "Pending"
    assert status["startTime"] == T0
    assert [entry["state"] for entry in status["containerStatuses"]] == [
        {"waiting": {"reason": "ContainerCreating"}}
    ] * 2
    assert conditions(status) == {
        "PodScheduled": ("True", ""),
        "Initialized": ("True", ""),
        "Ready": ("False", "ContainersNotReady"),
        "ContainersReady": ("False", "ContainersNotReady"),
    }


def test_an_image_that_cannot_be_pulled_holds_up_its_own_container_only():
    status = pod_status.pending(new_pod(Template().sidecar()), T0, IMAGE_PULL_BACK_OFF, container="tensorflow")

    assert container(status)["state"]["waiting"] == {
        "reason": "ImagePullBackOff",
        "message": 'Back-off pulling image "training:test"',
    }
    assert container(status, "sidecar")["state"]["waiting"] == {"reason": "ContainerCreating"}


def test_containers_wait_for_initialisation_when_there_are_init_containers():
    pod = new_pod(Template().init().sidecar("native", native=True))

    status = pod_status.pending(pod, T0, IMAGE_PULL_BACK_OFF, container="init")

    init, native = status["initContainerStatuses"]
    assert init["state"]["waiting"]["reason"] == "ImagePullBackOff"
    assert native["state"] == container(status)["state"] == {"waiting": {"reason": "PodInitializing"}}
    assert conditions(status)["Initialized"] == ("False", "")


@pytest.mark.parametrize(("policy", "phase"), [("Never", "Failed"), ("OnFailure", "Pending")])
def test_a_pod_never_gets_to_run_when_its_init_container_fails(policy, phase):
    pod = new_pod(Template().init(), policy)
    pod = after(pod, pod_status.pending(pod, T0))

    status = pod_status.exited(pod, T1, {"init": Exit(1)})

    assert status["phase"] == phase
    assert conditions(status)["Ready"][0] == "False"


def test_a_pod_is_pending_while_one_container_has_yet_to_start():
    pod = new_pod(Template().sidecar())
    status = pod_status.running(pod, T0)
    status["containerStatuses"][1]["state"] = {"waiting": {"reason": "ImagePullBackOff"}}

    assert pod_status.ready(after(pod, status), T1, is_ready=True)["phase"] == "Pending"


def test_an_unschedulable_pod_has_a_condition_and_no_containers():
    status = pod_status.unschedulable(new_pod(), T0, "0/3 nodes")

    assert conditions(status) == {"PodScheduled": ("False", "Unschedulable")}
    assert status["conditions"][0]["message"] == "0/3 nodes"
    assert status["phase"] == "Pending"
    assert "containerStatuses" not in status


def test_a_running_pod_runs_all_but_its_init_containers():
    status = pod_status.running(new_pod(Template().init().sidecar().sidecar("native", native=True)), T0)

    assert status["phase"] == "Running"
    assert container(status)["state"] == {"running": {"startedAt": T0}}
    assert container(status, "sidecar")["started"] is True
    assert container(status, "native", "initContainerStatuses")["state"] == {"running": {"startedAt": T0}}
    assert container(status, "init", "initContainerStatuses")["state"]["terminated"]["reason"] == "Completed"
    assert conditions(status)["Ready"] == ("True", "")
    assert status["podIPs"] == [{"ip": status["podIP"]}]
    assert status["hostIPs"] == [{"ip": status["hostIP"]}]


def test_a_pod_is_running_but_not_ready_when_a_probe_says_so():
    pod = new_pod()
    pod = after(pod, pod_status.running(pod, T0, is_ready=False))
    assert pod["status"]["phase"] == "Running"
    assert conditions(pod["status"])["Ready"] == ("False", "ContainersNotReady")

    status = pod_status.ready(pod, T1, is_ready=True)

    assert conditions(status)["Ready"] == ("True", "")
    assert container(status)["state"] == {"running": {"startedAt": T0}}


def test_a_pod_keeps_running_when_its_main_container_ends_beside_a_sidecar():
    status = pod_status.exited(running_pod(Template().sidecar()), T1, {"tensorflow": Exit(3, message="bad")})

    assert status["phase"] == "Running"
    assert conditions(status)["Ready"] == ("False", "ContainersNotReady")
    assert container(status)["state"] == {
        "terminated": {
            "exitCode": 3,
            "reason": "Error",
            "startedAt": T0,
            "finishedAt": T1,
            "message": "bad",
        }
    }


def test_a_native_sidecar_does_not_keep_its_pod_running():
    pod = running_pod(Template().sidecar("native", native=True))

    status = pod_status.exited(pod, T1, {"tensorflow": Exit(1)})

    assert status["phase"] == "Failed"
    ended = container(status, "native", "initContainerStatuses")["state"]["terminated"]
    assert (ended["exitCode"], ended["startedAt"], ended["finishedAt"]) == (0, T0, T1)


@pytest.mark.parametrize(
    ("policy", "how", "phase", "ready_reason"),
    [
        ("Never", Exit(), "Succeeded", "PodCompleted"),
        ("Never", Exit(1), "Failed", "PodFailed"),
        ("OnFailure", Exit(), "Succeeded", "PodCompleted"),
        ("OnFailure", Exit(1), "Running", "ContainersNotReady"),
        ("Always", Exit(), "Running", "ContainersNotReady"),
        ("Always", Exit(1), "Running", "ContainersNotReady"),
    ],
)
def test_the_phase_follows_the_restart_policy_when_the_last_container_ends(policy, how, phase, ready_reason):
    status = pod_status.exited(running_pod(restart=policy), T1, {"tensorflow": how})

    assert status["phase"] == phase
    assert conditions(status)["Ready"] == ("False", ready_reason)


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        (Exit(), {"exitCode": 0, "reason": "Completed"}),
        (Exit(1), {"exitCode": 1, "reason": "Error"}),
        (OOM_KILLED, {"exitCode": 137, "reason": "OOMKilled"}),
        (killed_by(15), {"exitCode": 143, "reason": "Error", "signal": 15}),
    ],
    ids=["completed", "error", "out of memory", "signal"],
)
def test_an_end_says_code_reason_and_signal(how, expected):
    assert how.state(T0, T1)["terminated"] == {**expected, "startedAt": T0, "finishedAt": T1}


def test_a_finished_pod_is_over_whatever_its_policy():
    pod = running_pod(Template().sidecar(), restart="Always")

    status = pod_status.finished(pod, T1, Exit(137))

    assert status["phase"] == "Failed"
    assert container(status)["state"]["terminated"]["exitCode"] == 137
    assert container(status, "sidecar")["state"]["terminated"]["exitCode"] == 0
    assert pod_status.finished(pod, T1)["phase"] == "Succeeded"


def test_what_had_ended_keeps_its_end_when_the_pod_finishes():
    pod = running_pod(Template().sidecar())
    pod = after(pod, pod_status.exited(pod, T1, {"sidecar": Exit(9)}))

    status = pod_status.finished(pod, T2)

    assert container(status, "sidecar")["state"]["terminated"]["exitCode"] == 9
    assert container(status, "sidecar")["state"]["terminated"]["finishedAt"] == T1


def test_a_restart_in_place_counts_and_keeps_the_last_end():
    pod = running_pod(Template().sidecar(), restart="OnFailure")
    pod = after(pod, pod_status.restarted(pod, T1, Exit(1)))
    status = pod_status.restarted(pod, T2, OOM_KILLED)

    assert status["phase"] == "Running"
    assert container(status)["restartCount"] == 2
    assert container(status)["state"] == {"running": {"startedAt": T2}}
    assert container(status)["lastState"]["terminated"] == {
        "exitCode": 137,
        "reason": "OOMKilled",
        "startedAt": T1,
        "finishedAt": T2,
    }
    assert container(status, "sidecar")["restartCount"] == 0
    assert [entry["name"] for entry in status["containerStatuses"]] == ["tensorflow", "sidecar"]


def test_a_container_in_crash_loop_waits_and_its_pod_counts_as_running():
    status = pod_status.restarted(running_pod(restart="Always"), T1, Exit(1), is_backing_off=True)

    assert status["phase"] == "Running"
    assert container(status)["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert container(status)["restartCount"] == 1
    assert conditions(status)["Ready"] == ("False", "ContainersNotReady")


def test_an_evicted_pod_has_failed_without_a_word_of_its_containers():
    pod = running_pod(Template().init())

    status = pod_status.evicted(pod, T1)

    assert (status["phase"], status["reason"]) == ("Failed", "Evicted")
    assert not {"containerStatuses", "initContainerStatuses"} & set(status)
    assert conditions(status)["DisruptionTarget"] == ("True", "TerminationByKubelet")
    assert pod_status.merge_patch(pod, status)["status"]["containerStatuses"] is None


def test_a_lost_pod_is_unknown_and_not_ready():
    status = pod_status.lost(running_pod(), T1, "n")

    assert (status["phase"], status["reason"]) == ("Unknown", "NodeLost")
    assert status["message"] == "Node n which was running pod p is unresponsive"
    assert conditions(status)["Ready"] == ("False", "NodeStatusUnknown")
    assert container(status)["state"] == {"running": {"startedAt": T0}}


def test_a_transition_time_moves_only_when_the_condition_does():
    pod = running_pod()

    status = pod_status.disrupted(pod, T1, "EvictionByEvictionAPI", "drained")
    status = pod_status.running(after(pod, status), T2)

    times = {entry["type"]: entry["lastTransitionTime"] for entry in status["conditions"]}
    assert times["Ready"] == T0
    assert times["DisruptionTarget"] == T1
    assert len(times) == len(status["conditions"])


def test_the_pod_is_not_changed_by_what_is_made_of_it():
    pod = running_pod()
    before = pod_status.lost(pod, T1)

    pod_status.finished(pod, T1, Exit(1))
    pod_status.evicted(pod, T1)

    assert pod_status.lost(pod, T1) == before
    assert pod == running_pod()


def test_a_patch_is_for_this_pod_only_and_removes_what_is_gone():
    pod = running_pod()

    patch = pod_status.merge_patch(pod, {"phase": "Failed"})

    assert patch["metadata"] == {"uid": "u-1"}
    assert patch["status"]["phase"] == "Failed"
    assert patch["status"]["podIP"] is None


def test_an_address_belongs_to_the_uid():
    other = {**new_pod(), "metadata": {"name": "p", "uid": "u-2"}}

    addresses = {pod_status.running(pod, T0)["podIP"] for pod in (new_pod(), new_pod(), other)}

    assert len(addresses) == 2
