"""The TensorBoard object of a job: one of the same name, with the spec that the job says, until the job is deleted.

It is made when the job is first seen, also while it is suspended, and follows edits also after the end; after the end
none is created any more. Training does not wait for it, and does not fail with it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, Final

from tf_operator.job import naming
from tf_operator.job.tensorboard import RESOURCE, TensorBoardLine
from tf_operator.job.training_job import TrainingJob
from tf_operator.meta import Body
from tf_operator.planning import rejections, tensorboards
from tf_operator.planning.actions import Action, Create, Delete, Patch, Stage
from tf_operator.planning.snapshot import RejectedWrite, Snapshot, TensorBoards
from tf_operator.text import LONGEST_MESSAGE, one_line

WHAT: Final = "its TensorBoard"


def actions(snapshot: Snapshot, *, has_ended: bool = False) -> Iterator[Action]:
    """Make the object, bring its spec up to date, or delete it."""
    job, observed = snapshot.job, snapshot.tensorboards
    if observed is None or observed.unserved:
        return
    current, spec = observed.current, job.tensorboard_spec
    if current is None:
        if spec is not None and not has_ended and not _is_waiting(snapshot):
            body = partial(_body, job, spec)
            yield Create(RESOURCE, job.key.name, WHAT, body, Stage.EXTRAS, is_optional=True)
    elif current.is_terminating:
        return
    elif spec is None:
        if not rejections.is_waiting(observed.rejected, snapshot.now):
            subject = f"the deletion of {WHAT}"
            yield Delete(RESOURCE, current.name, current.uid, subject, stage=Stage.EXTRAS, is_optional=True)
    elif current.digest != tensorboards.digest(spec) and not _is_waiting(snapshot):
        # Not compared with its spec: its schema and its controller may drop fields, and add others.
        note = {"annotations": {tensorboards.DIGEST: tensorboards.digest(spec)}}
        change = {"metadata": note, "spec": _merge_patch(current.spec, spec)}
        yield Patch(
            RESOURCE, current.name, current.uid, f"the change of {WHAT}", change, Stage.EXTRAS, is_optional=True
        )


def line(snapshot: Snapshot) -> TensorBoardLine | None:
    """What is reported of it; ``None`` when nothing is known, or none is wanted and none stays."""
    job, observed, rejected = snapshot.job, snapshot.tensorboards, _last_rejection(snapshot)
    if observed is None or (job.tensorboard_spec is None and rejected is None):
        return None
    refusal = observed.unserved or (one_line(rejected.message, most=LONGEST_MESSAGE) if rejected else "")
    summary = TensorBoardLine(job.key.name, message=refusal, is_refused=bool(observed.unserved or rejected))
    if current := observed.current:
        return replace(
            summary, name=current.name, uid=current.uid, is_ready=current.is_ready, message=refusal or current.message
        )
    return summary


def retry_at(snapshot: Snapshot, *, has_ended: bool = False) -> datetime | None:
    """When to reconcile again, if nothing happens until then."""
    observed, rejected = snapshot.tensorboards, _last_rejection(snapshot)
    if rejected and (_is_there(observed) or not has_ended):
        return None if rejections.is_final(rejected) else rejections.retry_at(rejected)
    if snapshot.job.tensorboard_spec is None or has_ended:
        return None
    if observed is None:
        return snapshot.now + rejections.UNSERVED
    return snapshot.now + rejections.LONGEST if observed.unserved and not observed.is_off else None


def _last_rejection(snapshot: Snapshot) -> RejectedWrite | None:
    """What was refused last, unless the object is as the job wants it by now."""
    observed, spec = snapshot.tensorboards, snapshot.job.tensorboard_spec
    if observed is None or observed.rejected is None:
        return None
    digest = tensorboards.digest(spec) if spec is not None else None
    return None if digest == (observed.current.digest if observed.current else None) else observed.rejected


def _is_there(observed: TensorBoards | None) -> bool:
    return observed is not None and observed.current is not None


def _is_waiting(snapshot: Snapshot) -> bool:
    """Whether it is too early to try again; what is invalid is tried again when the job has been edited."""
    rejected = snapshot.tensorboards.rejected if snapshot.tensorboards else None
    if rejected is None or snapshot.job.generation != snapshot.job.record.observed_generation:
        return False
    return rejections.is_final(rejected) or rejections.is_waiting(rejected, snapshot.now)


def _merge_patch(current: Body, target: Body) -> dict[str, Any]:
    """``null`` for what is not wanted any more; what is there as a whole, because it may have fewer fields."""
    changed = {name: value for name, value in target.items() if current.get(name) != value}
    for name, value in changed.items():
        current_value = current.get(name)
        if isinstance(current_value, Mapping) and isinstance(value, Mapping):
            changed[name] = _merge_patch(current_value, value)
    return dict.fromkeys(sorted(current.keys() - target.keys())) | changed


def _body(job: TrainingJob, spec: Body) -> dict[str, Any]:
    note = {"annotations": {tensorboards.DIGEST: tensorboards.digest(spec)}}
    return {"metadata": naming.metadata(job, job.key.name, naming.job_labels(job)) | note, "spec": dict(spec)}
