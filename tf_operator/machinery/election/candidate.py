"""What an elector knows of its Lease, and what it may do next. Pure: each answer makes a new value of the old one.

renewable ---- conflict ----> read ---> after_read ---> may_take: record, else rejected
    '--- written ---> after_write: the fence is open until term_end
"""

from datetime import datetime

import msgspec
from msgspec import structs

from tf_operator.machinery.election.lease import Lease, LeaseRecord, Observation


class Candidate(msgspec.Struct, frozen=True):
    """One that wants to hold the Lease, or holds it. ``now`` is always a moment on its own clock."""

    identity: str
    lease_duration: int
    renew_deadline: float
    observation: Observation | None = None
    """The Lease as it last was; also after it was deleted."""
    own: LeaseRecord | None = None
    """What was last confirmed as ours, as long as nothing contradicts it."""

    @property
    def renewable(self) -> Lease | None:
        """What to update without a read; ``None`` if it is not known to be there and ours."""
        lease = self.observation.lease if self.own and self.observation else None
        return lease if lease and lease.version else None

    def after_read(self, lease: Lease | None, now: float) -> "Candidate":
        """What is known after a read. A deleted Lease is as it was last seen, but may have been renewed until now."""
        if lease is None:
            if self.observation is None:
                return self
            lease = Lease(self.observation.lease.record)
        observation = self.observation.followed_by(lease, now) if self.observation else Observation(lease, now)
        return structs.replace(self, observation=observation)

    def may_take(self, now: float) -> bool:
        """Whether the Lease, as it was read just now, is ours or free."""
        if self.observation is None:
            return True
        lease = self.observation.lease
        is_mine_or_nobodys = lease.record.holder in {"", self.identity}
        if self.own:
            # A term has no gaps: the number shows whether somebody else has held the Lease since.
            return is_mine_or_nobodys and lease.record.transitions == self.own.transitions
        return (is_mine_or_nobodys and bool(lease.version)) or now >= self.observation.expires_at(self.lease_duration)

    def rejected(self) -> "Candidate":
        """What is known after a read of a Lease that may not be taken."""
        return structs.replace(self, own=None)

    def record(self, wall_time: datetime) -> LeaseRecord:
        """What to write into the Lease to take or keep it."""
        previous = self.observation.lease.record if self.observation else LeaseRecord(self.identity)
        return previous.held(self.identity, seconds=self.lease_duration, now=wall_time)

    def after_write(self, lease: Lease, now: float) -> "Candidate":
        """What is known after a write that was confirmed."""
        return structs.replace(self.after_read(lease, now), own=lease.record)

    def term_end(self, sent_at: float) -> float:
        """Until when it may work, by a confirmed write: counted from before that was sent."""
        return sent_at + self.renew_deadline
