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
from tf_operator.job.tensorboard import RESOURCE, TensorBoardLine, in_one_line
from tf_operator.job.training_job import TrainingJob
from tf_operator.meta import Body
from tf_operator.planning import rejections, tensorboards
from tf_operator.planning.actions import Action, Create, Delete, Patch, Stage
from tf_operator.planning.snapshot import RejectedWrite, Snapshot, TensorBoards

WHAT: Final = "its TensorBoard"


def actions(snapshot: Snapshot, *, has_ended: bool = False) -> Iterator[Action]:
    """Make the object, bring its spec up to date, or delete it."""
    job, seen = snapshot.job, snapshot.tensorboards
    if seen is None or seen.unserved:
        return
    found, wanted = seen.found, job.tensorboard_spec
    if found is None:
        if wanted is not None and not has_ended and not _is_waiting(snapshot):
            body = partial(_body, job, wanted)
            yield Create(RESOURCE, job.key.name, WHAT, body, Stage.EXTRAS, is_optional=True)
    elif found.is_terminating:
        return
    elif wanted is None:
        if not rejections.is_waiting(seen.rejected, snapshot.now):
            what = f"the deletion of {WHAT}"
            yield Delete(RESOURCE, found.name, found.uid, what, stage=Stage.EXTRAS, is_optional=True)
    elif found.digest != tensorboards.digest(wanted) and not _is_waiting(snapshot):
        # Not compared with its spec: its schema and its controller may drop fields, and add others.
        note = {"annotations": {tensorboards.DIGEST: tensorboards.digest(wanted)}}
        change = {"metadata": note, "spec": _merge_patch(found.spec, wanted)}
        yield Patch(RESOURCE, found.name, found.uid, f"the change of {WHAT}", change, Stage.EXTRAS, is_optional=True)


def line(snapshot: Snapshot) -> TensorBoardLine | None:
    """What is reported of it; ``None`` when nothing is known, or none is wanted and none stays."""
    job, seen, rejected = snapshot.job, snapshot.tensorboards, _rejected(snapshot)
    if seen is None or (job.tensorboard_spec is None and rejected is None):
        return None
    refusal = seen.unserved or (in_one_line(rejected.message) if rejected else "")
    said = TensorBoardLine(job.key.name, message=refusal, is_refused=bool(seen.unserved or rejected))
    if found := seen.found:
        return replace(said, name=found.name, uid=found.uid, is_ready=found.is_ready, message=refusal or found.message)
    return said


def retry_at(snapshot: Snapshot, *, has_ended: bool = False) -> datetime | None:
    """When to reconcile again, if nothing happens until then."""
    seen, rejected = snapshot.tensorboards, _rejected(snapshot)
    if rejected and (_is_there(seen) or not has_ended):
        return None if rejections.is_final(rejected) else rejections.retry_at(rejected)
    if snapshot.job.tensorboard_spec is None or has_ended:
        return None
    if seen is None:
        return snapshot.now + rejections.UNSERVED
    return snapshot.now + rejections.LONGEST if seen.unserved and not seen.is_off else None


def _rejected(snapshot: Snapshot) -> RejectedWrite | None:
    """What was refused last, unless the object is as the job wants it by now."""
    seen, wanted = snapshot.tensorboards, snapshot.job.tensorboard_spec
    if seen is None or seen.rejected is None:
        return None
    digest = tensorboards.digest(wanted) if wanted is not None else None
    return None if digest == (seen.found.digest if seen.found else None) else seen.rejected


def _is_there(seen: TensorBoards | None) -> bool:
    return seen is not None and seen.found is not None


def _is_waiting(snapshot: Snapshot) -> bool:
    """Whether it is too early to try again; what is invalid is tried again when the job has been edited."""
    rejected = snapshot.tensorboards.rejected if snapshot.tensorboards else None
    if rejected is None or snapshot.job.generation != snapshot.job.record.observed_generation:
        return False
    return rejections.is_final(rejected) or rejections.is_waiting(rejected, snapshot.now)


def _merge_patch(found: Body, wanted: Body) -> dict[str, Any]:
    """``null`` for what is not wanted any more; what is there as a whole, because it may have fewer fields."""
    changed = {name: value for name, value in wanted.items() if found.get(name) != value}
    for name, value in changed.items():
        before = found.get(name)
        if isinstance(before, Mapping) and isinstance(value, Mapping):
            changed[name] = _merge_patch(before, value)
    return dict.fromkeys(sorted(found.keys() - wanted.keys())) | changed


def _body(job: TrainingJob, spec: Body) -> dict[str, Any]:
    note = {"annotations": {tensorboards.DIGEST: tensorboards.digest(spec)}}
    return {"metadata": naming.metadata(job, job.key.name, naming.job_labels(job)) | note, "spec": dict(spec)}
