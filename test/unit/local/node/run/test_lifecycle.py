"""Lives of pods, without a process: what is started and stopped when, and what is reported of it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tf_operator.local.node.pod import pod_of
from tf_operator.local.node.run import lifecycle, pod_report
from tf_operator.local.node.run.lifecycle import PodStep
from tf_operator.local.node.runtime import End, Problem, Runtime
from tf_operator.meta import rfc3339

START = datetime(2026, 1, 1, tzinfo=UTC)
SIDECAR = {"name": "side", "restartPolicy": "Always"}
INIT = {"name": "init"}
MAIN = {"name": "main"}
PROBED = {"name": "main", "startupProbe": {"exec": {}}, "readinessProbe": {"exec": {}}}


class Life:
    """One pod, whose containers start at once when they may, and end when the test says so."""

    def __init__(self, spec, **metadata):
        self.body = {"metadata": {"name": "p", "namespace": "ns", "uid": "u", **metadata}, "spec": spec}
        self.now = START
        self.runtimes = pod_report.recovered(self.pod, START)
        self.started, self.stopped, self.killed = [], [], []
        self.settle()

    @property
    def pod(self):
        return pod_of(self.body)

    def settle(self):
        while True:
            self.step = lifecycle.next_step(self.pod, self.runtimes, since=START, now=self.now)
            for name in self.step.stop:
                self.stopped.append(name)
                self.change(name, is_stopping=True)
            for name in self.step.kill:
                self.killed.append(name)
                self.change(name, is_killed=True)
            if self.step.resets:
                items = self.runtimes.items()
                self.runtimes = {name: runtime.reset(self.now, self.step.resets_at) for name, runtime in items}
                continue
            for name in self.step.start:
                container = next(entry for entry in self.pod.containers if entry.name == name)
                self.started.append(name)
                self.runtimes[name] = self.runtimes[name].starting().began("process://1", self.now, container)
            if not self.step.start:
                break
        self.status = pod_report.report(self.pod, self.runtimes, self.step, since=START, now=self.now)
        self.body["status"] = self.status
        return self

    def change(self, name, **fields):
        self.runtimes[name] = replace(self.runtimes[name], **fields)

    def end(self, name, code, **fields):
        end = End(code, self.now, self.runtimes[name].started_at, **fields)
        self.runtimes[name] = self.runtimes[name].ended(end, 10.0)
        return self.settle()

    def passes(self, seconds):
        self.now += timedelta(seconds=seconds)
        return self.settle()

    def delete(self):
        self.body["metadata"]["deletionTimestamp"] = rfc3339(self.now)
        return self.settle()

    def condition(self, name):
        return next(entry for entry in self.status["conditions"] if entry["type"] == name)


def spec(policy, *containers, inits=(), **fields):
    return {"restartPolicy": policy, "containers": list(containers), "initContainers": list(inits), **fields}


@pytest.mark.parametrize(
    ("policy", "code", "phase", "starts"),
    [
        ("Never", 0, "Succeeded", 1),
        ("Never", 1, "Failed", 1),
        ("OnFailure", 0, "Succeeded", 1),
        ("OnFailure", 1, "Running", 2),
        ("Always", 0, "Running", 2),
    ],
)
def test_a_container_that_ended_is_started_again_by_the_restart_policy(policy, code, phase, starts):
    life = Life(spec(policy, MAIN)).end("main", code)
    assert (life.status["phase"], len(life.started)) == (phase, starts)
    assert life.step.is_over is (starts == 1)


def ruled(container, action, *codes, policy="Never"):
    """The container with a rule of its own."""
    rule = {"action": action, "exitCodes": {"operator": "In", "values": list(codes)}}
    return {**container, "restartPolicy": policy, "restartPolicyRules": [rule]}


@pytest.mark.parametrize(
    ("policy", "own", "code", "phase", "starts"),
    [
        ("Never", ruled(MAIN, "Restart", 42), 42, "Running", 2),
        ("Never", ruled(MAIN, "Restart", 0), 0, "Running", 2),
        ("Never", ruled(MAIN, "Restart", 42), 1, "Failed", 1),
        ("Never", {**MAIN, "restartPolicy": "OnFailure"}, 1, "Running", 2),
        ("Always", {**MAIN, "restartPolicy": "Never"}, 1, "Failed", 1),
        ("Always", ruled(MAIN, "Restart", 42), 0, "Succeeded", 1),
        ("Never", ruled(MAIN, "RestartAllContainers", 42), 42, "Running", 2),
    ],
)
def test_a_container_s_own_rules_come_before_its_own_policy_and_both_before_that_of_the_pod(
    policy, own, code, phase, starts
):
    life = Life(spec(policy, own)).end("main", code)
    assert (life.status["phase"], len(life.started)) == (phase, starts)


def test_a_rule_kills_all_containers_and_begins_again_with_the_first_init_container():
    sidecar, other = ruled(SIDECAR, "RestartAllContainers", 75, policy="Always"), {"name": "other"}
    life = Life(spec("Never", MAIN, other, inits=[INIT, sidecar])).end("init", 0).end("other", 0)
    assert (life.started, life.condition("AllContainersRestarting")["status"]) == (
        ["init", "side", "main", "other"],
        "False",
    )

    life.end("side", 75)
    assert (life.killed, life.status["phase"]) == (["main"], "Running")
    assert life.condition("AllContainersRestarting")["status"] == "True"

    life.end("main", 137)
    assert (life.started[4:], life.status["phase"]) == (["init"], "Pending")
    assert life.condition("AllContainersRestarting")["status"] == "False"
    main = life.status["containerStatuses"][0]
    assert (main["restartCount"], main["state"]["waiting"]["reason"]) == (1, "RestartingAllContainers")
    assert main["lastState"]["terminated"]["reason"] == "RestartingAllContainers"

    life.end("init", 0)
    assert (life.started[5:], life.status["phase"]) == (["side", "main", "other"], "Running")
    counts = [
        entry["restartCount"]
        for field in ("containerStatuses", "initContainerStatuses")
        for entry in life.status[field]
    ]
    assert counts == [1, 1, 1, 1]
    life.end("main", 0).end("other", 0)
    assert life.stopped == ["side"]
    assert life.end("side", 75).status["phase"] == "Succeeded", "what ends because the pod is over restarts nothing"


def test_restarts_of_all_containers_back_off_as_others_do():
    life = Life(spec("Never", ruled(MAIN, "RestartAllContainers", 42)))
    starts = []
    for seconds in (0, 9, 9, 1, 19, 1):
        life.passes(seconds)
        starts.append(len(life.started))
        if "running" in life.status["containerStatuses"][0]["state"]:
            life.end("main", 42)
    assert starts == [1, 2, 2, 3, 3, 4]


def test_a_pod_that_is_deleted_while_all_its_containers_are_killed_does_not_begin_again():
    life = Life(spec("Never", ruled(MAIN, "RestartAllContainers", 42), {"name": "other"})).end("main", 42)
    assert life.killed == ["other"]
    life.delete().end("other", 137)
    assert (life.status["phase"], life.step.is_over, life.started) == ("Failed", True, ["main", "other"])


def test_a_restart_of_all_containers_counts_once_when_the_node_ends_before_they_are_started():
    life = Life(spec("Never", ruled(MAIN, "RestartAllContainers", 42))).end("main", 42).end("main", 42)
    life.runtimes = pod_report.recovered(life.pod, life.now)
    assert life.settle().status["containerStatuses"][0]["restartCount"] == 2


def test_it_also_counts_once_if_something_is_missing_for_a_start_when_the_node_ends():
    life = Life(spec("Never", ruled(MAIN, "RestartAllContainers", 42))).end("main", 42).end("main", 42)
    life.runtimes["main"] = life.runtimes["main"].refused(Problem("CreateContainerConfigError", ""), START)
    status = pod_report.report(life.pod, life.runtimes, PodStep(), since=START, now=life.now)

    life.runtimes = pod_report.recovered(pod_of(life.body | {"status": status}), life.now)

    assert life.settle().status["containerStatuses"][0]["restartCount"] == 2


def test_the_first_restart_is_immediate_and_the_next_ones_back_off_until_a_run_lasts():
    life = Life(spec("Always", MAIN))
    waits = []
    for _ in range(8):
        life.end("main", 1)
        wait = (life.step.wake_at - life.now).total_seconds() if life.step.wake_at else 0.0
        if wait:
            assert life.status["containerStatuses"][0]["state"]["waiting"]["reason"] == "CrashLoopBackOff"
        waits.append(wait)
        life.passes(wait)
    assert waits == [0, 10, 20, 40, 80, 160, 300, 300]
    assert life.status["containerStatuses"][0]["restartCount"] == 8
    life.passes(600).end("main", 1)
    assert life.step.wake_at is None
    assert len(life.started) == 10


def test_init_containers_run_in_order_and_a_sidecar_stays():
    life = Life(spec("Never", MAIN, {"name": "other"}, inits=[INIT, SIDECAR, {"name": "second"}]))
    assert life.started == ["init"]
    assert life.status["phase"] == "Pending"
    waiting = [entry["state"]["waiting"]["reason"] for entry in life.status["containerStatuses"]]
    assert waiting == ["PodInitializing"] * 2
    life.end("init", 0)
    assert life.started == ["init", "side", "second"]
    assert life.condition("Initialized")["reason"] == "ContainersNotInitialized"
    life.end("second", 0)
    assert life.started[3:] == ["main", "other"]
    assert (life.status["phase"], life.condition("Ready")["status"]) == ("Running", "True")
    life.end("main", 0)
    assert life.stopped == []
    life.end("other", 0)
    assert (life.stopped, life.status["phase"]) == (["side"], "Running")
    life.end("side", 143)
    assert (life.status["phase"], life.step.is_over) == ("Succeeded", True)


def test_sidecars_are_stopped_in_reverse_order_after_the_main_container():
    life = Life(spec("Always", MAIN, inits=[SIDECAR, {"name": "late", "restartPolicy": "Always"}])).delete()
    assert life.stopped == ["main"]
    life.end("main", 143)
    assert life.stopped == ["main", "late"]
    life.end("late", 0)
    assert life.stopped == ["main", "late", "side"]
    life.end("side", 0)
    assert life.status["phase"] == "Failed"


@pytest.mark.parametrize(("policy", "phase"), [("Never", "Failed"), ("OnFailure", "Pending")])
def test_a_failed_init_container_ends_a_pod_that_is_never_restarted(policy, phase):
    life = Life(spec(policy, MAIN, inits=[INIT])).end("init", 1)
    assert (life.status["phase"], "main" in life.started) == (phase, False)


@pytest.mark.parametrize("policy", ["Always", "Never"])
def test_a_deadline_stops_the_containers_and_fails_the_pod_once_they_have_ended(policy):
    life = Life(spec(policy, MAIN, activeDeadlineSeconds=60))
    assert life.step.wake_at == START + timedelta(seconds=60)
    life.passes(60)
    assert (life.stopped, life.status["phase"]) == (["main"], "Running")
    life.end("main", 0)
    assert (life.status["phase"], life.status["reason"]) == ("Failed", "DeadlineExceeded")


@pytest.mark.parametrize(("code", "phase"), [(0, "Succeeded"), (143, "Failed")])
def test_a_deleted_pod_is_final_by_its_exit_codes_whatever_its_policy(code, phase):
    assert Life(spec("Always", MAIN)).delete().end("main", code).status["phase"] == phase


def test_a_container_counts_as_started_and_ready_when_its_probes_say_so():
    life = Life(spec("Always", PROBED))
    entry = life.status["containerStatuses"][0]
    assert (entry["started"], entry["ready"], life.condition("Ready")["reason"]) == (False, False, "ContainersNotReady")
    life.change("main", has_started=True, is_ready=True)
    entry = life.settle().status["containerStatuses"][0]
    assert (entry["started"], entry["ready"], life.condition("Ready")["status"]) == (True, True, "True")


def test_a_container_that_is_stopped_before_it_runs_is_stopped_once():
    life = Life(spec("Never", MAIN))
    life.runtimes["main"] = type(life.runtimes["main"])().starting()
    assert life.delete().stopped == ["main"]
    life.runtimes["main"] = life.runtimes["main"].began("process://1", life.now, life.pod.containers[0])
    assert life.settle().stopped == ["main"]


def test_conditions_of_others_stay_and_a_transition_time_moves_only_with_its_status():
    life = Life(spec("Never", MAIN))
    life.body["status"]["conditions"].append({"type": "DisruptionTarget", "status": "True", "reason": "Eviction"})
    life.passes(5)
    assert life.condition("DisruptionTarget")["reason"] == "Eviction"
    assert life.condition("Ready")["lastTransitionTime"] == rfc3339(START)
    life.end("main", 1)
    assert life.condition("Ready") == {
        "type": "Ready",
        "status": "False",
        "reason": "PodFailed",
        "lastTransitionTime": rfc3339(START + timedelta(seconds=5)),
    }


def test_a_problem_is_reported_until_the_next_attempt():
    life = Life(spec("Never", MAIN, {"name": "other"}))
    life.runtimes["main"] = type(life.runtimes["main"])().refused(
        Problem("CreateContainerError", "it has no command"), START + timedelta(seconds=2)
    )
    life.settle()
    assert life.status["containerStatuses"][0]["state"]["waiting"] == {
        "reason": "CreateContainerError",
        "message": "it has no command",
    }
    assert (life.status["phase"], life.step.wake_at) == ("Pending", START + timedelta(seconds=2))
    assert life.passes(2).started.count("main") == 2


def test_what_ran_under_an_earlier_node_has_ended_with_it_and_its_restarts_count_on():
    earlier = Life(spec("OnFailure", MAIN)).end("main", 1)
    assert earlier.status["containerStatuses"][0]["restartCount"] == 1
    life = Life.__new__(Life)
    life.body, life.now = earlier.body, START + timedelta(seconds=9)
    life.started, life.stopped, life.killed = [], [], []
    life.runtimes = pod_report.recovered(life.pod, life.now)
    entry = life.settle().status["containerStatuses"][0]
    assert (life.started, entry["restartCount"]) == (["main"], 2)
    assert entry["lastState"]["terminated"]["reason"] == "ContainerStatusUnknown"
    assert entry["lastState"]["terminated"]["exitCode"] == 137


def test_a_restarted_container_shows_how_its_last_run_ended():
    entry = Life(spec("Always", MAIN)).end("main", 137, signal=9, message="gone").status["containerStatuses"][0]
    ended = {"startedAt": rfc3339(START), "finishedAt": rfc3339(START)}
    assert entry["lastState"] == {"terminated": {"exitCode": 137, "signal": 9, "message": "gone", **ended}}
    assert "running" in entry["state"]


def test_an_init_container_that_is_about_to_run_again_is_not_stopped():
    life = Life(spec("OnFailure", MAIN, inits=[INIT])).end("init", 0)
    failed = life.runtimes["init"].began("process://2", START, life.pod.containers[0]).ended(End(1, START, START), 10.0)

    runtimes = life.runtimes | {"init": failed.starting(), "main": Runtime()}
    step = lifecycle.next_step(life.pod, runtimes, since=START, now=START)

    assert step == PodStep()
