"""``spec.runMode``: what the pods of a type run in place of what their template says.

Debugging wins over resuming. Resume specs hold for every pod that is made after the first pause, also for later
replacements. No pod is made while the job is paused, so what is read then already holds for those after it.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from tf_operator.dialects.fields import Fields
from tf_operator.job.record import JobPhase, JobRecord, ReplicaType
from tf_operator.job.training_job import Override
from tf_operator.meta import objects_of

_SLEEP: Final = ("sleep", "inf")


def overrides(spec: Fields, record: JobRecord) -> Mapping[str, Override]:
    """By the name of the type; a type that is not there runs its template."""
    mode = spec.below("runMode")
    debug, pause = mode.below("debug"), mode.below("pause")
    debug_fields = dict(_debug_overrides(debug))
    resume_fields = dict(_resume_overrides(pause))
    if debug.flag("enabled"):
        return debug_fields
    was_paused = record.phase is JobPhase.SUSPENDED or record.resumed_time is not None
    return resume_fields if was_paused else {}


def _debug_overrides(debug: Fields) -> Iterator[tuple[str, Override]]:
    """Also of types without an item of their own."""
    items = dict(_items(debug, "replicaSpecs"))
    for kind in ReplicaType:
        item = items.get(kind.label)
        command = _texts(item, "command") if item else None
        skips = item.flag("skipInitContainer") if item else False
        yield kind.label, Override(command or _SLEEP, (), skips_init_containers=skips, drops_probes=True)


def _resume_overrides(pause: Fields) -> Iterator[tuple[str, Override]]:
    for kind, item in _items(pause, "resumeSpecs"):
        skips = item.flag("skipInitContainer")
        yield kind, Override(_texts(item, "command"), _texts(item, "args"), skips_init_containers=skips)


def _items(mode: Fields, name: str) -> Iterator[tuple[str, Fields]]:
    for index, entry in enumerate(objects_of(mode.body.get(name))):
        item = Fields(entry, f"{mode.at(name)}[{index}]", mode.problems)
        yield item.text("type"), item


def _texts(item: Fields, name: str) -> tuple[str, ...] | None:
    """A list of texts; ``None`` where there is none, and for an empty one, which Kubernetes takes for none."""
    texts = item.body.get(name)
    if not texts:
        return None
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        item.wrong(name, "must be a list of strings")
        return None
    return tuple(texts)
