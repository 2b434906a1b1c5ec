"""TensorFlowTrainingJobs by themselves: how they are read, and what their status says in the course of their lives."""

from dataclasses import replace
from datetime import UTC, datetime

import msgspec
import pytest
from msgspec import structs

from support.disturbances.crashes import crash_points
from support.embedded.pod_events import (
    everything_runs,
    fails,
    is_deleted,
    is_evicted,
    is_starting,
    main_ends,
    runs,
    succeeds,
    time_passes,
)
from support.embedded.simulator import MORNING, Simulator
from support.jobs.t9k import PHASES, condition, documented, job, over, replicas
from tf_operator.app.metrics.phases import PHASES as PHASES_OF_METRICS
from tf_operator.dialects.served import JobSummary
from tf_operator.dialects.t9k.v1beta1 import API
from tf_operator.job import tensorboard
from tf_operator.job.record import FailureCause, JobPhase, JobRecord, ReplicaType
from tf_operator.job.report import ChildLine, ContainerLine, JobReport, ReplicaCounts, ReplicaLine
from tf_operator.job.training_job import CleanPodPolicy, Override, RestartPolicy
from tf_operator.job.validation import validate
from tf_operator.planning.plan import make_plan
from tf_operator.planning.snapshot import Pod, Snapshot

HEAD = {"uid": "u", "resourceVersion": "1", "generation": 1, "namespace": "team"}
PAUSE = documented("fragments/pause")["spec"]


def pause(simulator):
    """With other resume specs, as older schemas let it pass."""
    simulator.tamper({"spec": over(PAUSE, {"runMode": {"pause": {"resumeSpecs": [{"type": "ps", "args": ["-x"]}]}}})})


def resume(simulator):
    simulator.edit({"spec": {"runMode": {"pause": {"enabled": False}}}})


def begun(*roles, **spec):
    return Simulator(job("t", *roles, **spec), api=API)


def lived(moves, *roles, **spec):
    simulator = begun(*roles, **spec)
    simulator.settle()
    for move in moves:
        move(simulator)
        simulator.settle()
    return simulator


def status_line(simulator):
    status = simulator.status
    flags = "".join(entry["status"][0] for entry in status["conditions"])
    counts = "/".join(str(status["aggregate"][phase]) for phase in PHASES)
    return f"{status['phase']} {flags} {counts} {status['backoffCount']}"


def retried(name, code=1):
    return fails(name, code), time_passes(600), everything_runs


WORKERS, CHIEF = replicas("worker", 4), replicas("chief", 1)


@pytest.mark.documents(
    "t9k/on-failure",
    "t9k/main-replica",
    "t9k/main-replica-restarts",
    "t9k/success",
    "t9k/deadline",
    "t9k/clean-none",
    "t9k/phases",
    "t9k/aggregate",
)
@pytest.mark.parametrize(
    ("policy", "spec", "moves", "expected"),
    [
        ("", {}, [], "Pending TFFFF 0/4/0/0/0/0/0 0"),
        ("", {}, [runs("worker-1")], "Pending TFFFF 0/3/1/0/0/0/0 0"),
        ("", {}, [everything_runs], "Running TTFFF 0/0/4/0/0/0/0 0"),
        ("", {}, [everything_runs, succeeds("worker-0")], "Succeeded TFFTF 0/0/3/1/0/0/0 0"),
        ("", {}, [everything_runs, main_ends("worker-0")], "Succeeded TFFTF 0/0/4/0/0/0/0 0"),
        ("", {}, [everything_runs, fails("worker-1")], "Running TTFFT 1/0/3/0/0/0/0 1"),
        ("", {}, [everything_runs, *retried("worker-1")], "Running TTFFF 0/0/4/0/0/0/0 1"),
        ("", {}, [everything_runs, *retried("worker-0")], "Running TTFFF 0/0/4/0/0/0/0 1"),
        (
            "",
            {},
            [everything_runs, *(m for _ in range(50) for m in retried("worker-0"))],
            "Running TTFFF 0/0/4/0/0/0/0 50",
        ),
        ("", {}, [everything_runs, is_evicted("worker-0")], "Running TTFFF 1/0/3/0/0/0/0 0"),
        ("ExitCode", {}, [everything_runs, fails("worker-1", 139)], "Running TTFFT 0/0/3/0/1/0/0 0"),
        ("ExitCode", {}, [everything_runs, fails("worker-1", 137, "OOMKilled")], "Running TTFFT 1/0/3/0/0/0/0 1"),
        ("ExitCode", {}, [everything_runs, fails("worker-0", 129)], "Failed TFTFT 0/0/3/0/1/0/0 0"),
        ("Never", {}, [everything_runs, fails("worker-1", 137)], "Running TTFFT 0/0/3/0/1/0/0 0"),
        ("Never", {}, [everything_runs, is_evicted("worker-0")], "Failed TFTFT 0/0/3/0/1/0/0 0"),
        ("Always", {}, [everything_runs, succeeds("worker-0")], "Running TTFFF 1/0/3/0/0/0/0 1"),
        (
            "Always",
            {"runPolicy": {"backoffLimit": 1}},
            [everything_runs, succeeds("worker-1"), time_passes(9), everything_runs, succeeds("worker-1")],
            "Running TTFFF 0/0/3/1/0/0/0 1",
        ),
        (
            "Always",
            {"runPolicy": {"backoffLimit": 0}},
            [everything_runs, succeeds("worker-0")],
            "Succeeded TFFTF 0/0/3/1/0/0/0 0",
        ),
        (
            "",
            {"runPolicy": {"backoffLimit": 2}},
            [everything_runs, *retried("worker-1"), *retried("worker-2"), fails("worker-3")],
            "Running TTFFT 0/0/3/0/1/0/0 2",
        ),
        (
            "",
            {"runPolicy": {"backoffLimit": 2}},
            [everything_runs, *retried("worker-1"), *retried("worker-2"), fails("worker-3"), fails("worker-0")],
            "Failed TFTFT 0/0/2/0/2/0/0 2",
        ),
        ("", {"runPolicy": {"backoffLimit": 0}}, [everything_runs, fails("worker-0")], "Failed TFTFT 0/0/3/0/1/0/0 0"),
        ("", {}, [pause], "Paused FFFFFT 0/0/0/0/0/0/4 0"),
        ("", {}, [everything_runs, pause], "Paused FFFFFT 0/0/0/0/0/0/4 0"),
        ("", {}, [everything_runs, pause, resume], "Resuming TFFFFF 0/4/0/0/0/0/0 0"),
        ("", {}, [everything_runs, pause, resume, everything_runs], "Running TTFFFF 0/0/4/0/0/0/0 0"),
        ("", {}, [everything_runs, succeeds("worker-1"), pause], "Paused FFFFFT 0/0/0/0/0/0/4 0"),
        ("", {}, [everything_runs, succeeds("worker-1"), pause, resume], "Resuming TFFFFF 0/3/0/1/0/0/0 0"),
        (
            "",
            {"runPolicy": {"cleanUpPolicy": "Unfinished"}},
            [everything_runs, succeeds("worker-1"), succeeds("worker-0")],
            "Succeeded TFFTF 0/0/0/2/0/0/2 0",
        ),
        (
            "",
            {"runPolicy": {"cleanUpPolicy": "All"}},
            [everything_runs, succeeds("worker-0")],
            "Succeeded TFFTF 0/0/0/0/0/0/4 0",
        ),
        ("", {}, [everything_runs, succeeds("worker-0"), is_deleted("worker-1")], "Succeeded TFFTF 0/0/2/1/0/0/1 0"),
        ("", {"runPolicy": {"activeDeadlineSeconds": 5}}, [time_passes(6)], "Failed TFTFF 0/4/0/0/0/0/0 0"),
    ],
)
def test_a_status_says_where_the_job_stands(policy, spec, moves, expected):
    """Phase, conditions in their order, counts in the manual's order, and the restarts that count."""
    assert status_line(lived(moves, replicas("worker", 4, policy), **spec)) == expected


@pytest.mark.documents("t9k/printed-aggregate")
def test_the_replicas_of_each_phase_are_counted_as_in_the_manual():
    simulator = lived([runs("worker-0"), runs("worker-1")], replicas("worker", 3))

    assert simulator.status["aggregate"] == documented("status/aggregate")["status"]["aggregate"]


def test_a_job_with_a_chief_is_not_decided_by_its_workers():
    moves = [everything_runs, succeeds("worker-0")]

    assert status_line(lived(moves, CHIEF, WORKERS)) == "Running TTFFF 0/0/4/1/0/0/0 0"
    assert status_line(lived([*moves, succeeds("chief-0")], CHIEF, WORKERS)) == "Succeeded TFFTF 0/0/3/2/0/0/0 0"


def test_the_status_before_any_pod_names_what_is_to_come_and_what_is_in_its_way():
    simulator = begun(WORKERS)
    report = simulator.look().report
    status = API.write_status(report, {})

    assert (status["phase"], status["aggregate"]["creating"]) == ("Pending", 4)
    assert [entry["status"] for entry in status["conditions"]] == ["False"] * 5
    assert status["tasks"] == [
        {"type": "worker", "replicas": [{"name": f"t-worker-{index}", "phase": "Creating"} for index in range(4)]}
    ]
    (initialized, *_) = API.write_status(replace(report, note=" No room."), {})["conditions"]
    assert initialized["message"] == "The job is being initialized. No room."


@pytest.mark.documents("t9k/tasks")
def test_what_fails_and_who_waits_is_said_for_each_replica():
    simulator = lived([everything_runs, fails("worker-1", 7)], replicas("worker", 2))
    (task,) = simulator.status["tasks"]

    assert task == {
        "type": "worker",
        "restartCount": 1,
        "replicas": [
            {
                "name": "t-worker-0",
                "phase": "Running",
                "uid": simulator.pods["t-worker-0"].uid,
                "containers": [{"name": "tensorflow", "state": "Running"}],
            },
            {"name": "t-worker-1", "phase": "Creating"},
        ],
    }
    assert condition(simulator.status, "ReplicaFailure")["message"] == "worker-1 (pod t-worker-1) exited with code 7"


def test_a_time_moves_with_the_status_or_the_reason_and_not_with_the_message():
    simulator = lived(
        [everything_runs, time_passes(60), fails("worker-1", 1), time_passes(60), is_starting("worker-1")], WORKERS
    )
    simulator.tamper(
        {"status": {"conditions": [{**entry, "message": "other"} for entry in simulator.status["conditions"]]}}
    )
    times = {entry["type"]: entry["lastTransitionTime"] for entry in simulator.status["conditions"]}
    simulator.wait(60)
    simulator.settle()

    assert {entry["type"]: entry["lastTransitionTime"] for entry in simulator.status["conditions"]} == times
    assert condition(simulator.status, "Running")["message"] == "All pods are running normally."


def test_what_others_keep_in_a_status_stays():
    simulator = begun(WORKERS)
    theirs = [{"type": "Theirs", "status": "True"}, {"type": "Theirs", "status": "False"}]
    ours = {"type": "Failed", "status": "False", "reason": "-", "lastTransitionTime": "today"}
    simulator.tamper({"status": {"theirs": {"ready": True}, "conditions": [*theirs, ours]}})
    simulator.settle()

    assert simulator.status["theirs"] == {"ready": True}
    assert simulator.status["conditions"][5:] == theirs
    assert condition(simulator.status, "Failed")["lastTransitionTime"] == "2026-03-01T08:00:00Z"


def test_of_a_long_message_about_the_tensorboard_one_line_is_kept():
    """Another controller may have written it."""
    extras = {tensorboard.RESOURCE: ChildLine("t", "u", {"message": "x\n" * 9999})}
    report = JobReport(API.read_object(job("t")), JobRecord(), datetime(2026, 1, 1, tzinfo=UTC), extras=extras)

    note = f"TensorBoard [t] is not ready: {'x ' * 510}x..."
    assert API.write_status(report, {})["tensorboard"]["note"] == note


@pytest.mark.documents("t9k/phases")
def test_a_job_whose_main_pod_is_unknown_says_so_and_shows_its_containers():
    ended, running = ContainerLine("tensorflow", "Terminated", 7), ContainerLine("sidecar", "Running", None)
    line = ReplicaLine(ReplicaType.WORKER, 0, "t-worker-0", uid="u", phase="Unknown", containers=(ended, running))
    job_of_one = API.read_object(job("t", replicas("worker")))
    now = datetime(2026, 1, 1, tzinfo=UTC)
    report = JobReport(
        job_of_one, JobRecord(), now, counts={ReplicaType.WORKER: ReplicaCounts()}, lines=lambda: (line,)
    )

    status = API.write_status(report, {"conditions": [{"type": "Paused", "status": "False", "reason": "Resumed"}]})
    assert status["phase"] == "Unknown"
    assert condition(status, "Paused")["reason"] == "Resumed"
    assert status["tasks"][0]["replicas"][0]["containers"] == [
        {"name": "tensorflow", "state": "Terminated", "exitCode": 7},
        {"name": "sidecar", "state": "Running"},
    ]


FIVE = "w0 failed; w1 failed; w2 failed; w3 failed; w4 failed"


@pytest.mark.parametrize(
    ("failures", "stored", "message"),
    [
        ([f"w{index} failed" for index in range(5)], "True", FIVE),
        ([f"w{index} failed" for index in range(7)], "True", f"{FIVE} and 2 more"),
        (["", "w1 failed"], "True", "w1 failed"),
        ([""], "True", "what was said"),
        ([""], "False", ""),
        ([""], None, ""),
    ],
    ids=["five", "seven", "one whose pod is gone", "no pod", "no pod and nothing failed before", "nothing was said"],
)
def test_up_to_five_failures_are_told_and_the_last_ones_stay_when_their_pods_are_gone(failures, stored, message):
    lines = [
        ReplicaLine(ReplicaType.WORKER, index, f"t-worker-{index}", has_failed=True, failure=failure)
        for index, failure in enumerate(failures)
    ]
    job_of_all = API.read_object(job("t", replicas("worker", len(lines))))
    report = JobReport(job_of_all, JobRecord(), MORNING, lines=lambda: lines)

    said = {"type": "ReplicaFailure", "status": stored, "message": "what was said"}
    status = API.write_status(report, {"conditions": [said]} if stored else {})
    entry = condition(status, "ReplicaFailure")
    assert (entry["status"], entry["reason"], entry["message"]) == ("True", "PodFailed", message)


CHIEF_0, WORKER_0 = (
    ReplicaLine(kind, 0, "p", uid="u", phase="Unknown") for kind in (ReplicaType.CHIEF, ReplicaType.WORKER)
)


@pytest.mark.parametrize(
    ("roles", "line", "first_run", "phase"),
    [
        ([WORKERS], WORKER_0, MORNING, "Unknown"),
        ([WORKERS], replace(WORKER_0, index=1), MORNING, "Running"),
        ([WORKERS], replace(WORKER_0, uid=""), MORNING, "Running"),
        ([WORKERS], replace(WORKER_0, phase="Pending"), None, "Pending"),
        ([CHIEF, WORKERS], WORKER_0, MORNING, "Running"),
        ([CHIEF, WORKERS], CHIEF_0, MORNING, "Unknown"),
    ],
    ids=["worker 0", "worker 1", "no pod", "pending", "worker 0 beside a chief", "the chief"],
)
def test_only_an_unknown_pod_of_the_main_replica_makes_a_job_unknown(roles, line, first_run, phase):
    record = JobRecord(phase=JobPhase.RUNNING, first_run_time=first_run)
    report = JobReport(API.read_object(job("t", *roles)), record, MORNING, lines=lambda: [line])

    assert API.write_status(report, {})["phase"] == phase


def test_an_edit_that_makes_a_resumed_job_invalid_ends_nothing():
    simulator = lived([everything_runs, pause, resume, everything_runs], WORKERS)
    status = simulator.status
    simulator.tamper({"spec": {"runPolicy": {"backoffLimit": -1}}})
    simulator.settle()

    assert condition(simulator.status, "Failed")["status"] == "False"
    assert condition(simulator.status, "Paused") == condition(status, "Paused")
    assert simulator.status["aggregate"] == status["aggregate"]


@pytest.mark.parametrize(
    ("status", "phase", "cause"),
    [
        ({"conditions": [{"type": "Completed", "status": "True"}]}, JobPhase.SUCCEEDED, None),
        ({"phase": "Succeeded"}, JobPhase.SUCCEEDED, None),
        (
            {"conditions": [{"type": "Failed", "status": "True", "reason": "DeadlineExceeded"}]},
            JobPhase.FAILED,
            FailureCause.DEADLINE_EXCEEDED,
        ),
        ({"phase": "Running", "conditions": [{"type": "Running", "status": "True"}]}, JobPhase.NEW, None),
    ],
)
def test_a_job_that_the_product_has_ended_stays_as_it_is(status, phase, cause):
    simulator = begun(WORKERS)
    simulator.tamper({"status": status})

    assert (simulator.record.phase, simulator.record.failure) == (phase, cause)
    simulator.settle()
    assert (simulator.status == status, simulator.pods == {}) == (
        (True, True) if phase is not JobPhase.NEW else (False, False)
    )


def test_a_manifest_is_read_with_its_defaults():
    training_job = API.read_object(over(documented("tensorflow-example"), {"metadata": HEAD}))

    (workers,) = training_job.replicas
    assert (workers.type, workers.count, workers.restart_policy) == (ReplicaType.WORKER, 4, RestartPolicy.ON_FAILURE)
    assert (training_job.run_policy.clean_pods, training_job.run_policy.backoff_limit) == (CleanPodPolicy.NONE, None)
    assert validate(training_job) == ()


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"replicaSpecs": "four"}, "spec.replicaSpecs: must name at least one replica type"),
        ({"replicaSpecs": [replicas("master")]}, "spec.replicaSpecs[0].type: is no replica type; there are chief, "),
        ({"replicaSpecs": [CHIEF, CHIEF]}, "spec.replicaSpecs[1].type: is chief again"),
        ({"replicaSpecs": [replicas("chief", 2)]}, "spec.replicaSpecs[0].replicas: must be from 0 to 1, is 2"),
        (
            {"replicaSpecs": [replicas("ps", 2001)]},
            "spec.replicaSpecs: must have at most 2000 replicas in all, has 2001",
        ),
        ({"replicaSpecs": [replicas("ps", 1, "Maybe")]}, "spec.replicaSpecs[0].restartPolicy: must be one of 'Always'"),
        ({"runPolicy": {"cleanUpPolicy": "Some"}}, "spec.runPolicy.cleanUpPolicy: must be one of 'None', 'All'"),
        ({"runPolicy": {"activeDeadlineSeconds": 0}}, "spec.runPolicy.activeDeadlineSeconds: must be at least 1, is 0"),
        ({"runMode": {"pause": {"enabled": 1}}}, "spec.runMode.pause.enabled: must be true or false, is 1"),
        (
            {"scheduler": {"t9kScheduler": {"priority": 101}}},
            "spec.scheduler.t9kScheduler.priority: must be from 0 to 100, is 101",
        ),
        *(
            (
                {"runMode": {"debug": {"enabled": True, "replicaSpecs": [{"type": "ps", "command": command}]}}},
                "spec.runMode.debug.replicaSpecs[0].command: must be a list of strings",
            )
            for command in ("x", ["x", 1])
        ),
    ],
)
def test_each_problem_names_its_field_and_its_rule(spec, problem):
    body = job("t", WORKERS)
    problems = validate(API.read_object({**body, "spec": body["spec"] | spec}))

    assert str(problems[0]).startswith(problem.replace("'Always'", "")) or problem in "; ".join(map(str, problems))


def test_a_large_job_writes_its_progress_seldom_and_its_status_fits():
    body = job("t", replicas("worker", 2000))
    big = API.read_object(over(body, {"metadata": HEAD}))
    names = [f"t-worker-{index}" for index in range(2000)]
    pods = [Pod(name, name, ReplicaType.WORKER, index, phase="Running") for index, name in enumerate(names)]
    ended = [ContainerLine(name, "Terminated", 137) for name in ("a" * 63, "tensorflow", "b" * 63)]

    for containers in (ended[1:2], ended):
        shown_pods = tuple(pod.changed(uid=pod.uid.ljust(36), containers=tuple(containers)) for pod in pods)
        status = API.write_status(make_plan(Snapshot(big, MORNING, pods=shown_pods)).report, {})
        assert len(msgspec.json.encode(status)) < 500_000
        (only,) = status["tasks"][0]["replicas"][-1]["containers"]
        assert only == {"name": "tensorflow", "state": "Terminated", "exitCode": 137}
    sized = (structs.replace(big, replicas=(structs.replace(big.replicas[0], count=count),)) for count in (200, 201))
    assert [*map(API.progress_waits, sized)] == [1.0, 10.0]


@pytest.mark.parametrize(("beside", "count"), [(1999, 2000), (2000, 1)])
def test_of_more_than_2000_containers_those_that_decide_are_listed(beside, count):
    containers = tuple(ContainerLine(name, "Running", None) for name in ("tensorflow", *["sidecar"] * beside))
    line = ReplicaLine(ReplicaType.WORKER, 0, "t-worker-0", uid="u", phase="Running", containers=containers)
    report = JobReport(API.read_object(job("t", replicas("worker"))), JobRecord(), MORNING, lines=lambda: (line,))
    report = replace(report, counts={ReplicaType.WORKER: ReplicaCounts()})

    assert len(API.write_status(report, {})["tasks"][0]["replicas"][0]["containers"]) == count


@pytest.mark.documents("t9k/t9k-scheduler", "t9k/printed-scheduler")
def test_a_job_that_asks_for_the_scheduler_of_t9k_gets_it_only_where_that_is_installed():
    body = over(documented("tensorflow-example"), documented("fragments/scheduler"))
    simulator = Simulator(body, api=API)

    group, *children = make_plan(simulator.observe().changed(offered_scheduler="t9k-scheduler")).actions
    assert (group.resource.group, group.name) == ("scheduler.tensorstack.dev", "tensorflow-example")
    assert group.body()["spec"] == {"minMember": 4, "queue": "default", "priority": 50}
    pod = children[0].body()
    assert pod["spec"]["schedulerName"] == "t9k-scheduler"
    labels = {name: value for name, value in pod["metadata"]["labels"].items() if name.startswith("scheduler")}
    assert {name.partition("/")[2]: value for name, value in labels.items()} == {
        "group-name": "tensorflow-example",
        "queue": "default",
        "role": "worker",
    }

    simulator.settle()
    assert simulator.group is None
    sentence = "t9k-scheduler is not installed: the scheduler of the template places the pods, or the default one."
    assert condition(simulator.status, "Running")["message"] == f"The job is waiting for its replicas. {sentence}"
    assert [message for _, _, message in simulator.operator.recorder.events].count(sentence) == 1


def test_an_operator_that_is_killed_after_any_write_counts_no_restart_twice():
    """The limit is used up by two workers, and then the main one fails."""
    moves = [everything_runs, *retried("worker-1"), *retried("worker-2"), fails("worker-3"), fails("worker-0")]
    policy = {"backoffLimit": 2, "cleanUpPolicy": "Unfinished"}
    undisturbed = lived(moves, WORKERS, runPolicy=policy)

    for write in crash_points(undisturbed.writes, "T9k"):
        simulator = begun(WORKERS, runPolicy=policy)
        simulator.crash_after = write
        simulator.settle()
        for move in moves:
            move(simulator)
            simulator.settle()
        assert (status_line(simulator), simulator.shown_pods) == (status_line(undisturbed), undisturbed.shown_pods), (
            f"after write {write}"
        )
        assert max(record.restarts for record in simulator.records) == 2


@pytest.mark.documents("t9k/resume")
def test_resume_specs_hold_from_the_first_pause_on_and_fall_back_to_the_template():
    sshd = Override(("/usr/bin/sshd",), None, skips_init_containers=True, drops_probes=False)
    arguments = Override(None, ("-x",), drops_probes=False)

    for moves, expected in (([], [None, None]), ([pause], [sshd, arguments]), ([pause, resume], [sshd, arguments])):
        assert [spec.override for spec in lived(moves, WORKERS, replicas("ps")).job.replicas] == expected


@pytest.mark.documents("t9k/debug", "t9k/debug-fields", "t9k/printed-debug", "t9k/printed-debug-defaults")
@pytest.mark.parametrize(
    ("fragment", "command", "has_init"), [("debug", "/usr/bin/sshd", False), ("debug-with-defaults", "sleep inf", True)]
)
def test_a_debugged_pod_runs_nothing_of_its_template_but_the_image(fragment, command, has_init):
    probes = {name: {"exec": {"command": ["x"]}} for name in ("livenessProbe", "startupProbe", "readinessProbe")}
    roles = [replicas(kind, 1, initContainers=[{"name": "init", "image": "i"}]) for kind in ("worker", "ps")]
    for role in roles:
        role["template"]["spec"]["containers"][0] |= probes
    mode = documented(f"fragments/{fragment}")["spec"]["runMode"]
    worker, ps = (action.body()["spec"] for action in begun(*roles, runMode=mode).look().actions)

    assert [container["command"] for container in worker["containers"]] == [command.split()]
    assert [container["command"] for container in ps["containers"]] == [["sleep", "inf"]]
    assert ["initContainers" in pod for pod in (worker, ps)] == [has_init, True]
    (container,) = ps["containers"]
    assert container["args"] == []
    assert set(container) & set(probes) == {"readinessProbe"}


@pytest.mark.parametrize(
    ("moves", "phase", "waited", "is_finished"),
    [
        ([time_passes(60)], "Created", 60, False),
        ([everything_runs], "Running", None, False),
        ([everything_runs, time_passes(3600), fails("worker-1")], "Restarting", 0, False),
        ([pause], "Suspended", None, False),
        ([everything_runs, succeeds("worker-0")], "Succeeded", None, True),
    ],
)
def test_metrics_count_its_jobs_in_the_phases_of_all_apis(moves, phase, waited, is_finished):
    """One that restarts waits since then, however long it ran before."""
    simulator = lived(moves, WORKERS)
    summary = API.summarize(simulator.body["metadata"], b"{}", msgspec.json.encode(simulator.status))

    since = summary.waits_since and (simulator.now - summary.waits_since).total_seconds()
    assert (summary.phase, since, summary.is_finished) == (phase, waited, is_finished)
    assert phase in PHASES_OF_METRICS


def test_what_the_metrics_cannot_read_is_a_job_all_the_same():
    created = {"creationTimestamp": "2026-01-01T00:00:00Z"}

    assert API.summarize(created, b"{}", b"{}").waits_since is not None
    assert API.summarize(created, b"{}", b'{"phase": 1}') == JobSummary()
    assert API.summarize(created, b"{}", b'{"phase": "Succeeded"}') == JobSummary("Succeeded", is_finished=True)


@pytest.mark.parametrize(
    ("spec", "move", "reason"),
    [
        ({"activeDeadlineSeconds": 5}, time_passes(6), "DeadlineExceeded"),
        ({"backoffLimit": 0}, fails("worker-0"), "BackoffLimitExceeded"),
    ],
)
def test_a_failed_job_says_what_has_ended_it(spec, move, reason):
    conditions = lived([everything_runs, move], WORKERS, runPolicy=spec).status["conditions"]

    assert {entry["type"]: entry["reason"] for entry in conditions}["Failed"] == reason


def test_a_job_that_cannot_be_run_has_failed_and_counts_nothing():
    simulator = begun(WORKERS)
    simulator.tamper({"spec": {"replicaSpecs": [replicas("worker", -1)]}})
    simulator.settle()

    assert status_line(simulator) == "Failed FFTFF 0/0/0/0/0/0/0 0"
