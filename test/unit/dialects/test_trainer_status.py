"""Reports of programs: those of the clients of Kubeflow Trainer are read, and everything has a bound."""

from datetime import UTC, datetime

import msgspec
import pytest

from tf_operator.dialects import trainer_status
from tf_operator.job.progress import Checkpoint, Metric, Progress
from tf_operator.job.training_job import FieldError

NOW = datetime(2026, 3, 1, 8, 10, 0, 123456, tzinfo=UTC)
RECEIVED = NOW.replace(microsecond=0)


def read(**status):
    return trainer_status.read_report(msgspec.json.encode({"trainerStatus": status}), NOW)


def metrics(count, *, name="m", value="0.21"):
    return [{"name": f"{name}{number}", "value": value} for number in range(count)]


def test_a_report_of_kubeflows_sdk_is_read_with_the_time_at_which_it_came():
    """Its own time is checked and not used: clocks of nodes differ."""
    report = read(
        lastUpdatedTime="2026-02-28T08:10:00.987654+00:00",
        progressPercentage=34,
        estimatedRemainingSeconds=7200,
        metrics=[{"name": "loss", "value": "0.21"}],
    )

    assert report == Progress(34, 7200, None, (Metric("loss", "0.21"),), RECEIVED)


def test_a_report_may_have_the_step_and_keys_that_nobody_knows():
    assert read(step=3400, epoch={"step": 3000}) == Progress(step=3400, time=RECEIVED)
    assert read() == Progress(time=RECEIVED)


def test_a_text_may_be_as_long_as_its_bound():
    assert read(metrics=metrics(1, value="x" * 64)).metrics == (Metric("m0", "x" * 64),)


@pytest.mark.parametrize(
    ("status", "problem"),
    [
        ({"progressPercentage": 101}, "trainerStatus.progressPercentage: must be from 0 to 100, is 101"),
        ({"progressPercentage": -1}, "trainerStatus.progressPercentage: must be from 0 to 100, is -1"),
        ({"progressPercentage": "34"}, "trainerStatus.progressPercentage: must be a whole number, is '34'"),
        ({"progressPercentage": 34.5}, "trainerStatus.progressPercentage: must be a whole number, is 34.5"),
        (
            {"estimatedRemainingSeconds": 315360001},
            "trainerStatus.estimatedRemainingSeconds: must be from 0 to 315360000, is 315360001",
        ),
        ({"step": 2**53 + 1}, f"trainerStatus.step: must be from 0 to {2**53}, is {2**53 + 1}"),
        ({"metrics": metrics(33)}, "trainerStatus.metrics: must be at most 32, are 33"),
        ({"metrics": {}}, "trainerStatus.metrics: must be a list, is an object"),
        ({"metrics": [1]}, "trainerStatus.metrics[0]: must be an object, is 1"),
        (
            {"metrics": metrics(1, value="x" * 65)},
            "trainerStatus.metrics[0].value: must be 1 to 64 printable characters",
        ),
        ({"metrics": metrics(1, value="")}, "trainerStatus.metrics[0].value: must be 1 to 64 printable characters"),
        (
            {"metrics": metrics(1, name="\x1b[2J")},
            "trainerStatus.metrics[0].name: must be 1 to 64 printable characters",
        ),
        ({"metrics": [{"name": "loss", "value": 0.2}]}, "trainerStatus.metrics[0].value: must be a string, is 0.2"),
        ({"resumedFromStep": -1}, f"trainerStatus.resumedFromStep: must be from 0 to {2**53}, is -1"),
        *(
            ({"saveSeconds": seconds}, f"trainerStatus.saveSeconds: must be {rule}, is {seconds}")
            for seconds, rule in ((-1, "from 0 to 86400"), (86401, "from 0 to 86400"), (0.5, "a whole number"))
        ),
        ({"checkpoint": 3400}, "trainerStatus.checkpoint: must be an object, is 3400"),
        ({"checkpoint": {}}, "trainerStatus.checkpoint.step: is required"),
        (
            {"checkpoint": {"step": 2**53 + 1}},
            f"trainerStatus.checkpoint.step: must be from 0 to {2**53}, is {2**53 + 1}",
        ),
        ({"checkpoint": {"step": 1.5}}, "trainerStatus.checkpoint.step: must be a whole number, is 1.5"),
        (
            {"checkpoint": {"step": 1, "time": "today"}},
            "trainerStatus.checkpoint.time: must be a time as in RFC 3339, is 'today'",
        ),
        *(
            (
                {"checkpoint": {"step": 1, "path": path}},
                "trainerStatus.checkpoint.path: must be up to 256 printable characters",
            )
            for path in ("x" * 257, "/data\n/etc", "\x1b[2J")
        ),
        ({"lastUpdatedTime": "today"}, "trainerStatus.lastUpdatedTime: must be a time as in RFC 3339, is 'today'"),
    ],
)
def test_a_field_that_is_wrong_refuses_the_whole_report_and_is_named(status, problem):
    refusal = read(**({"progressPercentage": 34} | status))

    assert isinstance(refusal, FieldError)
    assert str(refusal) == problem


@pytest.mark.parametrize("body", [b"", b"\xff", b"[1]", b"{}", b'{"trainerStatus": 1}', b"[" * 100_000, b"NaN"])
def test_what_is_no_report_is_a_problem_and_never_an_error(body):
    assert isinstance(trainer_status.read_report(body, NOW), FieldError)


def test_of_long_metrics_so_many_are_taken_as_two_kilobytes_hold():
    report = read(metrics=metrics(32, name="é" * 20, value="1" * 58))

    assert [metric.name[20:] for metric in report.metrics] == [str(number) for number in range(20)]
    assert len(trainer_status.write(report)["trainerStatus"]["metrics"]) == 20


def test_what_is_written_into_a_status_is_read_again():
    saved = Checkpoint(3400, RECEIVED, "/data/é")
    for progress in (
        Progress(0, 0, 0, (), RECEIVED),
        Progress(34, 7200, 3400, (Metric("loss", "0.21"),), RECEIVED),
        Progress(0, 0, 0, (), RECEIVED, Checkpoint(0), resumed_from=0, run="pod"),
        Progress(time=RECEIVED, checkpoint=saved, resumed_from=3000, run="pod/2026-03-01T08:00:00Z"),
        Progress(time=RECEIVED, checkpoint=saved, longest_save=0),
    ):
        assert trainer_status.read(trainer_status.write(progress)) == progress
    assert trainer_status.read(trainer_status.write(None)) is None


def test_who_has_reported_is_stored_only_where_there_is_a_checkpoint_to_compare():
    assert "reportedBy" not in trainer_status.write(Progress(1, time=RECEIVED, run="pod"))


def test_a_report_may_have_a_checkpoint_and_say_how_long_it_took_and_where_its_run_began():
    saved = {"step": 3400, "time": "2026-03-01T08:09:59.5Z", "path": "/data/model"}
    report = read(checkpoint=saved, saveSeconds=95, resumedFromStep=0)

    time = NOW.replace(minute=9, second=59, microsecond=0)
    checkpoint = Checkpoint(3400, time, "/data/model")
    assert (report.checkpoint, report.longest_save, report.resumed_from) == (checkpoint, 95, 0)
    assert read(checkpoint={"step": 0}).checkpoint == Checkpoint(0)
    assert read(checkpoint=None, resumedFromStep=None) == Progress(time=RECEIVED)


def test_whatever_somebody_has_written_into_a_status_is_passed_over():
    assert trainer_status.read({"trainerStatus": []}) is None
    stored = {"progressPercentage": "x", "metrics": [1, {}], "lastUpdatedTime": 3}
    others = {"checkpoint": {"step": "x"}, "longestSaveSeconds": "x", "resumedFromStep": "x", "reportedBy": 3}
    assert trainer_status.read({"trainerStatus": stored, **others}) == Progress(metrics=(Metric("", ""),))
    odd = {"checkpoint": {"step": 1, "time": 3, "path": 4}}
    assert trainer_status.read({"trainerStatus": stored, **odd}).checkpoint == Checkpoint(1)
