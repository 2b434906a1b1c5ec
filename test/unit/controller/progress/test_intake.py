"""A report on its way: whose it is, and that the status of its job says it."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from msgspec import structs

from support.embedded.controller_harness import KEY, Harness
from support.jobs.builders import tfjob
from tf_operator.controller.progress import intake as intake_module
from tf_operator.controller.progress.intake import Outcome, ProgressIntake, TokenOwner
from tf_operator.dialects.kubeflow.v1 import API
from tf_operator.job.progress import Metric, Progress
from tf_operator.meta import ObjectKey
from tf_operator.projections import jobs
from tf_operator.projections.jobs import LARGEST_DECODED, DecodedJobs


@pytest.fixture
def harness():
    return Harness(tfjob(KEY.name).workers(2))


@pytest.fixture
def intake(harness):
    return intake_of(harness, harness.decoded)


def intake_of(harness, decoded):
    pods, reports = harness.caches.pods.store, harness.notes.progress_reports
    return ProgressIntake(harness.jobs, decoded, pods, harness.queue, reports)


def owner(harness):
    return TokenOwner(harness.job["metadata"]["uid"])


def pod_owner(harness, name):
    pod = harness.caches.pods.store.get(ObjectKey(KEY.namespace, name)).pod
    return TokenOwner(pod_uid=pod.uid, namespace=KEY.namespace)


async def run(harness):
    await harness.settle()
    harness.set_pod(f"{KEY.name}-worker-0", phase="Running")
    harness.sync()
    await harness.settle()


async def test_a_report_is_in_the_status_of_its_job(harness, intake):
    await run(harness)
    moment = datetime(2026, 3, 1, 8, 10, tzinfo=UTC)
    report = Progress(34, 7200, 3400, (Metric("loss", "0.21"),), moment)

    assert intake.take(KEY, owner(harness), report) is Outcome.TAKEN
    await harness.clock.advance(0)
    assert harness.queue.depth == 1
    await harness.settle()

    assert harness.job["status"]["trainerStatus"] == {
        "progressPercentage": 34,
        "estimatedRemainingSeconds": 7200,
        "step": 3400,
        "metrics": [{"name": "loss", "value": "0.21"}],
        "lastUpdatedTime": "2026-03-01T08:10:00Z",
    }


async def test_reports_are_compared_with_those_of_the_same_namespace(harness, intake, monkeypatch):
    await run(harness)
    monkeypatch.setattr(intake.reports, "add", lambda *_, namespace, **__: namespaces.append(namespace))
    namespaces = []

    intake.take(KEY, owner(harness), Progress(1))
    assert namespaces == [KEY.namespace]


async def test_the_last_report_before_the_end_is_in_the_last_status(harness, intake):
    await run(harness)
    intake.take(KEY, owner(harness), Progress(1))
    await harness.settle()
    intake.take(KEY, owner(harness), Progress(99))
    await harness.settle()
    assert harness.job["status"]["trainerStatus"]["progressPercentage"] == 1

    harness.set_pod(f"{KEY.name}-worker-0", phase="Succeeded")
    harness.sync()
    await harness.settle()

    assert harness.job["status"]["trainerStatus"]["progressPercentage"] == 99
    assert intake.take(KEY, owner(harness), Progress(100)) is Outcome.ENDED


async def test_a_report_that_waits_is_stored_with_whatever_else_changes(harness, intake):
    await run(harness)
    intake.take(KEY, owner(harness), Progress(1))
    await harness.settle()
    intake.take(KEY, owner(harness), Progress(2))
    await harness.settle()
    assert harness.job["status"]["trainerStatus"]["progressPercentage"] == 1

    harness.edit_job({"spec": {"runPolicy": {"ttlSecondsAfterFinished": 7}}})
    harness.sync()
    await harness.settle()

    assert harness.job["status"]["trainerStatus"]["progressPercentage"] == 2


def test_only_the_job_of_the_token_is_reported_about(harness, intake):
    for key, uid in ((KEY, "another"), (ObjectKey("other", KEY.name), harness.job["metadata"]["uid"])):
        assert intake.take(key, TokenOwner(uid), Progress(1)) is Outcome.NOT_THE_REPORTER

    assert not len(harness.notes.progress_reports)


async def test_however_large_a_job_is_only_its_first_report_and_an_edit_decode_it():
    note = {"template": {"metadata": {"annotations": {"note": "x" * LARGEST_DECODED}}}}
    harness = Harness(tfjob(KEY.name).workers(2).merged({"spec": {"tfReplicaSpecs": {"Worker": note}}}))
    await run(harness)
    decoded = []

    def read(metadata, spec, status):
        decoded.append(metadata["generation"])
        return API.read(metadata, spec, status)

    intake = intake_of(harness, DecodedJobs(replace(API, read=read)))
    reporter, another = (pod_owner(harness, f"{KEY.name}-worker-{index}") for index in range(2))
    for percentage in range(3):
        assert intake.take(KEY, reporter, Progress(percentage)) is Outcome.TAKEN
        assert intake.take(KEY, another, Progress(99)) is Outcome.NOT_THE_REPORTER
    assert decoded == [1, 1]

    chief = harness.job["spec"]["tfReplicaSpecs"]["Worker"] | {"replicas": 1}
    harness.edit_job({"spec": {"runPolicy": {"suspend": True}, "tfReplicaSpecs": {"Chief": chief}}})
    harness.sync()
    for _ in range(2):
        assert intake.take(KEY, reporter, Progress(5)) is Outcome.NOT_THE_REPORTER
    assert decoded == [1, 1, 2]


async def test_no_job_is_decoded_for_a_token_of_somebody_else(harness):
    await run(harness)
    intake = intake_of(harness, DecodedJobs(replace(API, read=lambda *_: pytest.fail("it was decoded"))))
    reporter = pod_owner(harness, f"{KEY.name}-worker-0")
    for other in (TokenOwner(), replace(reporter, pod_uid="another"), replace(reporter, namespace="other")):
        assert intake.take(KEY, other, Progress(1)) is Outcome.NOT_THE_REPORTER


@pytest.fixture
async def pods(harness):
    """By their names: those of the job, and of another one."""
    harness.create_job(tfjob("other").workers(1))
    await run(harness)
    await harness.reconcile(ObjectKey(KEY.namespace, "other"))
    harness.sync()
    return {cached.metadata.name: cached for cached in harness.caches.pods.store}


def token_of(pod, **others):
    return replace(TokenOwner(pod_uid=pod.metadata.uid, namespace=KEY.namespace), **others)


def test_the_pod_that_decides_reports_about_its_job_and_no_other_pod_does(intake, pods):
    deciding, second, other = (pods[name] for name in ("j-worker-0", "j-worker-1", "other-worker-0"))
    refused = [token_of(second), token_of(other), token_of(deciding, namespace="theirs"), TokenOwner(pod_uid="gone")]

    assert {intake.take(KEY, owner, Progress(1)) for owner in refused} == {Outcome.NOT_THE_REPORTER}
    assert intake.take(KEY, token_of(deciding), Progress(1)) is Outcome.TAKEN


def test_a_pod_that_somebody_deletes_reports_no_more(harness, intake, pods):
    deciding = pods["j-worker-0"]
    harness.caches.pods.store.put(structs.replace(deciding, pod=structs.replace(deciding.pod, is_terminating=True)))

    assert intake.take(KEY, token_of(deciding), Progress(1)) is Outcome.NOT_THE_REPORTER


def test_what_a_program_reports_by_the_token_of_its_job_is_of_the_pod_that_decides_and_is_there(harness, intake, pods):
    stored, of_job = harness.jobs.get(KEY), owner(harness)
    deciding = pods["j-worker-0"]
    assert intake._run(stored, of_job) == deciding.metadata.uid

    harness.caches.pods.store.put(structs.replace(deciding, pod=structs.replace(deciding.pod, is_terminating=True)))
    assert intake._run(stored, of_job) == ""


def test_no_pod_reports_about_a_job_whose_rules_know_no_reports(harness, pods):
    def read(*parts):
        return structs.replace(API.read(*parts), profile=replace(API.profile, takes_reports=False))

    deaf = intake_of(harness, DecodedJobs(replace(API, read=read)))

    assert deaf.take(KEY, token_of(pods["j-worker-0"]), Progress(1)) is Outcome.NOT_THE_REPORTER


def test_of_very_many_jobs_the_reporter_of_the_one_that_reported_first_is_forgotten(harness, pods, monkeypatch):
    monkeypatch.setattr(intake_module, "MOST_REPORTERS", 1)
    monkeypatch.setattr(jobs, "LARGEST_DECODED", 0)
    decoded, tokens = [], {name: token_of(pods[f"{name}-worker-0"]) for name in ("j", "other")}

    def read(metadata, spec, status):
        decoded.append(metadata["name"])
        return API.read(metadata, spec, status)

    intake = intake_of(harness, DecodedJobs(replace(API, read=read)))
    for name in ("j", "other"):
        intake.take(ObjectKey("ns", name), tokens[name], Progress(1))
    decoded.clear()
    for name in ("other", "j"):
        assert intake.take(ObjectKey("ns", name), tokens[name], Progress(2)) is Outcome.TAKEN
    assert decoded == ["j"]


def test_a_process_that_does_not_lead_takes_no_report(harness, intake):
    harness.queue.pause()

    assert intake.take(KEY, owner(harness), Progress(1)) is Outcome.NOT_LEADING
