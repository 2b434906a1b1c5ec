"""How long the rest of a training takes, and what is news of it."""

import random
from dataclasses import replace

import pytest

from tf_operator.dialects import trainer_status
from tf_operator.job.progress import Checkpoint, Metric, Point, Progress, WrongStart, remaining


@pytest.mark.parametrize(
    ("percentages", "seconds"),
    [
        ([10, 20, 30, 40, 50], 50),
        ([10, 20, 30, 40], None),
        ([0, 0, 0, 0, 1], None),
        ([50, 50, 50, 50, 50], None),
        ([96, 97, 98, 99, 100], 0),
    ],
    ids=["ten percent in ten seconds", "too few", "it has just begun", "it does not move", "it is done"],
)
def test_the_rest_takes_as_long_as_the_last_reports_say_if_there_are_enough(percentages, seconds):
    points = [Point(100 + 10 * number, percentage) for number, percentage in enumerate(percentages)]

    assert remaining(points) == seconds


@pytest.mark.parametrize(("beyond", "seconds"), [(0, 315_360_000), (1, None)])
def test_nothing_is_said_of_a_time_beyond_ten_years(beyond, seconds):
    of_a_percent = (315_360_000 + beyond) / 50

    assert remaining([Point(number * of_a_percent, 46 + number) for number in range(5)]) == seconds


def test_a_report_that_repeats_the_one_before_at_another_time_is_no_progress():
    first = Progress(percentage=34, step=3400, metrics=(Metric("loss", "0.21"),))

    assert first.has_moved_from(None)
    assert not first.has_moved_from(Progress(34, remaining=7, step=3400, metrics=first.metrics))
    for other in (Progress(35, step=3400, metrics=first.metrics), Progress(34, step=3401, metrics=first.metrics)):
        assert first.has_moved_from(other)
    assert first.has_moved_from(Progress(34, step=3400))


SAVED = Checkpoint(3400, path="/data")
BEFORE = Progress(step=3500, checkpoint=SAVED, run="first")


@pytest.mark.parametrize(
    ("report", "start"),
    [
        (Progress(resumed_from=0), 0),
        (Progress(step=9000, resumed_from=3399), 3399),
        (Progress(step=7), 7),
        (Progress(checkpoint=Checkpoint(100)), 100),
        (Progress(step=1, resumed_from=3400), None),
        (Progress(step=3400), None),
        (Progress(percentage=1), None),
    ],
)
def test_a_run_that_begins_before_the_last_checkpoint_has_a_wrong_start(report, start):
    later = report.after(BEFORE, "second")

    assert later.wrong_start == (None if start is None else WrongStart(start, SAVED))
    assert report.after(BEFORE, "first").wrong_start is None
    assert report.after(None, "second").wrong_start is None
    assert report.after(replace(BEFORE, checkpoint=None), "second").wrong_start is None


def test_a_run_is_compared_when_it_first_says_where_it_begins_and_then_no_more():
    silent = Progress(percentage=1).after(BEFORE, "second")
    assert (silent.run, silent.checkpoint) == ("first", SAVED)
    begun = Progress(step=5).after(silent, "second")
    assert begun.wrong_start == WrongStart(5, SAVED)
    later = Progress(step=9, checkpoint=Checkpoint(8)).after(begun, "second")
    assert (later.wrong_start, later.checkpoint) == (begun.wrong_start, Checkpoint(8))


@pytest.mark.parametrize(
    "run",
    ["", "pod", "pod/2026-03-01T08:00:00Z", "pod/2026-03-01T08:09:00Z"],
    ids=["no pod is there any more", "its kubelet has forgotten the end before", "from an older cache", "the same"],
)
def test_a_report_of_a_run_that_has_not_begun_since_is_compared_with_nothing(run):
    latest = replace(BEFORE, run="pod/2026-03-01T08:09:00Z")
    report = Progress(step=3600, resumed_from=0)

    assert report.after(latest, run) == replace(report, checkpoint=SAVED, run=latest.run)
    assert report.after(latest, "pod/2026-03-01T08:10:00Z").wrong_start == WrongStart(0, SAVED)


def test_what_a_run_does_not_repeat_still_holds():
    begun = Progress(step=3400, resumed_from=3400).after(BEFORE, "second")
    later = Progress(step=3500).after(begun, "second")

    assert (later.resumed_from, later.checkpoint) == (3400, SAVED)
    assert Progress(step=3600).after(later, "third").resumed_from is None


def test_the_longest_save_is_that_of_all_runs():
    latest = replace(BEFORE, longest_save=40)
    for saves, longest in ((None, 40), (0, 40), (95, 95)):
        for run in ("first", "second"):
            assert Progress(step=3500, longest_save=saves).after(latest, run).longest_save == longest
    assert Progress(longest_save=0).after(BEFORE, "first").longest_save == 0
    assert Progress().after(BEFORE, "first").longest_save is None


@pytest.mark.parametrize("before", ["pod", "pod/2026-03-01T08:00:00Z", "pod/2026-03-01T08:00:00Z+"])
def test_a_run_may_save_again_before_its_kubelet_has_reported_the_restart(before):
    latest = replace(BEFORE, resumed_from=0, run=before, wrong_start=WrongStart(0, SAVED))
    early = Progress(step=3500, checkpoint=Checkpoint(3500), resumed_from=3400).after(latest, "pod")
    assert (early.run.count("+"), early.wrong_start) == (1, None)
    assert Progress(step=3510, resumed_from=3400).after(early, "pod").run == early.run

    known = Progress(step=3520, resumed_from=3400).after(early, "pod/2026-03-01T08:09:00Z")
    assert (known.wrong_start, known.run, known.resumed_from) == (None, "pod/2026-03-01T08:09:00Z", 3400)
    another = Progress(step=3500, resumed_from=3500).after(early, "pod/2026-03-01T08:09:00Z")
    assert another.run == "pod/2026-03-01T08:09:00Z+"
    for later in ("pod/2026-03-01T08:10:00Z", "other"):
        assert Progress(resumed_from=3400).after(known, later).wrong_start == WrongStart(3400, Checkpoint(3500))
    assert Progress(resumed_from=3400).after(early, "other").wrong_start == WrongStart(3400, Checkpoint(3500))


@pytest.mark.parametrize("begin", [0, 3399, None])
def test_a_run_that_begins_elsewhere_is_compared_when_its_kubelet_has_reported_the_restart(begin):
    latest = replace(BEFORE, resumed_from=9, run="pod")
    early = Progress(step=7, resumed_from=begin).after(latest, "pod")
    assert (early.run, early.wrong_start) == ("pod", None)

    known = Progress(step=8, resumed_from=begin).after(early, "pod/2026-03-01T08:09:00Z")
    assert known.wrong_start == WrongStart(8 if begin is None else begin, SAVED)


class Training:
    """A random program, in runs, and the operators that hear it: now and then another one, which knows the status."""

    def __init__(self, seed):
        self.chance = random.Random(seed)
        self.step = self.saved = 0
        self.pod, self.run = "pod", ""
        self.heard = self.stored = None
        self.has_field = self.chance.choice(("never", "first", "always"))

    def begin(self, number, step, *, late=0):
        """``late``: so many reports come before the kubelet's of the restart."""
        self.earlier, self.run, self.late = self.run, f"{self.pod}/{number}", late
        self.step, self.first, self.has_saved = step, step, False

    def goes_on(self):
        self.step += self.chance.randrange(100)
        if self.chance.random() < 0.3:
            self.saved, self.has_saved = self.step, True

    def report(self, *, is_first):
        """What the operator that leads knows then."""
        chance = self.chance
        report = Progress(
            percentage=7,
            step=self.step if chance.random() < 0.8 else None,
            checkpoint=Checkpoint(self.saved) if self.has_saved and chance.random() < 0.9 else None,
            resumed_from=self.first if self.has_field == "always" or (is_first and self.has_field == "first") else None,
        )
        if chance.random() < 0.1:
            self.heard = trainer_status.read(trainer_status.write(self.stored))
        self.heard = report.after(self.heard, self.earlier if self.late > 0 else self.run)
        self.late -= 1
        if chance.random() < 0.4:
            self.stored = self.heard
        return self.heard


def test_of_a_thousand_trainings_that_go_on_where_they_should_none_has_a_wrong_start():
    for seed in range(1000):
        training = Training(seed)
        for number in range(training.chance.randrange(2, 8)):
            # Who goes on from the same step as before cannot be told from who has not noticed the checkpoint.
            late = training.chance.randrange(4) if number and training.has_saved else 0
            training.begin(number, training.saved, late=late)
            for count in range(training.chance.randrange(12)):
                assert training.report(is_first=not count).wrong_start is None, seed
                training.goes_on()


def test_of_a_hundred_trainings_that_go_on_from_behind_all_are_told_with_the_first_report_that_says_where():
    for seed in range(100):
        training = Training(seed)
        training.begin(0, 0)
        while not (training.heard and training.heard.checkpoint and training.heard.checkpoint.step):
            training.goes_on()
            training.report(is_first=False)
        saved = training.heard.checkpoint
        training.begin(1, training.chance.randrange(saved.step))
        report = Progress(step=training.step, resumed_from=training.chance.choice((training.first, None)))
        assert report.after(training.heard, training.run).wrong_start == WrongStart(training.first, saved), seed
