"""The last report of each job: how often it is stored, and how long the rest takes."""

from datetime import timedelta
from unittest.mock import Mock

import pytest

from tf_operator.controller.progress.reports import Pace, ProgressReports
from tf_operator.job.progress import Checkpoint, Progress, ProgressClock

JOBS = [f"job-{number}" for number in range(100)]
PHASES = dict.fromkeys(JOBS, "Running")


@pytest.fixture
def reports(clock):
    return ProgressReports(clock, PHASES.get)


def store(reports, clock, uid="job-0"):
    """Store what is due of a job; whether anything was."""
    reported = reports.of(uid, clock.now())
    if reported and reported.due and reported.due <= clock.now():
        reports.note_stored(uid, reported.latest)
        return True
    return False


async def test_the_first_report_is_stored_at_once_and_the_next_after_half_a_minute(reports, clock):
    assert reports.add("job-0", Progress(1)) == 0
    assert store(reports, clock)

    await clock.advance(5)
    assert reports.add("job-0", Progress(2)) == 25
    await clock.advance(20)
    assert reports.add("job-0", Progress(3)) == 5
    assert not store(reports, clock)
    await clock.advance(5)
    assert store(reports, clock)
    assert reports.of("job-0", clock.now()).latest.percentage == 3
    assert not store(reports, clock)


async def test_a_percentage_that_stays_the_same_waits_for_five_minutes(reports, clock):
    reports.add("job-0", Progress(1, step=10))
    store(reports, clock)

    await clock.advance(10)
    assert reports.add("job-0", Progress(1, step=11)) == 290
    assert reports.add("job-0", Progress(2, step=12)) == 20
    assert reports.add("job-0", Progress(2, step=13)) == 20


async def test_a_program_without_a_percentage_is_stored_when_its_step_has_changed(reports, clock):
    reports.add("job-0", Progress(step=10))
    store(reports, clock)

    assert reports.add("job-0", Progress(step=10)) == 300
    assert reports.add("job-0", Progress(step=11)) == 30


def test_a_run_that_begins_behind_its_checkpoint_is_stored_at_once(reports, clock):
    reports.add("job-0", Progress(1, checkpoint=Checkpoint(8)), run="first")
    store(reports, clock)

    assert reports.add("job-0", Progress(1, resumed_from=0), run="second") == 0
    assert store(reports, clock)
    assert reports.add("job-0", Progress(2), run="second") == 30


async def test_all_jobs_together_have_ten_writes_in_a_second(reports, clock):
    for uid in JOBS:
        reports.add(uid, Progress(1))
    stored = []
    for _ in range(12):
        stored.append(sum(store(reports, clock, uid) for uid in JOBS))
        await clock.advance(1)

    assert stored == [10] * 10 + [0, 0]


def test_a_job_that_has_no_turn_is_tried_again_in_a_second(clock):
    reports = ProgressReports(clock, PHASES.get, Pace(per_second=1))
    for uid in JOBS[:2]:
        reports.add(uid, Progress(1))
    assert store(reports, clock, "job-0")

    assert reports.of("job-1", clock.now()).due == clock.now() + timedelta(seconds=1)


async def test_each_job_is_reconciled_when_its_turn_comes_however_often_it_reports(reports, clock):
    """After a take-over all programs report within five seconds to a leader that has stored nothing yet."""
    waits = [reports.add(uid, Progress(1)) for uid in JOBS]
    assert waits == pytest.approx([0] * 10 + [number / 10 for number in range(1, 91)])

    await clock.advance(5)
    assert reports.add("job-99", Progress(2)) == pytest.approx(4)
    assert reports.of("job-99", clock.now()).due == clock.now() + timedelta(seconds=4)


async def test_a_job_that_is_reconciled_when_its_report_is_due_has_its_turn_already(clock):
    reports = ProgressReports(clock, PHASES.get, Pace(per_second=1))
    reports.add("job-0", Progress(1))
    assert store(reports, clock)

    await clock.advance(26)
    assert reports.add("job-0", Progress(2)) == 4
    await clock.advance(4)
    assert reports.add("job-1", Progress(1)) == 0  # it takes what others could have now
    assert store(reports, clock)


async def test_a_report_that_may_not_wait_has_the_turn_of_one_that_would_have_waited(reports, clock):
    reports.add("job-0", Progress(1, checkpoint=Checkpoint(8)), run="first")
    assert store(reports, clock)

    await clock.advance(27)
    assert reports.add("job-0", Progress(2), run="first") == 3
    assert reports.add("job-0", Progress(1, resumed_from=0), run="second") == 0
    assert store(reports, clock)


async def test_where_there_is_less_than_a_write_in_a_second_there_is_one_at_a_time(clock):
    reports = ProgressReports(clock, PHASES.get, Pace(per_second=0.5))
    for uid in JOBS:
        reports.add(uid, Progress(1))
    stored = [sum(store(reports, clock, uid) for uid in JOBS)]
    for _ in range(2):
        await clock.advance(2)
        stored.append(sum(store(reports, clock, uid) for uid in JOBS))

    assert stored == [1, 1, 1]


async def test_a_write_that_has_its_turn_keeps_it_until_it_is_done(reports, clock):
    """The executor collects what changes within half a second, and reconciles the job again."""
    reports.add("job-0", Progress(1))
    for _ in range(50):
        reports.of("job-0", clock.now())

    reports.add("job-1", Progress(1))
    assert store(reports, clock, "job-1")


async def test_the_next_write_of_a_job_needs_another_turn(clock):
    reports = ProgressReports(clock, PHASES.get, Pace(every=2, per_second=1))
    reports.add("job-0", Progress(1))
    assert store(reports, clock)

    await clock.advance(2)
    for uid in JOBS[1:2] + JOBS[:1]:
        reports.add(uid, Progress(2))
    assert [store(reports, clock, uid) for uid in ("job-1", "job-0")] == [True, False]


async def test_with_very_many_jobs_each_is_stored_less_often(clock):
    reports = ProgressReports(clock, PHASES.get, Pace(every=1, per_second=2))
    for uid in JOBS:
        reports.add(uid, Progress(1))
    reports.note_stored("job-0", Progress(1))

    assert reports.add("job-0", Progress(2)) == 50


async def test_how_long_the_rest_takes_is_worked_out_unless_the_program_says_it(reports, clock):
    for percentage in (10, 20, 20, 30, 40, 50):
        reports.add("job-0", Progress(percentage))
        await clock.advance(10)
    assert reports.of("job-0", clock.now()).latest.remaining == 62

    await clock.advance(50)
    reports.add("job-0", Progress(50))
    assert reports.of("job-0", clock.now()).latest.remaining == 62

    reports.add("job-0", Progress(60, remaining=7))
    assert reports.of("job-0", clock.now()).latest.remaining == 7
    reports.add("job-0", Progress(remaining=6))
    assert reports.of("job-0", clock.now()).latest.remaining == 6
    reports.add("job-0", Progress(1))
    assert reports.of("job-0", clock.now()).latest.remaining is None


async def test_what_was_stored_meanwhile_is_not_the_latest(reports, clock):
    reports.add("job-0", Progress(1))
    reports.add("job-0", Progress(2))
    reports.note_stored("job-0", Progress(1))

    assert reports.of("job-0", clock.now()).due == clock.now()


def test_nothing_is_kept_of_a_job_that_is_gone_nor_of_an_earlier_term(reports, clock):
    assert reports.add("gone", Progress(1)) is None
    reports.add("job-0", Progress(1))
    reports.add("job-1", Progress(1))
    reports.forget("job-0")
    assert (len(reports), reports.of("job-0", clock.now())) == (1, None)

    reports.begin_term()
    reports.note_stored("job-1", Progress(1))
    assert len(reports) == 0


async def test_a_report_that_is_not_due_says_when_it_will_be(reports, clock):
    reports.add("job-0", Progress(1))
    store(reports, clock)
    reports.add("job-0", Progress(2))

    assert reports.of("job-0", clock.now()).due == clock.now() + timedelta(seconds=30)
    await clock.advance(29.5)
    assert reports.of("job-0", clock.now()).due == clock.now() + timedelta(seconds=0.5)


CLOCK = ProgressClock(has_reported=True)
DEADLINE = 600


def hearing(reports, clock, uid="job-0", stored=CLOCK):
    return reports.hearing(uid, clock.now(), DEADLINE, stored)


def seconds_since(moment, clock):
    return (clock.now() - moment).total_seconds()


async def test_a_new_leader_has_heard_nothing_before_its_term(reports, clock):
    reports.add("job-0", Progress(1))
    await clock.advance(50)
    reports.begin_term()
    await clock.advance(5)

    heard = hearing(reports, clock)
    assert (seconds_since(heard.since, clock), heard.moved, heard.is_doubtful) == (5, None, True)


async def test_what_is_known_of_a_silence_does_not_depend_on_the_wall_clock(reports, clock):
    reports.add("job-0", Progress(1))
    await clock.advance(5)
    clock.set_wall(clock.now() + timedelta(hours=1))

    assert seconds_since(hearing(reports, clock).moved, clock) == 5


async def test_a_report_that_repeats_the_one_before_is_no_progress(reports, clock):
    reports.add("job-0", Progress(1))
    await clock.advance(5)
    reports.add("job-0", Progress(1))
    reports.add("job-1", Progress(2), Progress(2))
    reports.add("job-2", Progress(2), Progress(1))

    moved = [hearing(reports, clock, uid).moved for uid in JOBS[:3]]
    assert [moment and seconds_since(moment, clock) for moment in moved] == [5, None, 0]


@pytest.mark.parametrize("seconds_before", [0, 5])
async def test_the_first_report_of_a_program_that_was_started_again_is_progress(reports, clock, seconds_before):
    reports.add("job-0", Progress(1))
    await clock.advance(seconds_before)
    begun = ProgressClock(running_since=clock.now())
    hearing(reports, clock, stored=begun)
    for seconds in (0, 5):
        await clock.advance(5)
        reports.add("job-0", Progress(1))
        assert seconds_since(hearing(reports, clock, stored=begun).moved, clock) == seconds


@pytest.mark.parametrize(
    ("silent", "heard", "is_doubtful"),
    [(0, 0, False), (0, 1, False), (1, 0, True), (1, 1, True), (1, 2, False), (2, 2, True), (2, 3, False)],
)
async def test_who_falls_silent_with_more_than_half_of_all_may_be_heard_by_nobody(
    reports, clock, silent, heard, is_doubtful
):
    """Beside the job itself so many fell silent within ten minutes before or after it, and so many are heard."""
    others = JOBS[1 : 1 + silent + heard]
    for uid in others:
        reports.add(uid, Progress(1))
    await clock.advance(300)
    reports.add("job-0", Progress(1))
    for second in range(0, DEADLINE, 10):
        for uid in others[silent:]:
            reports.add(uid, Progress(1, step=second))
        await clock.advance(10)

    assert hearing(reports, clock).is_doubtful is is_doubtful


@pytest.mark.parametrize(
    ("heard", "in_other_namespaces", "is_doubtful"),
    [(2, 0, False), (1, 0, False), (0, 2, False), (0, 1, True), (0, 0, True)],
    ids=["others of its namespace", "one of its namespace", "others of other namespaces", "too few", "nobody"],
)
async def test_the_silence_of_one_tenant_hides_no_hang_of_another(
    reports, clock, heard, in_other_namespaces, is_doubtful
):
    """In another namespace fifty jobs fall silent with this one; so many in its own, and in further ones, are heard."""
    for uid in JOBS[50:]:
        reports.add(uid, Progress(1), namespace="noisy")
    reports.add("job-0", Progress(1), namespace="team")
    for second in range(0, DEADLINE, 10):
        for number in range(1, 1 + heard + in_other_namespaces):
            namespace = "team" if number <= heard else f"other-{number}"
            reports.add(f"job-{number}", Progress(1, step=second), namespace=namespace)
        await clock.advance(10)

    assert hearing(reports, clock).is_doubtful is is_doubtful


async def test_who_falls_silent_with_its_namespace_may_be_cut_off_with_it(reports, clock):
    for uid in JOBS[:2]:
        reports.add(uid, Progress(1), namespace="team")
    for second in range(0, DEADLINE, 10):
        for uid in JOBS[2:]:
            reports.add(uid, Progress(1, step=second), namespace=uid)
        await clock.advance(10)

    assert hearing(reports, clock).is_doubtful


async def test_however_many_jobs_are_silent_all_are_compared_once_in_a_second(clock):
    phases = Mock(side_effect=PHASES.get)
    reports = ProgressReports(clock, phases)
    for uid in JOBS:
        reports.add(uid, Progress(1))
    await clock.advance(DEADLINE)
    phases.reset_mock()

    assert all(hearing(reports, clock, uid).is_doubtful for uid in JOBS)
    assert phases.call_count == len(JOBS)


async def test_a_picture_of_all_programs_is_older_than_a_second_at_most(reports, clock):
    for uid in JOBS[:3]:
        reports.add(uid, Progress(1))
    await clock.advance(DEADLINE)
    assert hearing(reports, clock).is_doubtful
    for uid in JOBS[1:3]:
        reports.add(uid, Progress(2))

    await clock.advance(0.9)
    assert hearing(reports, clock).is_doubtful
    await clock.advance(0.1)
    assert not hearing(reports, clock).is_doubtful


@pytest.mark.parametrize("phase", ["Restarting", "Suspended", "Queued", "Succeeded", None])
async def test_jobs_that_do_not_run_now_have_reason_to_be_silent(clock, phase):
    phases = dict(PHASES)
    reports = ProgressReports(clock, phases.get)
    for uid in JOBS[:3]:
        reports.add(uid, Progress(1))
    await clock.advance(DEADLINE)
    assert hearing(reports, clock).is_doubtful

    phases.update(dict.fromkeys(JOBS[1:], phase))
    await clock.advance(1)
    assert not hearing(reports, clock).is_doubtful


@pytest.mark.parametrize(("seconds", "is_doubtful"), [(600, True), (600.1, False)])
async def test_jobs_that_were_silent_ten_minutes_before_are_not_compared(reports, clock, seconds, is_doubtful):
    for uid in JOBS[1:3]:
        reports.add(uid, Progress(1))
    await clock.advance(seconds)
    reports.add("job-0", Progress(1))
    await clock.advance(DEADLINE)

    assert hearing(reports, clock).is_doubtful is is_doubtful


async def test_the_end_of_a_long_silence_is_seen_at_once_and_stored_in_time(reports, clock):
    reports.add("job-0", Progress(1, step=1))
    store(reports, clock)
    await clock.advance(60)

    assert reports.add("job-0", Progress(1, step=2)) == 0
    assert reports.of("job-0", clock.now()).due == clock.now() + timedelta(seconds=240)
