"""Whether the program of a job hangs: it has reported how far it is, and makes no progress for longer than it may.

The clock runs while all replicas do, and begins again whenever one had to be waited for, or was restarted: a program
that waits for others does not hang. It counts only the time for which this process could have heard a report, so a new
leader is late, and never too early. A program that has not reported since it was started does not hang, either.

A hang is only told where reports may be lost: what the listener, or the network, does to many jobs must restart none.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from msgspec import structs

from tf_operator.job.progress import MOST_REMAINING, NO_CLOCK, NOWHERE, HangAction, ProgressClock
from tf_operator.job.record import ENDS, JobPhase, JobRecord, ReplicaType
from tf_operator.job.training_job import TrainingJob
from tf_operator.planning import in_place, whole_job
from tf_operator.planning.pods import pod_state
from tf_operator.planning.pods.pod_state import PodState
from tf_operator.planning.replicas import Replica, ReplicaLoss
from tf_operator.planning.snapshot import Hearing, Snapshot

Place = tuple[ReplicaType, int]
Groups = dict[ReplicaType, tuple[Replica, ...]]

REASON: Final = "Hung"
"""Of a first failure."""
_LOOKED_AT_EVERY: Final = timedelta(seconds=30)
"""A hang of which it is doubtful whether it is one."""


class Hang(NamedTuple):
    """Where the clock of a job stands, and what follows."""

    clock: ProgressClock = NO_CLOCK
    """As it is from now on, if the job goes on."""
    action: HangAction | None = None
    """What is to be done now."""
    text: str = ""
    """For messages: for how long there has been no progress, and where the program is. Always the same of one hang."""
    look_at: datetime | None = None
    """When the clock may be over."""


NO_HANG: Final = Hang()


def judge(
    snapshot: Snapshot, hearing: Hearing, replicas: Sequence[Replica], restarted_places: Collection[Place]
) -> Hang:
    """Look at the clock. ``restarted_places``: where containers were started again, which is not recorded yet."""
    job, old = snapshot.job, snapshot.job.record.progress_clock
    reporter = next((replica for replica in replicas if _place(replica) == job.main_replica), None)
    is_same_run = reporter is not None and _runs(job, reporter) and job.main_replica not in restarted_places
    moved_at, ran_since = hearing.moved, snapshot.noted(old.running_since)
    is_heard = moved_at is not None and ran_since is not None and moved_at > ran_since
    has_reported = is_same_run and (old.has_reported or is_heard)
    is_idle = job.run_policy.is_suspended or snapshot.hold is not None
    if is_idle or not is_same_run or not all(_runs(job, replica) for replica in replicas):
        return Hang(ProgressClock(None, has_reported, last_hang=old.last_hang))
    since = (None if restarted_places else ran_since) or _whole(snapshot.now)
    deadline = _deadline(job)
    if not has_reported:
        # Its first report is looked for from time to time: it may wake nobody up.
        waits = (snapshot.now - since) // deadline + 1
        return Hang(ProgressClock(since, last_hang=old.last_hang), look_at=since + waits * deadline)
    end = max(since, hearing.since, moved_at or since) + deadline
    is_over = end <= snapshot.now
    was_hung = old.is_hung and moved_at is None and since == old.running_since
    clock = ProgressClock(since, has_reported=True, is_hung=is_over or was_hung, last_hang=old.last_hang)
    return _hang(snapshot, clock, end) if clock.is_hung else Hang(clock, look_at=end)


def has_deadline(snapshot: Snapshot) -> bool:
    """Whether the program may hang: it has a deadline for progress, and can report."""
    job = snapshot.job
    is_heard = job.profile.takes_reports and snapshot.settings.progress is not None
    return is_heard and job.run_policy.progress.deadline_seconds is not None


def lost(groups: Mapping[ReplicaType, tuple[Replica, ...]], hang: Hang, job: TrainingJob) -> Groups:
    """The replicas, of which the one that reports is lost, if it is to be restarted."""
    if hang.action is not HangAction.RESTART:
        return dict(groups)
    return {
        kind: tuple(
            _with_hang_loss(replica, hang) if _place(replica) == job.main_replica else replica for replica in group
        )
        for kind, group in groups.items()
    }


def _with_hang_loss(replica: Replica, hang: Hang) -> Replica:
    loss = ReplicaLoss(*_place(replica), replica.name, PodState.FAILED, replica.pod, hang=hang.text)
    return structs.replace(replica, outcome=PodState.FAILED, loss=loss)


def note(hang: Hang) -> str:
    """What to say beside the current state."""
    return f" {hang.text[0].upper()}{hang.text[1:]}." if hang.clock.is_hung else ""


def at_start(hang: Hang) -> ProgressClock:
    """The clock of a job whose replicas all start again now."""
    return ProgressClock(last_hang=hang.clock.last_hang)


def while_idle(record: JobRecord, phase: JobPhase) -> ProgressClock:
    """The clock of a job that has ended, or has no pods now."""
    return NO_CLOCK if phase in ENDS else ProgressClock(last_hang=record.progress_clock.last_hang)


def _hang(snapshot: Snapshot, clock: ProgressClock, end: datetime) -> Hang:
    job, now = snapshot.job, snapshot.now
    latest = snapshot.reported.latest if snapshot.reported else job.record.progress
    position = latest.position if latest else NOWHERE
    text = f"no progress for more than {_duration(_deadline(job))}{f'; last: {position}' if position.is_known else ''}"
    action = job.run_policy.progress.action
    if end > now:
        return Hang(clock, text=text, look_at=end)
    if action is HangAction.REPORT:
        return Hang(clock, action, text)
    if snapshot.hearing is None or snapshot.hearing.is_doubtful:
        return Hang(clock, HangAction.REPORT, text, look_at=now + _LOOKED_AT_EVERY)
    if position.is_known and position == clock.last_hang:
        return Hang(clock, HangAction.FAIL, f"{text}, where it was restarted before")
    if action is HangAction.FAIL:
        return Hang(clock, action, text)
    return Hang(ProgressClock(last_hang=position), action, text)


def _runs(job: TrainingJob, replica: Replica) -> bool:
    """Whether nobody has to wait for it, nor for a container of it that is to be started again."""
    if replica.is_completed or replica.is_tolerated:
        return True
    pod = replica.pod
    if pod is None or replica.loss or not replica.is_running:
        return False
    is_of_run_before = whole_job.is_awaited(job, replica) or in_place.has_yet_to_join(job, pod)
    return not (is_of_run_before or pod_state.waits_for_restart(pod))


def _place(replica: Replica) -> Place:
    return replica.spec.type, replica.index


def _deadline(job: TrainingJob) -> timedelta:
    return timedelta(seconds=min(job.run_policy.progress.deadline_seconds or 0, MOST_REMAINING))


def _duration(time: timedelta) -> str:
    seconds = time // timedelta(seconds=1)
    return f"{seconds} s" if seconds % 60 else f"{seconds // 60} min"


def _whole(moment: datetime) -> datetime:
    """The next whole second: a status holds no fractions."""
    return moment + timedelta(microseconds=-moment.microsecond % 1_000_000)
