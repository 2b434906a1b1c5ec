"""``tfjob history``: on an embedded API server, and from the log of an operator."""

import io
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from support.embedded import embedded_jobs
from support.embedded.embedded_jobs import EmbeddedJobs
from tf_operator.cli import ended_jobs, main, session, target
from tf_operator.client.cluster import ClusterChoice
from tf_operator.dialects.kubeflow import v1
from tf_operator.local.apiserver.kinds import Kind
from tf_operator.local.apiserver.server import ApiServer
from tf_operator.local.local_kinds import ENDED_JOBS
from tf_operator.machinery.clock import SystemClock
from tf_operator.meta import rfc3339

NOW = datetime.now(UTC).replace(microsecond=0)
FAILURE = {"pod": "b-worker-1", "exit_code": 137, "reason": "OOMKilled", "message": "too large"}


@pytest.fixture
def call(capsys):
    def run(*words):
        code = main.main(["history", *words])
        output = capsys.readouterr()
        return code, output.out, output.err

    return run


@pytest.fixture
def cluster(monkeypatch):
    embedded = EmbeddedJobs(SystemClock())
    monkeypatch.setattr(session, "make_jobs", lambda arguments, _: embedded.client(namespace=arguments.namespace))
    monkeypatch.setattr(target, "choose", lambda _: ClusterChoice(None, None, "the cluster of a test"))
    return embedded


def record(name, ago, **fields):
    return {
        "time": rfc3339(NOW - ago),
        "level": "info",
        "message": "job ended",
        "job_namespace": "team",
        "job_name": name,
        "job_uid": f"uid-of-{name}",
        "from": "Running",
        "to": "Succeeded",
        "duration_seconds": 7200.0,
        **fields,
    }


@pytest.fixture
def log(tmp_path):
    used = {"cpuSeconds": 5, "nvidia.com/gpu": 9000, "google.com/tpu": 900}
    lines = [
        json.dumps(record("b", timedelta(days=1), to="Failed", first_failure=FAILURE, restarts=2, lost_seconds=90)),
        f"[pod/tf-operator-5f/manager] {json.dumps(record('a', timedelta(days=9), usage=used, spec_digest='d1'))}",
        json.dumps(record("c", timedelta(0), duration_seconds=None, job_namespace="other")),
        json.dumps(record("d", timedelta(0)) | {"message": "a condition", "to": '"job ended"'}),
        json.dumps(record("e", timedelta(0), restarts="many")),
        '"job ended" without an object',
        '{"message": "job ended"',
        "",
    ]
    file = tmp_path / "operator.log"
    file.write_text("\n".join(lines))
    return str(file)


def table(text):
    return [line.split("   ") for line in text.splitlines()]


def names(text):
    return [line.split()[1] for line in text.splitlines()[1:]]


def test_a_log_is_shown_with_the_last_job_last(call, log):
    code, out, _ = call("--from", log)

    lines = [[cell for cell in map(str.strip, line) if cell] for line in table(out)]
    assert code == 0
    assert lines == [
        ["NAMESPACE", "NAME", "STATE", "FINISHED", "DURATION", "RESTARTS", "LOST", "GPU HOURS", "FIRST FAILURE"],
        ["team", "a", "Succeeded", "9d", "120m", "0", "-", "2.8", "-"],
        ["team", "b", "Failed", "24h", "120m", "2", "90s", "-", "b-worker-1, exit code 137, too large"],
        ["other", "c", "Succeeded", lines[3][3], "-", "0", "-", "-", "-"],
    ]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("b",), ["b"]),
        (("--since=7d",), ["b", "c"]),
        (("--since=12h",), ["c"]),
        (("-A",), ["a", "b", "c"]),
    ],
    ids=" ".join,
)
def test_jobs_are_chosen_by_name_and_time(call, log, words, expected):
    assert names(call("--from", log, *words)[1]) == expected


def test_jobs_of_one_namespace_are_shown_without_it(call, log):
    assert call("--from", log, "-n", "other")[1].splitlines()[1].startswith("c ")


def test_programs_get_all_that_is_known(call, log, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(Path(log).read_bytes())))
    items = json.loads(call("--from", "-", "-o", "json")[1])["items"]

    assert items[0] == {
        "namespace": "team",
        "name": "a",
        "uid": "uid-of-a",
        "state": "Succeeded",
        "finished": rfc3339(NOW - timedelta(days=9)),
        "durationSeconds": 7200.0,
        "restarts": 0,
        "lostSeconds": 0,
        "usage": {"cpuSeconds": 5, "nvidia.com/gpu": 9000, "google.com/tpu": 900},
        "specDigest": "d1",
    }
    assert items[1]["firstFailure"] == {
        "pod": "b-worker-1",
        "exitCode": 137,
        "reason": "OOMKilled",
        "message": "too large",
    }


@pytest.mark.parametrize(
    "fields",
    [{"job_name": "x" * 60_000}, {"to": "x" * 60_000}, {"restarts": 10**4000}, {"usage": {"a/b": 10**400}}],
    ids=["name", "state", "restarts", "usage"],
)
def test_a_line_with_values_that_no_operator_writes_is_no_record(call, tmp_path, fields):
    file = tmp_path / "operator.log"
    wrong, right = (json.dumps(record(name, timedelta(0), **more)) for name, more in (("a", fields), ("b", {})))
    file.write_text(f"{wrong}\n{right}\n")

    code, out, err = call("--from", str(file))
    assert (code, names(out), err) == (0, ["b"], "")
    assert max(map(len, out.splitlines())) < 200


@pytest.mark.parametrize("since", ["d", "1.5d", "99999d", "0d", "week"])
def test_a_wrong_time_is_refused(call, capsys, since):
    with pytest.raises(SystemExit):
        call("--from", "-", f"--since={since}")

    assert "is not a time" in capsys.readouterr().err


def test_a_log_that_is_not_there_is_named(call):
    assert call("--from", "/no/such.log") == (
        1,
        "",
        "tfjob: /no/such.log cannot be read: No such file or directory\n",
    )


def test_a_log_that_cannot_be_read_on_is_named(call):
    assert call("--from", "/proc/self/mem") == (1, "", "tfjob: /proc/self/mem cannot be read: Input/output error\n")


def test_all_namespaces_and_one_exclude_each_other(call, log):
    assert call("--from", log, "-A", "-n", "team")[0] == 2


def test_a_cluster_shows_what_it_still_has(call, cluster):
    cluster.job("ended")
    cluster.job("running")
    cluster.report("running", "Running")
    status = {"startTime": rfc3339(NOW - timedelta(minutes=7)), "completionTime": rfc3339(NOW), "lostSeconds": 30}
    first = {"firstFailure": {"pod": "p", "reason": "Error"}, "usage": {"nvidia.com/gpu": 360}}
    cluster.report("ended", "Succeeded", **status, **first)

    code, out, _ = call()
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == ["NAME", "ended"]
    assert out.splitlines()[1].split()[3:] == ["7m", "0", "30s", "0.1", "p,", "Error"]


def test_without_an_ended_job_that_is_said(call, cluster):
    cluster.job("running")

    assert call() == (0, "", "No job has ended, as far as is known here.\n")


async def test_records_of_a_local_server_that_cannot_be_read_are_passed_over(monkeypatch):
    items = [{"record": record("a", timedelta(0))}, {"record": record("b", timedelta(0), to=7)}, {"record": None}, {}]
    items = [{"resource": "tfjobs.kubeflow.org"} | item for item in items] + [{"record": {}}]

    class Client:
        async def send(self, _):
            return json.dumps({"items": items}).encode()

    server = SimpleNamespace(client=Client(), choice=True, host="", api=v1.API)
    monkeypatch.setattr(ended_jobs.cluster, "is_local", lambda *_: True)

    assert [job.name for job in await ended_jobs.remembered(server, "")] == ["a"]


@pytest.fixture
def local_server(cluster, monkeypatch):
    """The cluster is the local server of this user."""
    make_jobs = session.make_jobs

    def make(arguments, choice):
        jobs = make_jobs(arguments, choice)
        jobs.choice = choice
        return jobs

    monkeypatch.setattr(session, "make_jobs", make)
    monkeypatch.setattr(ended_jobs.cluster, "is_local", lambda *_: True)
    return cluster


def test_a_local_server_of_an_earlier_release_remembers_none(call, local_server):
    local_server.job("j", status={"startTime": rfc3339(NOW)})
    local_server.report("j", "Succeeded", completionTime=rfc3339(NOW))

    assert names(call()[1]) == ["Succeeded"]


def test_a_local_server_remembers_deleted_jobs_of_each_kind(call, local_server):
    def remembered(_):
        for name, kind in (("a", "tfjobs.kubeflow.org"), ("b", "tfjobs.mlkube.io"), ("c", "tfjobs.kubeflow.org")):
            metadata = {"name": f"uid-of-{name}", "namespace": "default"}
            ended = record(name, timedelta(days=1), job_namespace="default", lost_seconds=len(name))
            head = {"kind": ENDED_JOBS.kind, "apiVersion": ENDED_JOBS.api_version, "metadata": metadata}
            yield {**head, "resource": kind, "record": ended}

    kind = Kind(ENDED_JOBS, "endedjob", read=remembered)
    local_server.server = ApiServer(local_server.clock, kinds=(*embedded_jobs.kinds(), kind))

    assert [line.split()[0] for line in call()[1].splitlines()[1:]] == ["a", "c"]
    assert "No job has ended" in call("-n", "other")[2]
