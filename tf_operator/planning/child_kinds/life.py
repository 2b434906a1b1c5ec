"""The life of a child that a job has beside its replicas, whatever its kind.

Absent: it is created. Made from another spec: changed. Not wanted any more: deleted. Refused: tried again later, and
what is invalid after an edit. Not served: reported. Training neither waits for it nor fails with it, unless its kind is
needed: then its creation comes before the first pod, and is refused as a Service may be.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

from tf_operator.job import naming
from tf_operator.job.report import ChildLine
from tf_operator.job.training_job import TrainingJob
from tf_operator.meta import Body, GroupVersionResource
from tf_operator.planning import rejections
from tf_operator.planning.actions import Action, Create, Delete, Patch, Stage
from tf_operator.planning.child_kinds.kind import DIGEST, ChildKind, digest
from tf_operator.planning.snapshot import Cause, ChildState, RejectedWrite, Snapshot
from tf_operator.text import LONGEST_MESSAGE, one_line


class _Child(NamedTuple):
    """How one is to be, and how it is."""

    kind: ChildKind
    spec: Body | None
    """``None``: it is not to be there."""
    state: ChildState
    snapshot: Snapshot

    @property
    def is_behind(self) -> bool:
        current = self.state.current
        return (current.digest if current else None) != (digest(self.spec) if self.spec is not None else None)

    @property
    def refusal(self) -> str:
        """Why it is not as it is to be; empty when it is, or is about to be."""
        rejection = self.state.rejected if self.is_behind else None
        return self.state.unserved or (one_line(rejection.message, most=LONGEST_MESSAGE) if rejection else "")

    @property
    def is_waiting(self) -> bool:
        """Whether it is too early to try again; what is invalid is tried again when the job has been edited."""
        rejection, job = self.state.rejected, self.snapshot.job
        if rejection is None or job.generation != job.record.observed_generation:
            return False
        return rejections.is_final(rejection) or rejections.is_waiting(rejection, self.snapshot.now)


def actions(snapshot: Snapshot, *, is_active: bool, has_ended: bool = False) -> Iterator[Action]:
    """Make the objects, bring their specs up to date, or delete them."""
    for child in _children(snapshot, is_active=is_active):
        state = child.state
        if state.is_known and not (state.unserved or (state.current and state.current.is_terminating)):
            yield from _actions(child, has_ended=has_ended)


def _actions(child: _Child, *, has_ended: bool) -> Iterator[Action]:
    resource, current = child.kind.resource, child.state.current
    subject = f"its {resource.kind}"
    if child.spec is None:
        if current and not rejections.is_waiting(child.state.rejected, child.snapshot.now):
            yield Delete(resource, current.name, current.uid, f"the deletion of {subject}", stage=Stage.EXTRAS)
    elif child.is_waiting or not child.is_behind:
        return
    elif current:
        change = {"metadata": _annotations(child.spec), "spec": _merge_patch(current.spec, child.spec)}
        yield Patch(resource, current.name, current.uid, f"the change of {subject}", change, Stage.EXTRAS)
    elif not (has_ended or child.kind.is_needed):
        yield _creation(child, child.spec, Stage.EXTRAS)


def creations(snapshot: Snapshot) -> Iterator[Create]:
    """The objects without which no pod may be made, as far as they are not there."""
    for child in _needed(snapshot):
        if child.spec is not None and child.state.current is None:
            yield _creation(child, child.spec, Stage.DEPENDENCIES)


def refusal(snapshot: Snapshot) -> RejectedWrite | None:
    """Why no pod may be made: an object that is needed cannot be."""
    for child in _needed(snapshot):
        if cause := child.state.unserved:
            subject, message = f"its {child.kind.resource.kind}", f"{cause}; no pod is created without it"
            return RejectedWrite(subject, message, snapshot.now, cause=Cause.UNAVAILABLE)
    return None


def awaited(snapshot: Snapshot) -> str:
    """What has to be before a pod may be made, of what is needed; empty when there is nothing to wait for."""
    for child in _needed(snapshot):
        kind, current = child.kind.resource.kind, child.state.current
        if not child.state.is_known:
            return f"it is known whether there is a {kind}"
        if current and current.is_terminating:
            return f"its old {kind} is gone"
    return ""


def _needed(snapshot: Snapshot) -> Iterator[_Child]:
    for kind, state in snapshot.extras.items():
        if kind.is_needed and (spec := kind.spec(snapshot.job)) is not None:
            yield _Child(kind, spec, state, snapshot)


def _creation(child: _Child, spec: Body, stage: Stage) -> Create:
    job, resource = child.snapshot.job, child.kind.resource
    subject, body = f"its {resource.kind}", partial(_body, job, spec)
    return Create(resource, job.key.name, subject, body, stage, is_watched=child.kind.is_needed)


def note(snapshot: Snapshot) -> str:
    """Why a job that runs lacks one, or has an old one: sentences that begin with a space."""
    return "".join(_note_on(child) for child in _children(snapshot, is_active=True) if child.kind.is_noted)


def _note_on(child: _Child) -> str:
    problem, kind = child.kind.problem(child.snapshot.job), child.kind.resource.kind
    is_said = child.kind.is_needed and child.state.current is None  # as what the job waits for
    cause = problem or (child.refusal if child.spec is not None and not is_said else "")
    subject = f"The {kind} is outdated" if child.state.current and not problem else f"There is no {kind}"
    return f" {subject}: {cause}" if cause else ""


def lines(snapshot: Snapshot, *, is_active: bool) -> Mapping[GroupVersionResource, ChildLine]:
    """How those stand that are wanted, or stay although they are not; of some nothing is known yet."""
    children = _children(snapshot, is_active=is_active)
    return {child.kind.resource: _line(child) for child in children if child.state.is_known and _is_reported(child)}


def _is_reported(child: _Child) -> bool:
    return child.spec is not None or (child.state.rejected is not None and child.is_behind)


def _line(child: _Child) -> ChildLine:
    current = child.state.current
    if current is None:
        return ChildLine(child.snapshot.job.key.name, refusal=child.refusal)
    return ChildLine(current.name, current.uid, current.status, child.refusal)


def moments(snapshot: Snapshot, *, is_active: bool, has_ended: bool = False) -> Iterator[datetime | None]:
    """When to try again, if nothing happens until then."""
    return (_retry_at(child, has_ended=has_ended) for child in _children(snapshot, is_active=is_active))


def _retry_at(child: _Child, *, has_ended: bool) -> datetime | None:
    state, now = child.state, child.snapshot.now
    may_come = child.spec is not None and (state.current is not None or not has_ended)
    is_undone = may_come or state.current is not None
    if not state.is_known:
        return now + rejections.UNSERVED if is_undone else None
    if state.unserved:
        return now + rejections.LONGEST if is_undone and not state.is_off else None
    if state.rejected is None or not child.is_behind:
        return None
    is_due = child.spec is None or (may_come and not rejections.is_final(state.rejected))
    return rejections.retry_at(state.rejected) if is_due else None


def _children(snapshot: Snapshot, *, is_active: bool) -> Iterator[_Child]:
    for kind, state in snapshot.extras.items():
        yield _Child(kind, kind.spec(snapshot.job) if is_active or not kind.is_for_active else None, state, snapshot)


def _merge_patch(current: Body, target: Body) -> dict[str, Any]:
    """``null`` for what is not wanted any more; what is there as a whole, because it may have fewer fields."""
    patch = {name: value for name, value in target.items() if current.get(name) != value}
    for name, value in patch.items():
        current_value = current.get(name)
        if isinstance(current_value, Mapping) and isinstance(value, Mapping):
            patch[name] = _merge_patch(current_value, value)
    return dict.fromkeys(sorted(current.keys() - target.keys())) | patch


def _annotations(spec: Body) -> dict[str, Any]:
    return {"annotations": {DIGEST: digest(spec)}}


def _body(job: TrainingJob, spec: Body) -> dict[str, Any]:
    metadata = naming.metadata(job, job.key.name, naming.job_labels(job)) | _annotations(spec)
    return {"metadata": metadata, "spec": dict(spec)}
