"""Curves that the local server keeps of what programs report, whoever looks."""

from datetime import UTC, datetime, timedelta

import msgspec

from tf_operator.app.local_kinds import job_curves
from tf_operator.app.local_kinds.job_curves import JobCurves
from tf_operator.job.curves import Curves
from tf_operator.job.progress import Checkpoint, Metric, Progress
from tf_operator.meta import ObjectKey

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def report(second, step=None, **fields):
    metrics = (Metric("loss", str(second)),)
    return Progress(step=step, metrics=metrics, time=BEGIN + timedelta(seconds=second), **fields)


def kept(curves, uid):
    bodies = msgspec.json.decode(msgspec.json.encode([*curves.read(BEGIN)]))
    return next(Curves.of_copy(body["curves"]) for body in bodies if body["metadata"]["name"] == uid)


def test_a_page_that_is_opened_later_gets_all_points_and_goes_on_with_those_that_are_new():
    curves, key = JobCurves(), ObjectKey("team", "a")
    for second in range(3):
        curves.add(key, "u", report(second, 10 * second, checkpoint=Checkpoint(7)))

    page, second = kept(curves, "u"), BEGIN.timestamp()
    points = [(second, 0, 0.0), (second + 1, 10, 1.0), (second + 2, 20, 2.0)]
    assert page.since(0) == {"names": ["loss"], "points": points, "most": 1000}
    assert [(saved.step, saved.time) for saved in page.checkpoints] == [(7, BEGIN)]
    assert [page.add(report(number)) for number in (1, 2, 3)] == [False, False, True]


def test_jobs_are_told_apart_by_namespace_and_uid():
    curves = JobCurves()
    curves.add(ObjectKey("team", "a"), "u", report(1))
    curves.add(ObjectKey("team", "a"), "v", report(2))

    assert [body["metadata"]["namespace"] for body in curves.read(BEGIN)] == ["team", "team"]
    assert [kept(curves, uid).since(0)["points"][0][2] for uid in "uv"] == [1.0, 2.0]


def test_of_many_jobs_those_that_reported_last_are_kept():
    curves = JobCurves()
    for number in range(job_curves.MOST_JOBS):
        curves.add(ObjectKey("team", "a"), str(number), report(1))
    curves.add(ObjectKey("team", "a"), "0", report(2))
    curves.add(ObjectKey("team", "a"), "new", report(1))

    uids = [body["metadata"]["name"] for body in curves.read(BEGIN)]
    assert len(uids) == job_curves.MOST_JOBS
    assert (uids[0], uids[-2:]) == ("2", ["0", "new"])


def test_only_the_last_points_of_a_job_are_kept():
    curves = JobCurves()
    for second in range(1100):
        curves.add(ObjectKey("team", "a"), "u", report(second))

    page = kept(curves, "u")
    assert (len(page.points), page.count, page.points[0][2]) == (1000, 1100, 100.0)
