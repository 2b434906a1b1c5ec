"""What would be created for a job, as a text for people.

First the replicas by type, then their addresses, then how the job ends and what remains of it; with TF_CONFIG of each
replica on request. Neighbours: ``client.plan`` has the objects and the sentences.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from tf_operator.client.plan import sentences
from tf_operator.client.plan.dry_run import DryRun, PlannedReplica, address, tf_configs
from tf_operator.job.training_job import ReplicaSpec

MOST_LISTED: Final = 8
"""Replicas of one type that are listed one by one; of more, the first ones and the last."""
_MARGIN: Final = "  "


def text(found: DryRun, *, wide: bool = False) -> Iterator[str]:
    """The summary, line by line; ``wide`` lists every replica, with its TF_CONFIG."""
    yield f"{_title(found)}\n"
    if not found.job.is_ours:
        return
    if found.job.run_policy.is_suspended:
        yield f"{_MARGIN}It is suspended: nothing of this is made until it is resumed.\n"
    yield "\n"
    yield from table(["TYPE", "REPLICAS", "RESTART POLICY"], [_row(spec) for spec in found.job.replicas])
    yield "\n"
    if found.replicas:
        yield from _wide(found) if wide else _names(found)
        yield "\n"
    yield from table([], [[f"{name}:", sentence] for name, sentence in sentences.sentences(found)])


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Lines with the cells below each other."""
    lines = [list(header), *rows] if header else rows
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))] if lines else []
    for line in lines:
        cells = "   ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        yield f"{_MARGIN}{cells}".rstrip() + "\n"


def counted(number: int, noun: str) -> str:
    """``1 pod``, ``2 pods``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _title(found: DryRun) -> str:
    job, number = found.job, len(found.replicas)
    name = f"{job.profile.kind} {job.key}"
    if not job.is_ours:
        return f"{name} is managed by {job.run_policy.managed_by}: this operator makes nothing for it"
    group = "".join(f"1 {create.resource.kind}, " for create in found.dependencies)
    extras = "with a TensorBoard" if found.extras else ""
    return f"{name}: {group}{counted(number, 'pod')} and {counted(number, 'Service')} {extras}".rstrip()


def _row(spec: ReplicaSpec) -> list[str]:
    return [spec.type, str(spec.count), spec.restart_policy]


def _names(found: DryRun) -> Iterator[str]:
    rows: list[list[str]] = []
    for spec in found.job.replicas:
        replicas = found.of(spec.type)
        shown = replicas if len(replicas) <= MOST_LISTED else replicas[: MOST_LISTED - 2]
        rows += [_place(found, replica) for replica in shown]
        if len(shown) < len(replicas):
            rows += [["...", f"{len(replicas) - len(shown) - 1} more"], _place(found, replicas[-1])]
    return table(["POD AND SERVICE", "ADDRESS"], rows)


def _place(found: DryRun, replica: PlannedReplica) -> list[str]:
    return [replica.name, address(found, replica)]


def _wide(found: DryRun) -> Iterator[str]:
    for replica in found.replicas:
        yield f"{_MARGIN}{replica.name}\n"
        yield f"{_MARGIN}  address    {address(found, replica)}\n"
        configs = list(tf_configs(found.job, replica.create.body())) or ["(none: a single replica needs none)"]
        yield from (f"{_MARGIN}  TF_CONFIG  {config}\n" for config in configs)
