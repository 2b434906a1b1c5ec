"""Other controllers of TFJobs: what counts as one at work, and what is done about it."""

import asyncio
import json
from types import SimpleNamespace

import pytest
from structlog.testing import capture_logs

from support.embedded.controller_harness import Recorder
from support.fake_clock import FakeClock
from support.jobs import builders
from support.toys import toy_api
from tf_operator.controller.conflicts import ConflictDetector, ConflictingController
from tf_operator.controller.metrics_hooks import JobInstruments
from tf_operator.dialects.kubeflow import v1
from tf_operator.projections.jobs import job_reader

EARLIER, NOW = "2026-03-01T08:00:00Z", "2026-03-01T08:00:07Z"
WATCH_FOR, STARTING_FOR, REPORT_EVERY = 10, 60, 60


class Counts(JobInstruments):
    """Counts changes by namespace."""

    def __init__(self):
        self.changes = []

    def changed_by_another(self, namespace):
        self.changes.append(namespace)


class Lookout:
    """A detector, and what it reports."""

    def __init__(self, **options):
        self.clock = FakeClock()
        self.recorder = Recorder()
        self.counts = Counts()
        self.detector = ConflictDetector(self.clock, recorder=self.recorder, **options)
        self.watching = None
        self.observe()

    def observe(self, *jobs, api=v1.API):
        """Watch these jobs, which are all there are."""
        handlers = []
        self.detector.observe(SimpleNamespace(store=jobs, add_handler=handlers.append), api, self.counts)
        (self.handler,) = handlers

    async def begin(self, *jobs):
        """Look at these jobs, which are all there are; returns the wait until the way is clear."""
        self.observe(*jobs)
        self.watching = asyncio.ensure_future(self.detector.watch())
        waiting = asyncio.ensure_future(self.detector.wait_until_clear())
        await self.clock.idle()
        return waiting


def job(*written, phase="Running", manager=None, is_forged=False):
    """A job, and who wrote to it: (program, time) or (program, time, subresource); or says so."""
    body = builders.tfjob("j").in_namespace("ns").workers(1).body()
    entries = [(*entry, "status")[:3] for entry in written]
    body["metadata"] |= {
        "uid": "u",
        "managedFields": [
            {"manager": name, "operation": "Update", "time": time, "subresource": part, "fieldsV1": {"f:status": {}}}
            for name, time, part in entries
        ],
    }
    times = [time for _, time, part in entries if part == "status" and not is_forged]
    body["status"] = {"conditions": [{"type": phase, "status": "True"}], "lastReconcileTime": max(times, default="")}
    if manager:
        body["spec"]["runPolicy"] = {"managedBy": manager}
    return job_reader(v1.API)(json.dumps(body).encode())


@pytest.fixture
async def lookout():
    watcher = Lookout()
    yield watcher
    if watcher.watching:
        watcher.watching.cancel()
        await asyncio.gather(watcher.watching, return_exceptions=True)


async def test_a_start_ends_when_another_controller_changes_a_status_and_says_which_where_and_when(lookout):
    await lookout.begin()
    lookout.handler.on_update(job(), job(("manager", NOW)))
    await lookout.clock.advance(2)

    with pytest.raises(ConflictingController) as refusal:
        await lookout.watching
    told = str(refusal.value)
    assert told.startswith(f"another controller reconciles TFJobs: 'manager' changed the status of ns/j at {NOW}. ")
    assert "--override-existing-controller" in told


async def test_what_is_reported_is_in_the_words_of_the_api_of_the_job(lookout):
    await lookout.begin()
    lookout.observe(api=toy_api.API)
    lookout.handler.on_update(job(), job(("manager", NOW)))
    await lookout.clock.advance(2)

    with pytest.raises(ConflictingController, match="another controller reconciles Trainings: 'manager'"):
        await lookout.watching
    assert [reason for _, reason, _ in lookout.recorder.events] == ["Another_Controller"]


@pytest.mark.parametrize(
    "name",
    ["manager", "training-operator", "tf-operator.v1", "tf-operator.v1beta2", "tf-operator-v1beta1", "tf-operator.v2"],
)
async def test_controllers_of_tfjobs_are_known_by_the_names_of_their_programs(lookout, name):
    lookout.handler.on_update(job(), job((name, NOW)))

    assert lookout.counts.changes == ["ns"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(job(("manager", EARLIER)), job(("manager", EARLIER)), id="something else has changed"),
        pytest.param(job(("manager", EARLIER)), job(("tf-operator", NOW)), id="we have taken it over"),
        pytest.param(job(), job(("tf-operator", NOW)), id="it was our leader"),
        pytest.param(job(), job(("kubectl-edit", NOW)), id="it was a person"),
        pytest.param(job(), job(("kueue", NOW)), id="it was no controller of TFJobs"),
        pytest.param(job(), job(("some-manager", NOW)), id="it only sounds alike"),
        pytest.param(job(), job(("manager", NOW, "")), id="it was not the status"),
        pytest.param(job(), job(("manager", NOW), is_forged=True), id="somebody who may not write the status says so"),
        pytest.param(job(), job(("manager", NOW), manager="kueue.x-k8s.io/multikueue"), id="it is not our job"),
    ],
)
async def test_what_is_no_sign_of_another_controller_is_passed_over(lookout, old, new):
    waiting = await lookout.begin()
    lookout.handler.on_update(old, new)
    await lookout.clock.advance(2)

    assert not lookout.watching.done()
    assert waiting.done()
    assert (lookout.counts.changes, lookout.recorder.events) == ([], [])


async def test_what_was_written_before_we_looked_does_not_count(lookout):
    lookout.handler.on_add(job(("manager", NOW)))
    lookout.handler.on_delete(job(("manager", NOW)), final_state_known=True)
    await lookout.begin(job(("manager", NOW)))
    await lookout.clock.advance(STARTING_FOR + 2)

    assert not lookout.watching.done()


async def test_a_change_that_is_seen_while_the_caches_are_read_again_counts(lookout):
    lookout.handler.on_update(job(("manager", EARLIER)), job(("manager", NOW)))
    await lookout.begin()
    await lookout.clock.advance(2)

    with pytest.raises(ConflictingController):
        await lookout.watching


async def test_time_begins_when_the_caches_are_complete_however_long_that_takes(lookout):
    lookout.watching = asyncio.ensure_future(lookout.detector.watch())
    await lookout.clock.advance(10 * STARTING_FOR)
    await lookout.begin()
    await lookout.clock.advance(STARTING_FOR - 2)
    lookout.handler.on_update(job(), job(("manager", NOW)))
    await lookout.clock.advance(2)

    with pytest.raises(ConflictingController):
        await lookout.watching


async def test_the_start_waits_while_jobs_of_another_one_are_under_way(lookout):
    with capture_logs() as logs:
        waiting = await lookout.begin(job(), job(("manager", EARLIER)))
    assert [entry["seconds"] for entry in logs] == [WATCH_FOR], "the log says why it waits"
    await lookout.clock.advance(WATCH_FOR - 1)
    assert not waiting.done()

    await lookout.clock.advance(1)
    assert waiting.done()


@pytest.mark.parametrize(
    "others",
    [
        pytest.param([], id="no jobs"),
        pytest.param([job(("tf-operator", EARLIER))], id="our own"),
        pytest.param([job(("manager", EARLIER), phase="Succeeded")], id="one that has succeeded"),
        pytest.param([job(("manager", EARLIER), phase="Failed")], id="one that has failed"),
        pytest.param([job(("manager", EARLIER), manager="kueue.x-k8s.io/multikueue")], id="one that is not ours"),
    ],
)
async def test_the_start_does_not_wait_when_there_is_nothing_to_wait_for(lookout, others):
    assert (await lookout.begin(*others)).done()


async def test_a_process_that_has_worked_for_a_while_continues_and_reports_once_a_minute(lookout):
    await lookout.begin()
    await lookout.clock.advance(STARTING_FOR)
    with capture_logs() as logs:
        for second in range(3):
            lookout.handler.on_update(job(), job(("manager", f"2026-03-01T08:00:1{second}Z")))
        await lookout.clock.advance(REPORT_EVERY)
        lookout.handler.on_update(job(), job(("manager", NOW)))

    assert not lookout.watching.done()
    assert lookout.counts.changes == ["ns"] * 4
    assert [(severity, reason) for severity, reason, _ in lookout.recorder.events] == [
        ("Warning", "AnotherController")
    ] * 2
    assert [(record["log_level"], record["job_name"]) for record in logs] == [("warning", "j")] * 2


async def test_an_override_neither_waits_nor_ends_and_reports_all_the_same():
    lookout = Lookout(is_overridden=True)
    assert (await lookout.begin(job(("manager", EARLIER)))).done()
    lookout.handler.on_update(job(), job(("manager", NOW)))
    await lookout.clock.advance(2)

    assert not lookout.watching.done()
    assert [reason for _, reason, _ in lookout.recorder.events] == ["AnotherController"]
    lookout.watching.cancel()
    await asyncio.gather(lookout.watching, return_exceptions=True)


async def test_the_event_has_time_to_be_posted_before_the_process_ends(lookout):
    await lookout.begin()
    lookout.handler.on_update(job(), job(("manager", NOW)))
    await lookout.clock.advance(0.5)

    assert not lookout.watching.done()
    assert lookout.recorder.events
    await lookout.clock.advance(0.6)
    assert lookout.watching.done()


async def test_the_way_is_never_clear_once_another_controller_was_seen(lookout):
    waiting = await lookout.begin(job(("manager", EARLIER)))
    await lookout.clock.advance(WATCH_FOR - 0.5)
    lookout.handler.on_update(job(("manager", EARLIER)), job(("manager", NOW)))
    await lookout.clock.advance(2)

    assert (waiting.done(), lookout.watching.done()) == (False, True)
    waiting.cancel()
    with pytest.raises(ConflictingController):
        await lookout.watching
