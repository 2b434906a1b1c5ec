"""What is reported of a job that makes no progress: the pending record, its sentence, and when it is next due.

A rejected create is reported at once, a pod that stays Pending or terminating after a while (``stuck_pods`` finds
them). Kubelets change their wording from minute to minute; what was reported of a pod stays in the record for as long
as that pod waits in the same stage, so a job that is stuck is quiet.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

from tf_operator.job import naming
from tf_operator.job.record import PendingKind, PendingRecord, ReplicaType
from tf_operator.planning import spec_problems
from tf_operator.planning.bodies import gang
from tf_operator.planning.child_kinds import life
from tf_operator.planning.job_view import JobView
from tf_operator.planning.pods import absences
from tf_operator.planning.pods.stuck_pods import StuckPod
from tf_operator.planning.snapshot import Pod, Settings
from tf_operator.text import one_line

_MOST_NAME = 63


def note(view: JobView, record: PendingRecord | None) -> str:
    """What to say beside the current state: the record, or what the job waits for."""
    remarks = "".join(f" {remark}" for remark in (spec_problems.remark(view), absences.remark(view)) if remark)
    return f"{remarks} {sentence(record, view)}" if record else remarks + _note(view)


def _note(view: JobView) -> str:
    if problems := spec_problems.tolerated(view):
        return f" Its spec is invalid, and it continues as under training-operator 1.9: {spec_problems.text(problems)}."
    if not view.replicas:
        return " It has no replicas: nothing runs until there are some."
    if view.is_held and any(replica.needs_pod for replica in view.replicas):
        return f" No pod is created before {life.awaited(view.snapshot) or gang.awaited(view.snapshot)}."
    if missing := view.snapshot.without_room:
        return f" {_more(missing)} for room in the queue."
    if scheduler := gang.unavailable(view.snapshot):
        return f" {unavailable(scheduler, view.snapshot.settings)}"
    return ""


def _more(missing: Mapping[ReplicaType, int]) -> str:
    words = {ReplicaType.WORKER: "worker", ReplicaType.PS: "parameter server"}
    counts = (f"{number} more {words[kind]}{'s' * (number > 1)}" for kind, number in missing.items())
    return f"{' and '.join(counts)} {'waits' if sum(missing.values()) == 1 else 'wait'}"


def unavailable(scheduler: str, settings: Settings) -> str:
    """That the job is placed by another scheduler than it asks for."""
    instead = settings.gang_scheduler or "the scheduler of the template"
    others = "" if settings.gang_scheduler else ", or the default one"
    return f"{scheduler[:_MOST_NAME]} is not installed: {instead} places the pods{others}."


def sentence(record: PendingRecord, view: JobView) -> str:
    """The record in words. They do not change with the time, so that a job that is stuck is quiet."""
    if record.kind is PendingKind.REJECTED:
        return f"{record.subject} was rejected: {record.reason}".rstrip()
    reason = record.reason
    if record.kind is PendingKind.STARTING:
        reason = f"{reason} for more than {view.snapshot.settings.report_starting_after // timedelta(minutes=1)} min"
    if record.kind is PendingKind.TERMINATING:
        reason = "its last pod was deleted, and is still there; its node may be lost, or a finalizer holds it"
    job = view.snapshot.job
    place = naming.replica_of(job.key.name, record.subject, job.profile.names)
    replica = f"{place[0].label}-{place[1]}" if place else record.subject
    return f"{replica} (pod {record.subject}) waits: {reason}".rstrip()


def next_record(view: JobView) -> PendingRecord | None:
    """What holds the job up now; ``None`` when nothing does, or not for long enough."""
    rejection = view.snapshot.rejected
    if rejection is not None:
        return PendingRecord(PendingKind.REJECTED, rejection.subject, one_line(rejection.message))
    if previous := _reported_before(view):
        return previous
    stuck = next((stuck for stuck in view.stuck if stuck.reported_at <= view.snapshot.now), None)
    return _record(stuck, view.snapshot.warnings.get(stuck.pod.uid, "")) if stuck else None


def unexplained(view: JobView) -> tuple[Pod, ...]:
    """The pod whose start is to be reported to take long, and of which nobody has asked yet what was said about it."""
    snapshot = view.snapshot
    if snapshot.rejected is not None or _reported_before(view):
        return ()
    stuck_pod = next((stuck_pod for stuck_pod in view.stuck if stuck_pod.reported_at <= snapshot.now), None)
    is_unknown = (
        stuck_pod is not None and stuck_pod.kind is PendingKind.STARTING and stuck_pod.pod.uid not in snapshot.warnings
    )
    return (stuck_pod.pod,) if stuck_pod and is_unknown else ()


def wake_ups(view: JobView) -> Iterator[datetime]:
    """When a replica that waits now will have waited for long enough to be reported; one is reported at a time."""
    return (stuck_pod.reported_at for stuck_pod in view.stuck if stuck_pod.reported_at > view.snapshot.now)


def _record(stuck_pod: StuckPod, warning: str) -> PendingRecord:
    reason = "" if stuck_pod.kind is PendingKind.TERMINATING else one_line(stuck_pod.pod.pending_reason)
    cause = f" ({one_line(warning)})" if warning and stuck_pod.kind is PendingKind.STARTING else ""
    return PendingRecord(stuck_pod.kind, stuck_pod.pod.name, reason + cause, stuck_pod.pod.uid, _whole(stuck_pod.since))


def _reported_before(view: JobView) -> PendingRecord | None:
    """What is reported already of a pod that still waits in the same stage, whatever its kubelet says now."""
    previous = view.snapshot.job.record.pending
    for replica in view.replicas if previous else ():
        pod, start = replica.pod, replica.waits_since
        if previous and pod and start and (pod.uid, _whole(start)) == (previous.uid, previous.start_time):
            # The kubelet's own words say more than how long it takes.
            has_words = bool(pod.pending_reason) and not pod.is_starting
            return None if has_words and previous.kind is PendingKind.STARTING else previous
    return None


def _whole(moment: datetime) -> datetime:
    """As a status holds it: without fractions of a second."""
    return moment.replace(microsecond=0)
