"""The accounts of replicas in trouble: every failure counts once, and is written down before its pod goes.

``settled`` takes the losses and the restarts in place of one view into a status. The status is stored first, with
the UIDs, and guarded by its version; then the pods are deleted. A crash in between changes nothing: the next pass
finds the UID written down, and only deletes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from tf_operator.api.ranges import Indexes
from tf_operator.api.status import Account, JobStatus, ReplicaStatus, ReplicaType
from tf_operator.planning import observed, replicas
from tf_operator.planning.observed import Observed, Settings
from tf_operator.planning.outcome import Outcome
from tf_operator.planning.replicas import Loss, Slot, View


@dataclass(frozen=True, slots=True)
class Totals:
    """How often the job was restarted: up to now, and with what this view shows."""

    before: int
    in_place: int
    """New restarts by the kubelet."""
    failures: int
    """Pods that failed and would be replaced."""


def totals(view: View) -> Totals:
    """Count restarts, without deciding anything."""
    status = view.seen.job.status
    return Totals(
        before=sum(found.restarts for found in status.replicas.values()),
        in_place=sum(more for _, _, more in replicas.restarts_in_place(view.slots)),
        failures=sum(loss.outcome is Outcome.FAILED for loss in view.losses),
    )


def settled(view: View, status: JobStatus, *, goes_on: bool) -> JobStatus:
    """The status with every restart of this view in it.

    The pods that failed are given up only when the job goes on: the failure that ends a job is no restart.
    """
    books = _Books(view, status)
    for slot, pod, more in replicas.restarts_in_place(view.slots):
        books.count(slot.spec.type, more)
        books.note(slot, uid=pod.uid, counted=pod.restarts)
    for slot in view.slots if goes_on else ():
        if slot.loss and not slot.loss.is_for_good:
            books.give_up(slot.loss)
    return books.closed()


def creation_time(account: Account | None, settings: Settings, *, now: datetime) -> datetime | None:
    """When the next pod of a replica may be made; ``None`` for at once."""
    if account is None or not account.is_over or account.at is None or not account.attempts:
        return None
    if observed.is_ahead(account.at, now):
        return None
    delay: timedelta = settings.restart_delay * 2.0 ** min(account.attempts - 1, 30)
    try:
        return account.at + min(delay, settings.longest_restart_delay)
    except OverflowError:
        return None  # past the end of the calendar: nobody has written that in earnest


class _Books:
    """The counts and accounts of a status while they are being brought up to date."""

    def __init__(self, view: View, status: JobStatus) -> None:
        self._seen: Observed = view.seen
        self._status = status
        self._counts: dict[ReplicaType, ReplicaStatus] = dict(status.replicas)
        self._accounts = {(entry.type, entry.index): entry for entry in status.accounts}
        self._disruptions = status.disruptions

    def count(self, kind: ReplicaType, more: int) -> None:
        found = self._counts.get(kind, ReplicaStatus())
        self._counts[kind] = replace(found, restarts=found.restarts + more)

    def note(self, slot: Slot, *, uid: str, counted: int) -> None:
        """Remember how many restarts in place of this pod are counted."""
        key = (slot.spec.type, slot.index)
        known = self._accounts.get(key) or Account(*key, uid)
        self._accounts[key] = replace(known, uid=uid, counted=counted, is_over=known.is_over and known.uid == uid)

    def give_up(self, loss: Loss) -> None:
        """Count a loss, and let its pod be replaced."""
        key = (loss.type, loss.index)
        known = self._accounts.get(key)
        attempts = 0 if known is None or replicas.ran_for_long(loss.pod, self._seen) else known.attempts
        uid, counted = (loss.pod.uid, loss.pod.restarts) if loss.pod else ("", 0)
        self._accounts[key] = Account(
            *key, uid, counted, is_over=True, attempts=attempts + 1, at=_whole(self._seen.now)
        )
        if loss.outcome is Outcome.DISRUPTED:
            self._disruptions += 1
        else:
            self.count(loss.type, 1)
        found = self._counts.get(loss.type, ReplicaStatus())
        self._counts[loss.type] = replace(found, started=found.started - Indexes.of([loss.index]))

    def closed(self) -> JobStatus:
        return self._status.changed(
            replicas=_in_order(self._counts),
            restarts=sum(found.restarts for found in self._counts.values()),
            disruptions=self._disruptions,
            accounts=tuple(self._accounts[key] for key in sorted(self._accounts, key=_place)),
        )


def _whole(moment: datetime) -> datetime:
    """The next whole second: a status holds no fractions, and no delay is to be shorter than it was said to be."""
    return moment + timedelta(microseconds=-moment.microsecond % 1_000_000)


def _in_order(counts: Mapping[ReplicaType, ReplicaStatus]) -> dict[ReplicaType, ReplicaStatus]:
    return {kind: counts[kind] for kind in ReplicaType if kind in counts}


def _place(key: tuple[ReplicaType, int]) -> tuple[int, int]:
    return list(ReplicaType).index(key[0]), key[1]
