"""The verbs of ``tfjob`` on an embedded API server: what they print, what they change, and their exit codes."""

import asyncio
import io
import json
import os
import signal

import pytest
import yaml

from support.embedded.embedded_jobs import PODS, RUNNING, TFJOBS, EmbeddedJobs
from support.fake_clock import FakeClock
from support.jobs.builders import tfjob
from tf_operator.cli import main, session, target
from tf_operator.cli.manifests import submission
from tf_operator.cli.run import job_run
from tf_operator.cli.run.job_run import RunOptions
from tf_operator.client.cluster import ClusterChoice
from tf_operator.client.manifests import kube_yaml
from tf_operator.machinery.clock import SystemClock
from tf_operator.machinery.transport import errors

CLAIM = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}


@pytest.fixture
def cluster(monkeypatch):
    embedded = EmbeddedJobs(SystemClock())
    monkeypatch.setattr(session, "make_jobs", lambda arguments, _: embedded.client(namespace=arguments.namespace))
    monkeypatch.setattr(target, "choose", lambda _: ClusterChoice(None, None, "the cluster of a test"))
    return embedded


@pytest.fixture
def call(cluster, capsys):
    """Call it with a command line: exit code, and what was printed."""

    def run(line):
        code = main.main(line.split())
        output = capsys.readouterr()
        return code, output.out + output.err

    return run


def two_jobs(cluster):
    """One that runs, with a pod that has printed something, and one that has failed."""
    job = cluster.job("a", status={"replicaStatuses": {"Worker": {"active": 1}}})
    cluster.report("a", "Running")
    cluster.event(cluster.pod(job, "worker-0"), "FailedMount", "no secret")
    cluster.logs["a-worker-0"] = [b"step 1\nstep 2\n"]
    failed = {"type": "Failed", "status": "True", "message": "no\x1b data"}
    cluster.job("b", status={"conditions": [failed], "replicaStatuses": {"Worker": {"active": 1}}})


VERBS = {
    "list -o name": (0, "tfjob.kubeflow.org/a\ntfjob.kubeflow.org/b\n"),
    "list -A": (0, "NAMESPACE   NAME   STATE     READY   RESTARTS   AGE\n"),
    "list -o wide": (0, "It is Running."),
    "list": (0, "b      Failed    0/2     0          "),
    "get b -o wide": (0, "no? data"),
    "get b a -o name": (0, "tfjob.kubeflow.org/b\ntfjob.kubeflow.org/a\n"),
    "list -n nowhere": (0, "There is no TFJob in namespace nowhere.\n"),
    "list -l a=b": (0, "There is no TFJob with the labels a=b in namespace default.\n"),
    "get c": (1, 'tfjob: tfjobs.kubeflow.org "c" not found; tfjob list shows the jobs, -n names another namespace\n'),
    "get": (0, "b      Failed    0/2     0          "),
    "get -A": (0, "NAMESPACE   NAME   STATE     READY   RESTARTS   AGE\n"),
    "get a1": (1, "tfjob: tfjobs.kubeflow.org \"a1\" not found; did you mean 'a'?\n"),
    "get a -l b=c": (2, "tfjob: -A and -l cannot be combined with names of jobs\n"),
    "ls -o name": (0, "tfjob.kubeflow.org/a\ntfjob.kubeflow.org/b\n"),
    "status b": (0, "b      Failed   0/2     0          "),
    "describe a": (0, "Waits for: the operator, which has not created a pod for chief-0\n"),
    "get a -v": (0, "using the cluster of a test: in-process, namespace default\n"),
    "events a": (0, "Warning   FailedMount   pod/a-worker-0   no secret\n"),
    "events b": (0, "There are no events of TFJob default/b"),
    "explain a": (0, "Waits for: the operator, which has not created a pod for chief-0\n"),
    "logs a": (0, "worker-0 | step 1\nworker-0 | step 2\n"),
    "logs a --replica worker-0": (0, "step 1\nstep 2\n"),
    "logs b": (0, "TFJob default/b has printed nothing yet; tfjob explain b says why\n"),
    "wait b": (1, "TFJob default/b failed: no"),
    "wait a --for running": (0, "TFJob default/a running: It is Running.\n"),
    "wait a --timeout 0.01s": (124, "tfjob: TFJob default/a is Running after 0.01 s; tfjob explain a says why\n"),
    "restart a": (0, "worker-0: pod a-worker-0 deleted on this machine; the operator replaces it\n"),
    "restart a --replica worker-9": (1, "tfjob: TFJob a has no replica worker-9: it has chief-0, worker-0"),
    "restart a --replica chief-0": (1, "tfjob: none of its pods is running; tfjob explain says why\n"),
    "restart b": (1, "tfjob: TFJob b has failed: submit it again to run it again\n"),
    "suspend tfjob.kubeflow.org/a": (0, "TFJob default/a is suspended on this machine; go on with: tfjob resume a\n"),
    "resume a": (0, "TFJob default/a is resumed on this machine\n"),
    "scale a --replicas 3": (1, "can only change while the job is suspended (spec.runPolicy.suspend)"),
    "delete a b": (0, "TFJob default/a deleted on this machine\nTFJob default/b deleted on this machine\n"),
    "delete c --ignore-not-found": (0, ""),
    "delete -l no=such": (0, "There is no TFJob with the labels no=such in namespace default.\n"),
    "delete a ../b": (1, "tfjob: '../b' names no tfjob.kubeflow.org: -n names a namespace, --kind another kind\n"),
    "get pod/a": (1, "'pod/a' names no tfjob.kubeflow.org"),
    "wait tfjob/b": (1, "TFJob default/b failed: no? data\n"),
    "logs a --tail -1": (1, "tfjob: the last -1 lines cannot be shown: name 0 or more\n"),
    "logs a -c typo": (1, "tfjob: worker-0 has no container typo; it has tensorflow\n"),
    "logs a -f -c typo": (1, "tfjob: worker-0 has no container typo; it has tensorflow\n"),
    "list -l no=such -o json": (0, '"items": []'),
    "list -l no=such -o name": (0, ""),
    "retry b": (0, "TFJob default/b-2 submitted on this machine; it is b again\n"),
    "retry b --name c --set worker.memory=2Gi": (
        0,
        "default/c submitted on this machine; it is b again, with worker.mem",
    ),
    "retry b --name a": (1, "tfjob: TFJob default/a exists already; --name chooses another name\n"),
    "retry a": (1, "tfjob: TFJob a has not ended: tfjob restart replaces its pods; only a failed job is tried again\n"),
    "retry c": (1, 'tfjob: tfjobs.kubeflow.org "c" not found'),
    "get c -w": (1, 'tfjob: tfjobs.kubeflow.org "c" not found'),
    "get a -w -A": (2, "tfjob: -A and -l cannot be combined with names of jobs\n"),
    "exec a -- ls -l": (
        1,
        "tfjob: worker-0 is not on this machine: kubectl exec -n default a-worker-0 -c tensorflow -it -- ls -l\n",
    ),
    "queue": (0, "No TFJob waits in a queue in namespace default.\n"),
    "queue -A": (0, "No TFJob waits in a queue in any namespace.\n"),
    "top a": (1, "there is no metrics API: a cluster needs the metrics-server"),
}


@pytest.mark.parametrize(("line", "outcome"), VERBS.items(), ids=VERBS.keys())
def test_a_verb_says_what_it_has_done_and_how_it_ended(cluster, call, line, outcome):
    two_jobs(cluster)

    code, output = call(line)

    assert (code, outcome[1] in output) == (outcome[0], True), output


def test_the_last_checkpoint_is_a_column_of_wide_tables_once_a_job_has_one(cluster, call):
    two_jobs(cluster)
    assert "CHECKPOINT" not in call("get -o wide")[1]
    cluster.report("a", "Running", trainerStatus={"step": 3500}, checkpoint={"step": 3400})

    header, first, second = call("get -o wide")[1].splitlines()
    place = header.index("CHECKPOINT")
    assert (first[place:].startswith("step 3400 "), second[place]) == (True, "-")
    assert "CHECKPOINT" not in call("get")[1]


def test_goodput_is_a_column_of_wide_tables_once_a_job_has_lost_time(cluster, call):
    two_jobs(cluster)
    assert "GOODPUT" not in call("get -o wide")[1]
    cluster.report("a", "Running", startTime="2026-01-01T00:00:00Z", lostSeconds=1, disruptions=1)

    header, first, second = call("get -o wide")[1].splitlines()
    place = header.index("GOODPUT")
    assert (first[place:].startswith("99 % "), second[place]) == (True, "-")
    assert "GOODPUT" not in call("get")[1]


def test_programs_get_jobs_in_full(cluster, call):
    two_jobs(cluster)

    stored = cluster.find(TFJOBS, "a")
    assert json.loads(call("get a -o json")[1]) == stored
    assert yaml.safe_load(call("get a -o yaml")[1])["spec"] == stored["spec"]
    assert [item["metadata"]["name"] for item in json.loads(call("list -o json")[1])["items"]] == ["a", "b"]
    assert json.loads(call("events a -o json")[1])["items"][0]["object"] == "pod/a-worker-0"


def test_jobs_are_deleted_by_their_labels(cluster, call):
    two_jobs(cluster)
    cluster._write(TFJOBS, "b", {"metadata": {"labels": {"team": "vision"}}}, "")

    assert call("delete -l team=vision") == (0, "TFJob default/b deleted on this machine\n")
    assert (cluster.find(TFJOBS, "b"), cluster.find(TFJOBS, "a") is None) == (None, False)


def test_the_queue_is_a_table_of_places(cluster, call):
    cluster.job("a", status={"conditions": [{"type": "Queued", "status": "True", "message": "no node has 2 GPUs"}]})

    code, output = call("queue")
    assert (code, output.splitlines()[0]) == (0, "NAME   QUEUE       PLACE   WAITS SINCE   WAITS FOR")
    assert output.splitlines()[1] == "a      job queue   1       -             no node has 2 GPUs"
    assert call("queue -A")[1].splitlines()[1].split()[:2] == ["default", "a"]


USAGE = {
    "wait a --timeout soon": "'soon' is not a time; write 90s, 10m or 2h",
    "scale a --replicas -1": "--replicas",
    "wait a --for nothing": "invalid choice: 'nothing'",
    "retry b --set memory=2Gi": "'memory=2Gi' is not a change: write it as in worker.memory=16Gi",
    "frobnicate": "there is no command 'frobnicate'; 'tfjob --help' lists all",
    "sumbit job.yaml": "there is no command 'sumbit'; did you mean 'submit'?",
    "statsu": "there is no command 'statsu'; did you mean 'status'?",
    "delete": "one of the arguments JOB -l/--selector is required",
    "delete a -l b=c": "argument -l/--selector: not allowed with argument JOB",
    "delete -l=": "argument -l/--selector: is empty; name labels, as in team=vision",
    "run a -f b": "argument -f/--filename: not allowed with argument FILE",
    "plan -f a b -f c": "argument FILE: not allowed with argument -f/--filename",
}


@pytest.mark.parametrize(("line", "sentence"), USAGE.items(), ids=USAGE.keys())
def test_wrong_usage_ends_with_2(call, capsys, line, sentence):
    with pytest.raises(SystemExit) as ended:
        call(line)

    assert (ended.value.code, sentence in capsys.readouterr().err) == (2, True)


def test_a_manifest_is_submitted_with_what_the_job_needs(cluster, call, tmp_path):
    path = tmp_path / "jobs.yaml"
    path.write_text(f"{kube_yaml.write(CLAIM)}---\n{kube_yaml.write(tfjob('j').workers(1).body())}")

    output = "tfjob.kubeflow.org/j\nPersistentVolumeClaim data created on this machine\n"
    assert call(f"submit {path} -o name") == (0, output)
    code, output = call(f"submit -f {path}")
    assert (code, output.count("PersistentVolumeClaim data exists already and is left unchanged\n")) == (1, 1)
    assert output.endswith("already exists; --replace deletes it first, --name chooses another name\n")
    path.write_text(kube_yaml.write({"apiVersion": "v9", "kind": "Thing", "metadata": {"name": "t"}}))
    path.write_text(f"{path.read_text()}---\n{kube_yaml.write(tfjob('k').workers(1).body())}")
    assert call(f"submit {path}") == (1, "tfjob: the API server has no Thing of v9\n")
    path.write_text(kube_yaml.write(tfjob("k").workers(-1).body()))
    assert call(f"submit {path}") == (
        1,
        f"{path}: spec.tfReplicaSpecs.Worker.replicas: must be from 0 to 10000, is -1\n",
    )
    assert "must be from 0 to 10000" not in call(f"submit {path} --no-check")[1]
    assert "metadata.namespace: is team, and -n is default: leave one of them out\n" in submitted_elsewhere(call, path)
    assert call(f"submit {tmp_path}/none")[0] == 2
    path.write_text(kube_yaml.write(CLAIM))
    assert f"{path}, {path} contains no TFJob" in call(f"submit -f {path} -f {path}")[1]
    path.write_text("---\n".join(kube_yaml.write(tfjob(name).workers(1).body()) for name in "ab"))
    assert "contains 2 jobs, and tfjob run accepts one" in call(f"run -v {path}")[1]
    assert "contains 2 jobs, and tfjob run accepts one" in call(f"run -v -f {path}")[1]


@pytest.mark.parametrize("command", ["submit", "submit --no-check", "run", "plan"])
def test_every_command_says_the_same_of_a_job_whose_api_is_not_served(call, tmp_path, command):
    path = tmp_path / "job.yaml"
    path.write_text(kube_yaml.write({**tfjob("j").workers(1).body(), "apiVersion": "kubeflow.org/v2"}))

    code, output = call(f"{command} {path}")

    assert (code, output) == (1, f"{path}: apiVersion: must be 'kubeflow.org/v1', is 'kubeflow.org/v2'\n")


def test_a_job_is_submitted_under_another_name_or_in_place_of_the_one_that_has_its_name(cluster, call, tmp_path):
    path = tmp_path / "job.yaml"
    path.write_text(kube_yaml.write(tfjob("j").workers(1).body()))
    cluster.pod(cluster.job("j"), "worker-0")
    first = cluster.find(TFJOBS, "j")["metadata"]["uid"]

    assert call(f"submit {path} --name other -o name") == (0, "tfjob.kubeflow.org/other\n")
    code, output = call(f"submit {path} --replace -o name")

    deleted = "TFJob j exists already: deleting it on this machine; its pods end first\n"
    assert (code, output) == (0, f"tfjob.kubeflow.org/j\n{deleted}")
    assert cluster.find(TFJOBS, "j")["metadata"]["uid"] != first
    assert call(f"submit {path} --name Bad")[0] == 1
    path.write_text("---\n".join(kube_yaml.write(tfjob(name).workers(1).body()) for name in "ab"))
    assert call(f"submit {path} --name c") == (1, f"tfjob: --name is for one job, and {path} contains 2\n")


def submitted_elsewhere(call, path):
    path.write_text(kube_yaml.write(tfjob("k").workers(1).in_namespace("team").body()))
    code, output = call(f"submit {path} -n default")
    assert code == 1
    return output


@pytest.fixture
def run(tmp_path, capsys):
    """Run a job on a cluster in virtual time: the task, and a function for what it has said."""
    cluster = EmbeddedJobs(FakeClock())
    (tmp_path / "job.yaml").write_text(kube_yaml.write(tfjob("j").chief().workers(1).body()))

    async def follow(flags, options):
        arguments = main.make_parser("run").parse_args(["run", f"{tmp_path}/job.yaml", "-v", *flags])
        async with cluster.client() as jobs:
            return await job_run.follow(jobs, submission.read_one(arguments), arguments, options=options)

    def begin(*flags, **options):
        return asyncio.ensure_future(follow(flags, RunOptions(**options)))

    return cluster, begin, capsys.readouterr


async def test_run_follows_a_job_to_its_end(run):
    cluster, begin, printed = run
    running = begin()
    await cluster.clock.idle()
    cluster.logs["j-chief-0"] = [b"step 1\n"]
    cluster.pod(cluster.find(TFJOBS, "j"), "chief-0")
    cluster.report("j", "Running")
    cluster.event(cluster.find(TFJOBS, "j"), "FailedCreatePod", "no quota")
    await cluster.clock.advance(3)
    ended = {"name": "tensorflow", "state": {"terminated": {"exitCode": 3, "startedAt": None}}}
    cluster.move("j-chief-0", "Failed", containerStatuses=[ended])
    cluster.report("j", "Failed", firstFailure={"pod": "j-chief-0", "exitCode": 3})
    await cluster.clock.advance(3)

    assert await running == 3
    output, notes = printed()
    assert output == "chief-0  | step 1\n"
    lines = notes.splitlines()
    assert [line.rpartition("  ")[2] for line in lines if " ms  " in line] == [
        "job submitted",
        "pod created",
        "process started",
    ]
    notes = [line for line in lines if " ms  " not in line]
    at = notes.index("TFJob default/j has failed.")
    assert notes[at + 1 :] == [
        "  Why:       It is Failed.",
        "             the first failure: pod j-chief-0 ended with exit code 3",
        "  Next:      tfjob logs j --replica chief-0",
    ]
    assert sorted(notes[:at]) == [
        "TFJob default/j is running",
        "TFJob default/j submitted on this machine",
        "chief-0: ended with exit code 3",
        "chief-0: is running",
        "chief-0: is starting",
        "warning: no quota",
    ]


CAUSE = "1 Chief replica(s) failed: chief-0 (pod j-chief-0) exited with code 3: no data"
MESSAGE = f"TFJob default/j has failed because {CAUSE}"


async def test_run_says_once_why_a_job_has_failed_and_asks_for_no_logs_that_it_does_not_show(run):
    cluster, begin, printed = run
    running = begin("--no-logs")
    await cluster.clock.idle()
    cluster.logs["j-chief-0"] = [b"step 1\n"]
    cluster.pod(cluster.find(TFJOBS, "j"), "chief-0", "Failed", containerStatuses=[terminated(3, "no data")])
    failed = {"type": "Failed", "status": "True", "message": MESSAGE}
    cluster.report("j", conditions=[failed], firstFailure={"pod": "j-chief-0", "exitCode": 3, "message": "no data"})
    cluster.event(cluster.find(TFJOBS, "j"), "TFJobFailed", MESSAGE)
    await cluster.clock.advance(3)

    assert await running == 3
    output, notes = printed()
    assert notes.count("no data") == 1
    assert f"  Why:       {CAUSE}\n" in notes
    assert output == ""


def terminated(code, message=""):
    end = {"exitCode": code, "containerID": "process://1"} | ({"message": message} if message else {})
    return {"name": "tensorflow", "state": {"terminated": end}}


RESTARTED = {**RUNNING, "restartCount": 1, "lastState": terminated(3)["state"]}
FAILURES = {
    "a program that failed": ("Failed", terminated(3), True),
    "a program that has failed with a message": ("Failed", terminated(3, "no data"), False),
    "a program that was restarted in place": ("Running", RESTARTED, True),
    "a program that runs": ("Running", RUNNING, False),
}


@pytest.mark.parametrize(("phase", "container", "has_log"), FAILURES.values(), ids=FAILURES.keys())
def test_explain_shows_the_last_lines_where_nothing_else_says_why(cluster, call, phase, container, has_log):
    cluster.pod(cluster.job("j"), "chief-0", phase)
    cluster.move("j-chief-0", phase, containerStatuses=[container])
    cluster.report("j", phase)
    cluster.logs["j-chief-0"] = [b"step 1\n", b"\x1b[31mno data\n"]

    code, output = call("explain j")

    lines = "  Log:       chief-0 | step 1\n             chief-0 | ?[31mno data\n"
    assert (code, lines in output) == (0, has_log), output
    assert [options["tail_lines"] for options in cluster.log_options] == [10] * has_log
    assert [options["previous"] for options in cluster.log_options] == [phase == "Running"] * has_log


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (errors.Forbidden(403, errors.Status(message="you may not")), "Logs may not be read here"),
        (errors.NotFound(404, errors.Status(message="it is gone")), ""),
    ],
    ids=["forbidden", "gone"],
)
def test_a_log_that_cannot_be_read_leaves_the_rest_of_the_explanation(cluster, call, error, sentence):
    cluster.pod(cluster.job("j"), "chief-0", "Failed", containerStatuses=[terminated(3)])
    cluster.report("j", "Failed")
    cluster.logs["j-chief-0"] = [error]

    code, output = call("explain j")

    assert (code, "ended with exit code 3" in output, sentence in output, "Log:" in output) == (0, True, True, False)


@pytest.mark.parametrize(
    ("kill", "phase", "sentence"),
    [
        (None, "Succeeded", "still running, by cleanPodPolicy None: ps-0; tfjob delete j ends them"),
        (
            list,
            "Succeeded",
            "still running, and stopped now: ps-0; in a cluster they would continue, because of cleanPodPolicy None",
        ),
        (list, "Failed", "to inspect a job after its end: tfjob local up, and tfjob run again"),
    ],
)
async def test_run_ends_with_what_is_left_and_names_no_server_that_ends_with_it(run, kill, phase, sentence):
    cluster, begin, printed = run
    running = begin(kill=kill)
    await cluster.clock.idle()
    cluster.pod(cluster.find(TFJOBS, "j"), "ps-0")
    cluster.move("j-ps-0", "Running", containerStatuses=[{"name": "tensorflow", "state": {"running": {}}}])
    cluster.report("j", phase)
    await cluster.clock.advance(3)
    await running

    errors = printed().err
    assert sentence in errors
    assert kill is None or "tfjob logs" not in errors


LEFT = "goes on. Follow it: tfjob logs j -f -n default\nStop it: tfjob delete j -n default\n"
STOPPED = "is stopped and deleted"


@pytest.mark.parametrize(
    ("options", "answer", "sentence"),
    [
        ({}, "", LEFT),
        ({"kill": list}, "", STOPPED),
        ({"is_interactive": True}, "s\n", STOPPED),
        ({"is_interactive": True}, "\nl\n", LEFT),
    ],
    ids=["nobody is there", "it cannot be left", "to be stopped", "to go on, then to be left"],
)
async def test_ctrl_c_stops_or_leaves_the_job(run, monkeypatch, options, answer, sentence):
    cluster, begin, printed = run
    reader, writer = os.pipe()
    with os.fdopen(reader) as typed, os.fdopen(writer, "w") as keyboard:
        monkeypatch.setattr("sys.stdin", typed)
        running = begin(**options)
        await cluster.clock.idle()
        for line in answer.splitlines(keepends=True) or [""]:
            os.kill(os.getpid(), signal.SIGINT)
            await cluster.clock.idle()
            keyboard.write(line)
            keyboard.flush()
            await cluster.clock.idle()
        code = await running

    assert (code, cluster.find(TFJOBS, "j") is not None) == (130, sentence == LEFT)
    assert sentence in printed().err


class ClosedPipe(io.StringIO):
    def write(self, _):
        raise BrokenPipeError


async def test_run_ends_when_nobody_reads_its_output(run, monkeypatch):
    cluster, begin, _ = run
    monkeypatch.setattr("sys.stdout", ClosedPipe())
    running = begin()
    await cluster.clock.idle()
    cluster.logs["j-chief-0"] = [b"step 1\n"]
    cluster.pod(cluster.find(TFJOBS, "j"), "chief-0")
    await cluster.clock.advance(3)

    with pytest.raises(BrokenPipeError):
        await running


async def test_run_goes_on_where_logs_may_not_be_read(run):
    cluster, begin, printed = run
    running = begin()
    await cluster.clock.idle()
    cluster.logs["j-chief-0"] = [errors.Forbidden(403, errors.Status(message="no right to\x1b read logs"))]
    cluster.pod(cluster.find(TFJOBS, "j"), "chief-0")
    await cluster.clock.advance(3)
    cluster.report("j", "Succeeded")
    await cluster.clock.advance(3)

    assert await running == 0
    assert "the logs are not shown: no right to? read logs\n" in printed().err


async def test_run_ends_when_its_job_is_deleted(run):
    cluster, begin, printed = run
    running = begin()
    await cluster.clock.idle()
    async with cluster.client() as jobs:
        await jobs.delete("j")
    await cluster.clock.advance(3)

    assert await running == 1
    assert "was deleted before it had ended" in printed().err
    assert cluster.find(PODS, "j-chief-0") is None
