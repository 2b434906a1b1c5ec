"""The client of training jobs, on an embedded API server."""

import asyncio
import gc
import json
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing

import pytest

from support.embedded.embedded_jobs import PODS, RUNNING, TFJOBS, EmbeddedJobs
from support.fake_clock import FakeClock
from support.jobs.builders import tfjob
from tf_operator.client import (
    AlreadyExists,
    AsyncTFJobs,
    ConfigurationError,
    Invalid,
    InvalidManifest,
    JobPhase,
    NotFound,
    NotPossible,
    TFJobs,
    WaitTimeout,
    logs,
    pods,
    queue_notes,
)
from tf_operator.client.job import read_job
from tf_operator.dialects import registry
from tf_operator.machinery.clock import SystemClock
from tf_operator.machinery.transport import errors
from tf_operator.meta import ObjectKey

ENDED = {"state": {"terminated": {"exitCode": 0}}, "name": "tensorflow"}
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
FAILED = {"state": {"terminated": {"exitCode": 3, "containerID": "process://1"}}, "name": "tensorflow"}


@pytest.fixture
def cluster():
    return EmbeddedJobs(FakeClock())


@pytest.fixture
async def jobs(cluster):
    async with cluster.client() as client:
        yield client


async def test_a_job_is_submitted_once_and_read_as_it_is_stored(jobs, cluster):
    job = await jobs.submit(tfjob("j").workers(2).body())

    assert (job.name, job.namespace, job.phase, job.replicas["Worker"].wanted) == ("j", "default", JobPhase.NEW, 2)
    with pytest.raises(AlreadyExists):
        await jobs.submit(tfjob("j").workers(2).body())
    with pytest.raises(NotPossible, match=r"submit takes an object, and 'job\.yaml' is a file"):
        await jobs.submit("job.yaml")
    with pytest.raises(NotPossible, match="Pod of v1 is not a training job"):
        await jobs.submit({"apiVersion": "v1", "kind": "Pod"})

    cluster.report("j", "Running", replicaStatuses={"Worker": {"active": 1, "succeeded": 1}})
    running_job = await jobs.get(job)
    assert (running_job.phase, running_job.message) == (JobPhase.RUNNING, "It is Running.")
    assert (running_job.replicas["Worker"].active, running_job.exit_code) == (1, None)
    assert await jobs.list() == (running_job,)


async def test_a_job_in_place_of_another_waits_until_that_is_gone(jobs, cluster):
    first = await jobs.submit({**tfjob("j").workers(2).body()})
    await jobs.client.merge_patch(TFJOBS, ObjectKey("default", "j"), {"metadata": {"finalizers": ["a/b"]}})

    placed = asyncio.ensure_future(jobs.submit(tfjob("j").workers(3).body(), replace=True))
    await cluster.clock.advance(60)

    assert (placed.done(), (await jobs.get("j")).uid) == (False, first.uid)
    await jobs.client.merge_patch(TFJOBS, ObjectKey("default", "j"), {"metadata": {"finalizers": None}})
    await cluster.clock.advance(60)
    job = await placed
    assert (job.uid == first.uid, job.replicas["Worker"].wanted) == (False, 3)
    with pytest.raises(Invalid):  # and nothing is deleted for a job that is not accepted
        await jobs.submit(tfjob("j").workers(-1).body(), replace=True)
    assert (await jobs.get("j")).uid == job.uid


async def test_a_job_that_is_run_says_once_in_each_state_what_it_waits_for(jobs, cluster, capsys):
    lines = []
    running = asyncio.create_task(jobs.run(tfjob("j").workers(1).body(), on_line=lines.append))
    while not await jobs.list():
        await asyncio.sleep(0)
    for _ in range(2):
        cluster.report("j", "Queued")
        await cluster.clock.advance(1)
    cluster.report("j", "Succeeded")
    assert (await running).exit_code == 0
    assert [(line.replica, line.text) for line in lines] == [("", "It is Queued.")]
    logs.print_line(lines[0])
    assert capsys.readouterr().out == "It is Queued.\n"


@pytest.mark.parametrize(
    ("message", "rule"),
    [
        ('{"missing": "fit has returned a set"}', "TFJob default/j has no result: fit has returned a set"),
        ("a log", "its pods are gone, or it runs no function of train"),
        ('{"returned', "its pods are gone, or it runs no function of train"),
        ("[1]", "its pods are gone, or it runs no function of train"),
        ("[" * 4000, "its pods are gone, or it runs no function of train"),
    ],
)
async def test_the_result_of_a_function_is_read_from_the_replica_that_decides(jobs, cluster, message, rule):
    job = cluster.job()
    with pytest.raises(NotPossible, match="TFJob default/j has no result: it has not ended"):
        await jobs.result("j")
    cluster.report("j", "Failed")
    with pytest.raises(NotPossible, match=r"TFJob default/j has no result: It is Failed\."):
        await jobs.result("j")
    cluster.report("j", "Succeeded")
    with pytest.raises(NotPossible, match="its pods are gone"):
        await jobs.result("j")
    for replica, text in (("worker-0", '{"returned": 1}'), ("chief-0", message)):
        ended = {"name": "tensorflow", "state": {"terminated": {"exitCode": 0, "message": text}}}
        cluster.pod(job, replica, "Succeeded", containerStatuses=[{"name": "other"}, ended])
    with pytest.raises(NotPossible, match=rule):
        await jobs.result("j")
    ended["state"]["terminated"]["message"] = '{"returned": {"loss": 0.5}}'
    cluster.move("j-chief-0", "Succeeded", containerStatuses=[ended])
    assert await jobs.result("j") == {"loss": 0.5}


async def test_a_function_that_cannot_be_sent_creates_nothing(jobs):
    with pytest.raises(NotPossible, match="is a lambda"):
        await jobs.train(lambda: 1)
    with pytest.raises(NotPossible, match="not the name of a package"):
        await jobs.train(plain_function, packages_to_install=["-r"])
    with pytest.raises(InvalidManifest, match=r"metadata\.name"):
        await jobs.train(plain_function, name="A_b")
    assert await jobs.list() == ()


def plain_function():
    return 1


async def test_a_notebook_shows_jobs_as_a_table(jobs, cluster):
    cluster.job("a")
    failed = {"type": "Failed", "status": "True", "message": "no <data>"}
    cluster.job("b", status={"conditions": [failed], "replicaStatuses": {"Worker": {"active": 1}}})

    html = (await jobs.list())._repr_html_()

    assert html.count("<tr>") == 3
    assert "<td>b</td><td>Failed</td><td>0/2</td><td>0</td>" in html
    assert html.endswith("<td>no &lt;data&gt;</td></tr></tbody></table>")
    assert (await jobs.get("a"))._repr_html_().count("<tr>") == 2


async def test_a_job_is_explained_in_values_sentences_and_a_table(jobs, cluster):
    cluster.pod(cluster.job(), "chief-0", "Failed", containerStatuses=[FAILED])
    cluster.report("j", "Failed")
    cluster.logs["j-chief-0"] = [b"no <data>\n"]

    explanation = await jobs.explain("j")

    assert (explanation.job, explanation.state) == ("TFJob default/j", "has failed")
    assert explanation.reasons[-1] == "chief-0 (pod j-chief-0) ended with exit code 3"
    assert explanation.log == ("chief-0 | no <data>",)
    assert str(explanation).splitlines()[0] == "TFJob default/j has failed."
    assert "  Log:       chief-0 | no <data>" in str(explanation).splitlines()
    assert "<tr><td>Log:</td><td>chief-0 | no &lt;data&gt;</td></tr>" in explanation._repr_html_()


async def test_what_may_not_be_read_is_noted_in_an_explanation(jobs, cluster, monkeypatch):
    cluster.job()

    async def refuse(*_):
        raise errors.Forbidden(403, errors.Status(message="you may not"))

    monkeypatch.setattr(jobs, "pods", refuse)
    monkeypatch.setattr(jobs, "events", refuse)

    notes = (await jobs.explain("j")).notes

    assert notes == tuple(
        f"{objects} may not be read here, so the explanation is made without them." for objects in ("Pods", "Events")
    )


async def test_a_queued_job_is_explained_with_what_the_nodes_lack_for_those_who_may_read_them(
    jobs, cluster, monkeypatch
):
    cluster.job()
    cluster.report("j", "Queued")

    async def room(_, job):
        return (f"room for {job.name}",)

    async def refuse(*_):
        raise errors.Forbidden(403, errors.Status(message="you may not"))

    monkeypatch.setattr(queue_notes, "room", room)
    assert (await jobs.explain("j")).waits == ("room for j",)
    monkeypatch.setattr(queue_notes, "room", refuse)
    explanation = await jobs.explain("j")
    assert (explanation.waits, explanation.notes[0][:5]) == ((), "Nodes")


async def test_a_plan_has_the_pods_as_values_and_is_shown_as_tfjob_plan_shows_it(jobs, tmp_path):
    builder = tfjob("j").workers(2)
    (tmp_path / "jobs.yaml").write_text(f"{json.dumps({'kind': 'ConfigMap'})}\n{json.dumps(builder.body())}")

    plan = await jobs.plan(builder.body())

    assert await jobs.plan(tmp_path / "jobs.yaml") == plan
    assert [replica.name for replica in plan.replicas] == ["j-worker-0", "j-worker-1"]
    assert plan.replicas[1].pod["metadata"]["name"] == "j-worker-1"
    assert json.loads(plan.replicas[1].tf_config)["task"] == {"type": "worker", "index": 1}
    assert [body["kind"] for body in plan.objects()] == ["Service", "Pod"] * 2
    assert str(plan).startswith("TFJob default/j: 2 pods and 2 Services\n\n")
    assert "<tr><td>j-worker-0</td><td>j-worker-0.default.svc:2222</td></tr>" in plan._repr_html_()
    assert await jobs.list() == ()


@pytest.mark.parametrize(
    ("source", "message"),
    [
        pytest.param(
            tfjob("j").workers(-1).body(), "TFJob j: spec.tfReplicaSpecs.Worker.replicas: must be", id="field"
        ),
        pytest.param({"kind": "Pod", "metadata": {"name": "p"}}, "Pod p contains no TFJob", id="no job"),
        pytest.param("no-such.yaml", "cannot read no-such.yaml: No such file", id="no file"),
        pytest.param(__file__, f"{__file__}: ", id="no manifest"),
    ],
)
async def test_what_cannot_be_planned_is_refused_with_the_reason(jobs, source, message):
    with pytest.raises(NotPossible) as refused:
        await jobs.plan(source)

    assert str(refused.value).startswith(message)


async def test_a_job_of_an_older_version_is_returned_as_it_is_stored(jobs):
    template = {"spec": {"containers": [{"name": "tensorflow", "image": "none"}], "restartPolicy": "OnFailure"}}
    spec = {"replicaSpecs": [{"tfReplicaType": "MASTER", "template": template}]}
    body = {"apiVersion": "kubeflow.org/v1alpha1", "kind": "TFJob", "metadata": {"name": "j"}, "spec": spec}

    assert await jobs.submit(body) == await jobs.get("j")


async def test_a_job_is_run_with_what_it_needs_to_its_end(jobs, cluster, tmp_path):
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": CLAIM}
    (tmp_path / "job.yaml").write_text(f"{json.dumps(claim)}\n{json.dumps(tfjob('j').workers(1).body())}")
    await jobs.create(claim)  # it exists already
    lines = []

    running = asyncio.ensure_future(jobs.run(tmp_path / "job.yaml", on_line=lines.append))
    await cluster.clock.idle()
    cluster.logs["j-worker-0"] = [b"one\n"]
    cluster.pod((await jobs.get("j")).body, "worker-0")
    await cluster.clock.idle()
    cluster.report("j", "Failed", firstFailure={"pod": "j-worker-0", "exitCode": 3})
    await cluster.clock.advance(3)
    result = await running

    assert [(line.replica, line.text) for line in lines] == [("worker-0", "one")]
    assert (result.exit_code, result.job.phase) == (3, JobPhase.FAILED)
    assert str(result).startswith("TFJob default/j has failed.\n  Why:")
    assert "<p>TFJob default/j has failed.</p>" in result._repr_html_()


async def test_a_run_raises_what_passing_on_a_line_raises_and_leaves_the_job(jobs, cluster):
    running = asyncio.ensure_future(jobs.run(tfjob("j").workers(1).body(), on_line=lambda line: int(line.text)))
    await cluster.clock.idle()
    cluster.logs["j-worker-0"] = [b"one\n"]
    cluster.pod((await jobs.get("j")).body, "worker-0")
    await cluster.clock.idle()

    with pytest.raises(ValueError, match="'one'"):
        await running
    assert (await jobs.get("j")).phase is JobPhase.NEW


async def test_a_run_ends_when_its_job_is_deleted(jobs, cluster):
    running = asyncio.ensure_future(jobs.run(tfjob("j").workers(1).body()))
    await cluster.clock.idle()
    await jobs.delete("j")
    await cluster.clock.advance(3)

    with pytest.raises(NotFound, match="TFJob default/j was deleted"):
        await running


async def test_an_interrupted_run_on_a_cluster_leaves_the_job(jobs, cluster):
    running = asyncio.ensure_future(jobs.run(tfjob("j").workers(1).body()))
    await cluster.clock.idle()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert (await jobs.get("j")).phase is JobPhase.NEW
    with pytest.raises(NotPossible, match=r"spec\.tfReplicaSpecs"):
        await jobs.run(tfjob("k").workers(-1).body())


async def test_without_any_cluster_only_what_needs_one_is_refused(monkeypatch, tmp_path):
    for name in ("HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)

    async with AsyncTFJobs() as jobs:
        assert len((await jobs.plan(tfjob("j").workers(2).body())).replicas) == 2
        with pytest.raises(ConfigurationError, match="there is no kubeconfig"):
            await jobs.list()
    with pytest.raises(ConfigurationError):
        async with AsyncTFJobs(kubeconfig=str(tmp_path / "none")):
            pass


async def test_a_wait_ends_with_the_phase_the_end_the_time_or_the_job(jobs, cluster):
    cluster.job()
    running, ended = (asyncio.ensure_future(jobs.wait("j", until=until)) for until in ("Running", None))
    late = asyncio.ensure_future(jobs.wait("j", until=JobPhase.SUSPENDED, timeout=90))
    await cluster.clock.idle()
    cluster.report("j", "Running")
    await cluster.clock.advance(90)
    assert (await running).phase is JobPhase.RUNNING
    with pytest.raises(WaitTimeout, match="is Running after 90 s") as timeout:
        await late
    assert timeout.value.job.phase is JobPhase.RUNNING
    assert not ended.done()

    cluster.report("j", "Failed", firstFailure={"pod": "j-worker-0", "exitCode": 3})
    await cluster.clock.idle()
    assert ((await ended).phase, (await ended).exit_code) == (JobPhase.FAILED, 3)
    assert (await jobs.wait("j", until="Running")).is_finished
    with pytest.raises(ValueError, match="there is no phase 'Runing': it is one of Created, Running, Restarting,"):
        await jobs.wait("j", until="Runing")

    cluster.job("gone")
    waiting = asyncio.ensure_future(jobs.wait("gone"))
    await cluster.clock.idle()
    await jobs.delete("gone")
    await cluster.clock.idle()
    with pytest.raises(NotFound, match="TFJob default/gone was deleted"):
        await waiting


async def test_another_job_of_that_name_is_not_waited_for(jobs, cluster):
    former = await jobs.submit(tfjob("j").workers(1).body())
    await jobs.delete("j")
    cluster.job("j")
    cluster.report("j", "Succeeded")

    async with aclosing(jobs.watch(former)) as changes:
        assert await anext(changes, None) is None


async def test_pods_of_others_that_carry_the_label_are_not_the_jobs(jobs, cluster):
    job = cluster.job()
    for replica in ("worker-0", "chief-0", "sidecar"):
        cluster.pod(job, replica)
    cluster.pod({"metadata": {"name": "j", "uid": "another"}}, "worker-7")

    job_pods = await jobs.pods("j")

    assert [(pod.replica, pod.node, pod.is_running) for pod in job_pods] == [
        ("chief-0", "n", True),
        ("worker-0", "n", True),
    ]


async def test_a_restart_deletes_what_runs_and_nothing_that_has_ended(jobs, cluster):
    job = cluster.job()
    cluster.pod(job, "chief-0", "Succeeded", containerStatuses=[ENDED])
    cluster.pod(job, "worker-0")

    assert [pod.replica for pod in await jobs.restart("j")] == ["worker-0"]
    assert "deletionTimestamp" not in cluster.find(PODS, "j-chief-0")["metadata"]
    assert cluster.find(PODS, "j-worker-0") is None or cluster.find(PODS, "j-worker-0")["metadata"]["deletionTimestamp"]

    never = {"tfReplicaSpecs": {"Worker": {"restartPolicy": "Never"}}}
    cluster.pod(cluster.job("n", **never), "worker-0")
    cluster.job("w", tfReplicaSpecs={"Worker": {"replicas": 3}})
    with pytest.raises(NotPossible, match="w has no replica worker-3: it has chief-0, worker-0 to worker-2"):
        await jobs.restart("w", replica="worker-3")
    assert await jobs.restart("w", replica="worker-2") == ()
    with pytest.raises(NotPossible, match="worker-0 has restartPolicy Never, so the job would fail"):
        await jobs.restart("n")


async def test_a_job_is_suspended_resumed_and_scaled_until_it_has_ended(jobs, cluster):
    cluster.job(
        tfReplicaSpecs={"Worker": None, "worker": {"replicas": 1, **tfjob("t").workers(1).replica_specs["Worker"]}}
    )

    assert (await jobs.suspend("j")).spec.run_policy.is_suspended
    await jobs.scale("j", 5)
    assert cluster.find(TFJOBS, "j")["spec"]["tfReplicaSpecs"]["worker"]["replicas"] == 5
    assert not (await jobs.resume("j")).spec.run_policy.is_suspended
    with pytest.raises(Invalid, match="can only change while the job is suspended"):
        await jobs.scale("j", 6)
    with pytest.raises(NotPossible, match="has no replicas of type PS: it has Chief, worker"):
        await jobs.scale("j", 5, type="PS")

    cluster.report("j", "Succeeded")
    with pytest.raises(NotPossible, match="j has succeeded: submit it again"):
        await jobs.suspend("j")


@pytest.mark.parametrize(
    "change",
    [
        lambda jobs, job: jobs.suspend(job),
        lambda jobs, job: jobs.resume(job),
        lambda jobs, job: jobs.scale(job, 2),
        lambda jobs, job: jobs.restart(job),
        lambda jobs, job: jobs.delete(job),
        lambda jobs, job: jobs.wait(job),
        lambda jobs, job: jobs.explain(job),
    ],
    ids=["suspend", "resume", "scale", "restart", "delete", "wait", "explain"],
)
async def test_a_job_of_another_cluster_is_not_taken_for_the_one_that_has_its_name_here(jobs, cluster, change):
    cluster.pod(cluster.job(), "worker-0")
    other = EmbeddedJobs(cluster.clock)
    other.job()
    async with other.client() as others:
        job = await others.get("j")

    with pytest.raises((NotFound, errors.Conflict)):
        await change(jobs, job)

    assert cluster.find(TFJOBS, "j")["metadata"]["generation"] == 1
    assert cluster.find(PODS, "j-worker-0")


async def test_events_are_of_this_job_and_its_pods(jobs, cluster):
    job = cluster.job()
    pod = cluster.pod(job, "worker-0")
    foreign = cluster.pod({"metadata": {"name": "other", "uid": "another"}}, "worker-0")
    cluster.event(job, "FailedCreatePod", "quota")
    cluster.event({**job, "metadata": {**job["metadata"], "uid": "before"}}, "Old", "of a job of that name before")
    cluster.event(pod, "FailedMount", "no secret")
    cluster.event(foreign, "Other", "of another job")

    assert {event.reason for event in await jobs.events("j")} == {"FailedCreatePod", "FailedMount"}
    assert [event.reason for event in await jobs.events("j", with_pods=False)] == ["FailedCreatePod"]


async def test_events_of_pods_are_those_since_the_job_was_created_also_of_pods_that_were_replaced(jobs, cluster):
    pod = {"kind": "Pod", "metadata": {"name": "j-worker-0", "uid": "before"}}
    cluster.event(pod, "Old", "of a pod of a job of that name before")
    await cluster.clock.advance(1)
    cluster.job()
    cluster.event({**pod, "metadata": {**pod["metadata"], "uid": "replaced"}}, "Replaced", "in the same second")

    assert [event.reason for event in await jobs.events("j")] == ["Replaced"]


async def test_logs_of_what_has_begun_are_read_one_after_the_other(jobs, cluster):
    job = cluster.job()
    cluster.pod(job, "chief-0", "Pending")
    cluster.pod(job, "worker-0")
    cluster.logs["j-worker-0"] = [b"one\n", b"two\nthr", b"ee"]

    async with aclosing(jobs.logs("j")) as lines:
        assert [(line.replica, line.text) async for line in lines] == [
            ("worker-0", "one"),
            ("worker-0", "two"),
            ("worker-0", "three"),
        ]
    with pytest.raises(NotPossible, match="has no pod of worker-9; it has pods of: chief-0, worker-0"):
        await anext(jobs.logs("j", replica="worker-9"))


async def test_of_long_lines_as_much_is_kept_as_was_asked_for(jobs, cluster):
    cluster.pod(cluster.job(), "worker-0")
    cluster.logs["j-worker-0"] = [b"abc", b"def", b"ghi\njk", b"l\n", b"m"]

    async with aclosing(jobs.logs("j", longest=4)) as lines:
        assert [line.text async for line in lines] == ["abcd", "jkl", "m"]


@pytest.mark.parametrize("follow", [False, True])
async def test_a_line_that_does_not_end_comes_in_pieces_and_what_follows_is_not_lost(jobs, cluster, follow):
    """As of a progress bar, which a training writes over and over for hours."""
    cluster.pod(cluster.job(), "worker-0")
    cluster.report("j", "Succeeded")
    bar = b"\r10%" * 1_000_000
    cluster.logs["j-worker-0"] = [b"begins\n", *[bar] * 5, b"\nends\n"]

    async with aclosing(jobs.logs("j", follow=follow)) as lines:
        chunks = [line.raw async for line in lines]

    assert (chunks[0], b"".join(chunks[1:-1]), chunks[-1]) == (b"begins", bar * 5, b"ends")


async def test_followed_logs_have_every_run_of_every_replica_until_the_job_has_ended(jobs, cluster):
    job = cluster.job()
    cluster.pod(job, "chief-0")
    cluster.logs = {"j-chief-0": [b"first\n"], "j-worker-0": [b"late\n"]}
    texts = []

    async def follow():
        async with aclosing(jobs.logs("j", follow=True)) as lines:
            texts.extend([line.text async for line in lines])

    following = asyncio.ensure_future(follow())
    await cluster.clock.idle()
    cluster.pod(job, "worker-0")
    await cluster.clock.idle()
    restarted = RUNNING | {"restartCount": 1}
    cluster.logs["j-chief-0"] = [b"second\n"]
    cluster.move("j-chief-0", "Running", containerStatuses=[restarted])
    await cluster.clock.idle()
    assert not following.done()
    cluster.report("j", "Succeeded")
    await cluster.clock.advance(3)
    await following
    assert texts == ["first", "late", "second"]


async def test_a_log_that_breaks_off_is_followed_from_where_it_was(jobs, cluster):
    """Each line has its time in front; a server is asked by the second, so it sends some lines again."""
    job = cluster.job()
    cluster.pod(job, "chief-0")
    lines = [b"2026-01-01T00:00:00.%d00Z %s\n" % (number, text) for number, text in enumerate([b"one", b"", b"three"])]
    cluster.logs["j-chief-0"] = [*lines[:2], errors.ReplyLost("cut")]
    texts = []

    async def follow():
        async with aclosing(jobs.logs("j", follow=True, tail=10)) as stream:
            texts.extend([line.text async for line in stream])

    following = asyncio.ensure_future(follow())
    await cluster.clock.idle()
    cluster.logs["j-chief-0"] = lines
    await cluster.clock.advance(1)
    assert cluster.log_options[-1]["since_seconds"] == 1
    assert cluster.log_options[-1]["tail_lines"] is None
    cluster.report("j", "Succeeded")
    await cluster.clock.advance(3)
    await following
    assert texts == ["one", "", "three"]


@pytest.mark.parametrize("follow", [False, True])
async def test_a_log_that_was_deleted_is_an_error_though_others_are_there(jobs, cluster, follow):
    job = cluster.job()
    for replica in ("chief-0", "worker-0", "worker-1"):
        cluster.pod(job, replica)
    cluster.logs = {"j-worker-0": [errors.Expired(410, errors.Status(message="deleted"))], "j-worker-1": [b"one\n"]}

    async with aclosing(jobs.logs("j", follow=follow)) as lines:
        with pytest.raises(errors.Expired, match="deleted"):
            assert [line.text async for line in lines] == []


@pytest.mark.parametrize("follow", [False, True])
async def test_logs_that_nobody_may_read_are_an_error_and_not_empty(jobs, cluster, follow):
    cluster.pod(cluster.job(), "worker-0")
    cluster.logs["j-worker-0"] = [errors.Forbidden(403, errors.Status(message="no right"))]

    async with asyncio.timeout(30):
        with pytest.raises(errors.Forbidden, match="no right"):
            await anext(jobs.logs("j", follow=follow))


async def test_a_server_that_starts_again_is_asked_again_for_a_log(jobs, cluster):
    cluster.pod(cluster.job(), "worker-0")
    cluster.logs["j-worker-0"] = [errors.Unavailable(503, errors.Status())]
    async with aclosing(jobs.logs("j", follow=True)) as lines:
        first = asyncio.ensure_future(anext(lines))
        await cluster.clock.idle()
        cluster.logs["j-worker-0"] = [b"later\n"]
        await cluster.clock.advance(1)
        async with asyncio.timeout(30):
            assert (await first).text == "later"


FORKED = """
import os, sys
from support.embedded.embedded_jobs import EmbeddedJobs
from tf_operator.client import NotPossible, TFJobs
from tf_operator.machinery.clock import SystemClock
jobs = TFJobs(transport=EmbeddedJobs(SystemClock()).client()._transport)
child = os.fork()
if child == 0:
    try:
        jobs.list()
    except NotPossible as error:
        print(error, flush=True)
    jobs.close()
    sys.exit()
os.waitpid(child, 0)
print(jobs.list())
"""


IN_THE_MIDDLE = """
from support.embedded.embedded_jobs import EmbeddedJobs
from tf_operator.client import TFJobs
from tf_operator.machinery.clock import SystemClock
cluster = EmbeddedJobs(SystemClock())
cluster.job()
versions = TFJobs(transport=cluster.client()._transport).watch("j")
print(next(versions).name)
"""


def test_a_forked_child_is_told_to_connect_itself_and_nobody_has_to_close(tmp_path):
    program = [sys.executable, "-W", "error", "-c", FORKED]
    path = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run(program, env=path, capture_output=True, text=True, check=False)

    message = "this TFJobs was made before the process forked, and its thread is not in the child: make one there\n()\n"
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, message, "")


async def test_what_is_never_closed_is_ended_when_it_is_forgotten():
    closed = asyncio.Event()
    forgotten = TFJobs(transport=EmbeddedJobs(SystemClock()).client()._transport)
    forgotten._jobs._stack.callback(closed.set)
    thread = forgotten._thread
    del forgotten
    gc.collect()

    assert (closed.is_set(), thread.is_alive()) == (True, False)


def test_what_a_job_is_waited_for_is_asked_in_the_thread_of_the_caller_and_may_use_the_client():
    cluster = EmbeddedJobs(SystemClock())
    cluster.job()
    seen = []

    def is_reached(job):
        seen.append((threading.current_thread(), jobs.pods(job)))
        return True

    with TFJobs(transport=cluster.client()._transport) as jobs:
        assert jobs.wait("j", until=is_reached).name == "j"
        assert seen == [(threading.current_thread(), ())]
        with pytest.raises(SystemExit):
            jobs.wait("j", until=lambda job: sys.exit())
        with pytest.raises(WaitTimeout):
            jobs.wait("j", until=lambda job: time.sleep(0.05), timeout=0.01)

        cluster.report("j", "Succeeded")
        phases = []
        assert jobs.wait("j", until=lambda job: phases.append(job.phase)).is_finished
        assert phases == [JobPhase.SUCCEEDED]
        assert jobs.wait("j", until="Running").is_finished


def test_who_waits_in_another_thread_when_a_client_is_closed_is_told():
    cluster = EmbeddedJobs(SystemClock())
    cluster.job()
    jobs = TFJobs(transport=cluster.client()._transport)
    is_waiting, is_closed = threading.Event(), threading.Event()
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(jobs.wait, "j", until=lambda job: is_waiting.set() or not is_closed.wait())
        is_waiting.wait()
        jobs.close()
        is_closed.set()
        for call in (waiting.result, jobs.list):
            with pytest.raises(NotPossible, match="this TFJobs has been closed"):
                call()


def test_a_program_may_end_in_the_middle_of_an_iterator():
    program = [sys.executable, "-W", "error", "-c", IN_THE_MIDDLE]
    path = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run(program, env=path, capture_output=True, text=True, check=False)

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "j\n", "")


def test_a_program_without_an_event_loop_uses_the_same_client(tmp_path):
    cluster = EmbeddedJobs(SystemClock())
    job = cluster.job()
    cluster.pod(job, "worker-0")
    cluster.logs["j-worker-0"] = [b"one\n", b"two\n"]

    with TFJobs(transport=cluster.client()._transport) as jobs:
        assert [line.text for line in jobs.logs("j")] == ["one", "two"]
        assert next(jobs.watch("j")).name == "j"
        with pytest.raises(NotPossible):
            list(jobs.logs("j", replica="worker-9"))
        with pytest.raises(WaitTimeout, match=r"has no status after 0\.01 s"):
            jobs.wait("j", timeout=0.01)
        jobs.delete("j")
        with pytest.raises(NotFound):
            jobs.get("j")
    jobs.close()


@pytest.mark.parametrize(
    ("total", "attempts", "in_place", "expected"),
    [
        (2, {"Worker-0": 1}, 0, {"worker-0": 2}),
        (0, {}, 3, {"worker-0": 3}),
        (3, {"Worker-0": 1, "Worker-1": 2}, 0, {"worker-0": 1, "worker-1": 2}),
        (1, {"Worker-0": 5, "Worker-1": 0}, 0, {"worker-0": 1, "worker-1": 0}),
    ],
)
def test_restarts_of_a_replica_are_its_own_and_those_that_the_status_remembers(
    cluster, total, attempts, in_place, expected
):
    records = [{"replica": name, "uid": "gone", "attempts": times} for name, times in attempts.items()]
    statuses = {"Worker": {"restarts": total}}
    stored = cluster.job("j", status={"replicaStatuses": statuses, "restartRecords": records})
    job = read_job(stored, registry.DEFAULT)
    pod = cluster.pod(stored, "worker-0", containerStatuses=[{**RUNNING, "restartCount": in_place}])

    assert pods.restarts(job, pods.read_pods(job, [pod], registry.DEFAULT)) == expected
