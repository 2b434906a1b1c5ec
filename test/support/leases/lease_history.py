"""No replica sends a write for jobs outside its own lease, judged by evidence that no replica can change.

The Lease's history in etcd says who held it, in an order that is total. The log of the fault proxy says who sent what
when, on one clock for all processes; what was written into the Lease ties the two together. A replica may start a
write from when it sent a renewal that was acknowledged to it, for the renew deadline; not after it has released the
Lease, and not after another holder is in the history. What was sent in time may arrive a moment later, never much.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from support.disturbances.fault_proxy.request import Call
from support.history import History, Revision
from support.resources import Json

IN_FLIGHT = 1.0
"""How long a request may take from its sender to the log of the proxy, on a machine that is busy with tests."""
LEASE = "tf-operator"
"""The name of the Lease that replicas contend for."""
LEASES = "leases.coordination.k8s.io"
_JOB = {"pods", "services", "tfjobs"}
_WRITES = {"create", "update", "patch", "delete"}


@dataclass(frozen=True, slots=True)
class Tenure:
    """One write of the Lease: who made it the Lease of whom, and when that was sent and answered."""

    holder: str
    """Empty: released."""
    writer: str
    sent_at: float
    answered_at: float
    is_acknowledged: bool


@dataclass(frozen=True, slots=True)
class LeaseHistory:
    """All that is known of one Lease, and of the work that was done under it."""

    tenures: tuple[Tenure, ...]
    work: tuple[Call, ...]
    """The writes of the job, in the order in which the proxy read them."""
    renew_deadline: float

    @classmethod
    def of(cls, history: History, calls: Sequence[Call], *, namespace: str, renew_deadline: float) -> "LeaseHistory":
        """Bring the two together; AssertionError when a replica has written past the proxy."""
        here = [call for call in calls if call.namespace == namespace and call.verb in _WRITES]
        _assert_complete(history, here, namespace)
        renewals = {_signature(call.document): call for call in here if call.resource == "leases"}
        tenures = [
            _tenure(entry, renewals[_signature(entry.body)])
            for entry in history.of(LEASES, namespace, LEASE)
            if _signature(entry.body) in renewals
        ]
        return cls(tuple(tenures), tuple(filter(is_work, here)), renew_deadline)

    def strays(self) -> list[str]:
        """Every write of the job that its sender was not allowed to start, and why not."""
        return [f"{call} at {call.at:.3f}: {objection}" for call in self.work if (objection := self._objection(call))]

    def _objection(self, call: Call) -> str:
        mine = [tenure for tenure in self.tenures if tenure.writer == call.client and tenure.sent_at <= call.at]
        tenures = [tenure for tenure in mine if tenure.holder == call.client and tenure.is_acknowledged]
        if not tenures:
            return "it had never held the Lease"
        age = call.at - tenures[-1].sent_at
        if age > self.renew_deadline + IN_FLIGHT:
            return f"its last acknowledged renewal was sent {age:.3f} s before"
        if not mine[-1].holder:
            return f"it had released the Lease {call.at - mine[-1].sent_at:.3f} s before"
        later = self.tenures[self.tenures.index(tenures[-1]) + 1 :]
        others = [tenure for tenure in later if tenure.holder not in {"", call.client}]
        if others and call.at > others[0].answered_at + IN_FLIGHT:
            return f"{others[0].holder} had held the Lease for {call.at - others[0].answered_at:.3f} s"
        return ""


def is_work(call: Call) -> bool:
    """Whether this request is a write of the job, which only the holder of the Lease may start."""
    return call.verb in _WRITES and call.resource in _JOB


def _signature(lease: Json | None) -> tuple[object, ...]:
    """What tells the writes of a Lease apart: they differ in their microsecond at least."""
    spec = (lease or {}).get("spec") or {}
    return tuple(spec.get(name) for name in ("holderIdentity", "renewTime", "acquireTime", "leaseTransitions"))


def _tenure(entry: Revision, call: Call) -> Tenure:
    spec = entry.last_body.get("spec", {})
    answered = call.ended_at if call.ended_at is not None else float("inf")
    is_acknowledged = call.code in {200, 201} and call.ending in {"clean", ""}
    return Tenure(_name(spec.get("holderIdentity")), call.client, call.at, answered, is_acknowledged)


def _name(identity: str | None) -> str:
    """Whose identity it is: the name of its pod, which is that of its entrance to the proxy, too."""
    return (identity or "").partition("_")[0]


def _assert_complete(history: History, calls: Sequence[Call], namespace: str) -> None:
    """The log knows every pod that was created, and every renewal is by the very replica that it names."""
    names = {call.name for call in calls if call.verb == "create" and call.resource == "pods"}
    for entry in history.of("pods", namespace):
        assert entry.place.name in names, f"{entry.place} was created past the proxy"
    for call in calls:
        if call.resource == "leases":
            holder = _name((call.document or {}).get("spec", {}).get("holderIdentity"))
            assert holder in {"", call.client}, f"{call} says that the Lease is {holder}'s"
