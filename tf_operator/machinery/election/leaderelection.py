"""Leader election by Lease: of all replicas of a program, one works.

    candidate --- confirmed as holder ---> leader --- LossReason ---> the end of the term
        ^  '--- held by somebody else ---'   '--- renewal confirmed ---'

``LeaderElector.serve`` is one term from candidacy to its end. The holder renews its Lease every retry period; a
candidate who has seen no renewal for the lease duration takes over. Only one can win, because every write carries
the resourceVersion of what was read. ``fence`` is what keeps a leader from working past its term; ``election_thread``
runs all this beside an event loop that may be busy.

The protocol, the fields and the defaults (15 s, 10 s, 2 s) are client-go's, so that both can contend for one Lease.
Different from client-go on purpose:

- The term is fenced, and counts from before the last confirmed renewal was sent, not from after it.
- A candidate who has seen the Lease waits for a lease duration when it is deleted: somebody may have held it meanwhile.
- A candidate looks again in the moment in which the Lease runs out, and waits at most 1.2 retry periods between two
  looks: client-go waits up to 2.2, twice in each take-over.
- Every write to the Lease counts as a sign of life of its holder, even one that leaves the spec as it was.
- A lease duration that cannot have been configured is not believed, nor one shorter than ours.
- The leader renews only as long as the work that it leads for is alive (``heartbeat``).
"""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum, auto

from tf_operator.machinery.clock import Clock
from tf_operator.machinery.election.candidate import Candidate
from tf_operator.machinery.election.fence import Fence
from tf_operator.machinery.election.heartbeat import Heartbeat
from tf_operator.machinery.election.lease import LONGEST_LEASE, Lease, Lock
from tf_operator.machinery.log import Logger
from tf_operator.machinery.metrics_hooks import ElectionInstruments
from tf_operator.machinery.transport import errors

JITTER = 1.2
"""The longest wait between two tries, in retry periods; the shortest is one."""
_AFTER = 0.01
"""To check a Lease in the very instant in which it runs out may be too early by a rounding error."""

_log = Logger(__name__)


@dataclass(frozen=True, slots=True)
class ElectionConfig:
    """The three durations; ``ValueError`` when they do not work together."""

    lease_duration: int = 15
    """Whole seconds, as in the Lease: after so long a silence others take over."""
    renew_deadline: float = 10.0
    """After so long without a confirmed renewal the leader stops by itself. The difference is the safety margin."""
    retry_period: float = 2.0

    def __post_init__(self) -> None:
        if not 1 <= self.lease_duration <= LONGEST_LEASE:
            raise ValueError(f"the lease duration must be 1 to {LONGEST_LEASE} s, not {self.lease_duration} s")
        if self.lease_duration <= self.renew_deadline:
            raise ValueError(
                f"the lease duration ({self.lease_duration} s) must be longer than the renew deadline "
                f"({self.renew_deadline:g} s): otherwise a leader still works when another one takes over"
            )
        if not self.renew_deadline > JITTER * self.retry_period > 0:
            raise ValueError(
                f"the renew deadline ({self.renew_deadline:g} s) must be longer than {JITTER:g} retry periods "
                f"({self.retry_period:g} s): otherwise the first renewal already comes too late"
            )

    @property
    def try_within(self) -> float:
        """How long one try may take: short enough for a second one, on a fresh connection, before the deadline."""
        return self.renew_deadline / 2

    @property
    def longest_stall(self) -> float:
        """The age of a heartbeat at which work counts as stuck. A dead leader keeps the Lease for as long."""
        return self.lease_duration


class LossReason(StrEnum):
    """Why a term has ended, apart from being resigned."""

    DEADLINE = "no renewal was confirmed within the renew deadline"
    TAKEN = "the Lease is somebody else's, or was in the meantime"
    STALLED = "the work was stuck, so the Lease was no longer renewed"


class AcquireResult(StrEnum):
    """What a try to get or keep the Lease ended in."""

    OURS = auto()
    THEIRS = auto()
    NONE = auto()


class LeaderElector:
    """One candidate, in one event loop. Its instruments are called there, too."""

    def __init__(
        self,
        lock: Lock,
        *,
        identity: str,
        clock: Clock,
        fence: Fence,
        heartbeat: Heartbeat,
        config: ElectionConfig | None = None,
        instruments: ElectionInstruments | None = None,
        chance: Callable[[], float] = random.random,
        on_observed: Callable[[Lease], object] = lambda _: None,
    ) -> None:
        """``identity`` is for this process only: see ``election_thread.make_identity``.

        ``on_observed`` gets the Lease as it was read or written last.
        """
        if not identity:
            raise ValueError("the identity must not be empty")
        self._lock = lock
        self._identity = identity
        self._clock = clock
        self._fence = fence
        self._heartbeat = heartbeat
        self._config = config or ElectionConfig()
        self._instruments = instruments or ElectionInstruments()
        self._chance = chance
        self._on_observed = on_observed
        self._candidate = Candidate(identity, self._config.lease_duration, self._config.renew_deadline)
        self._may_be_ours = False
        """Whether a write was ever sent: its outcome may be unknown."""
        self._leader = ""
        self._complaint = ""
        self._log = _log.bind(identity=identity)

    async def serve(self, on_leading: Callable[[], object]) -> LossReason:
        """Wait until this process leads, call ``on_leading``, and return when it no longer does, and why.

        Cancel it to resign: the Lease is then released, within a time limit, so that somebody else can take over at
        once; the work must have ended before. However a term ends, its fence is closed first.
        """
        try:
            await self._campaign()
            self._instruments.leading(is_leader=True)
            self._log.info("this process leads")
            on_leading()
            return await self._hold()
        except asyncio.CancelledError:
            self._fence.close()
            await self._release()
            raise
        finally:
            self._fence.close()
            self._instruments.leading(is_leader=False)

    async def _campaign(self) -> None:
        while True:
            next_try = self._time_of_next_try()
            is_ours = not self._is_stalled() and await self._try(self._config.try_within) is AcquireResult.OURS
            if is_ours and self._fence.is_open:
                return
            await self._clock.sleep(self._time_to_look(next_try) - self._clock.monotonic())

    async def _hold(self) -> LossReason:
        next_try = self._time_of_next_try()
        while True:
            # A timer for the deadline, so that the end is noticed on time; the fence needs none.
            await self._clock.sleep(min(next_try - self._clock.monotonic(), self._fence.remaining()))
            if not self._fence.is_open:
                return LossReason.DEADLINE
            if self._is_stalled():
                # Not released: it is not known whether the work has ended. It runs out, as if we were dead.
                return LossReason.STALLED
            next_try = self._time_of_next_try()
            if await self._try(min(self._config.try_within, self._fence.remaining())) is AcquireResult.THEIRS:
                return LossReason.TAKEN

    def _time_of_next_try(self) -> float:
        """Counted from the beginning of this one: a try that hung is followed by another at once."""
        return self._clock.monotonic() + self._config.retry_period * (1 + (JITTER - 1) * self._chance())

    def _time_to_look(self, next_try: float) -> float:
        """A candidate does not miss the moment in which the Lease runs out."""
        if self._candidate.observation is None:
            return next_try
        expiry = self._candidate.observation.expires_at(self._config.lease_duration) + _AFTER
        return min(expiry, next_try) if expiry > self._clock.monotonic() else next_try

    def _is_stalled(self) -> bool:
        return self._heartbeat.age() > self._config.longest_stall

    async def _try(self, within: float) -> AcquireResult:
        """Try once to get or keep the Lease, however the apiserver behaves."""
        try:
            async with self._clock.timeout(within):
                answer = await self._get_or_keep()
        except (errors.ApiError, TimeoutError) as error:
            if self._complaint != (cause := type(error).__name__):  # not every two seconds of an outage
                self._log.warning("the Lease could not be read or written", cause=cause, error=str(error))
            self._complaint = cause
            self._instruments.attempted(cause)
            return AcquireResult.NONE
        self._complaint = ""
        self._instruments.attempted(answer)
        return answer

    async def _get_or_keep(self) -> AcquireResult:
        if lease := self._candidate.renewable:
            try:
                return await self._take(lease)
            except errors.Conflict:
                self._instruments.slow_path()
        lease = await self._lock.read()
        self._observe(self._candidate.after_read(lease, self._clock.monotonic()))
        if self._candidate.may_take(self._clock.monotonic()):
            return await self._take(lease)
        self._candidate = self._candidate.rejected()
        return AcquireResult.THEIRS

    async def _take(self, lease: Lease | None) -> AcquireResult:
        record = self._candidate.record(self._clock.now())
        self._may_be_ours = True
        sent_at = self._clock.monotonic()
        new_lease = await (self._lock.update(lease, record) if lease else self._lock.create(record))
        if new_lease.record.holder != self._identity:
            raise errors.Garbled(f"the Lease was written, and the reply says that {new_lease.record.holder!r} holds it")
        self._observe(self._candidate.after_write(new_lease, self._clock.monotonic()))
        self._fence.open_until(self._candidate.term_end(sent_at))
        return AcquireResult.OURS

    def _observe(self, candidate: Candidate) -> None:
        self._candidate = candidate
        if candidate.observation:
            self._on_observed(candidate.observation.lease)
        holder = candidate.observation.lease.record.holder if candidate.observation else ""
        if holder and holder != self._leader:
            self._log.info("the Lease is held", by=holder)
            if self._leader:
                self._instruments.transition()
            self._leader = holder

    async def _release(self) -> None:
        """Let the Lease go if it is ours, or may be: the outcome of the last write need not be known."""
        lease = self._candidate.renewable
        try:
            async with self._clock.timeout(self._config.try_within):
                while self._may_be_ours and not await self._is_released(lease):
                    lease = None  # it is not as we know it: read it
                    await self._clock.sleep(self._config.retry_period / 10)
        except TimeoutError:
            self._log.warning("the Lease could not be released; it will expire")

    async def _is_released(self, lease: Lease | None) -> bool:
        try:
            lease = lease or await self._lock.read()
            if lease and lease.record.holder == self._identity:
                await self._lock.update(lease, lease.record.released(self._clock.now()))
        except errors.ApiError:
            return False
        return True
