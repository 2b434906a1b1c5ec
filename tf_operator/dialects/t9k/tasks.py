"""Tasks and aggregate: each replica of a TensorFlowTrainingJob in one of seven phases."""

from collections import Counter
from collections.abc import Collection
from typing import Any, Final

from tf_operator.job.record import JobPhase, JobRecord
from tf_operator.job.report import JobReport, ReplicaLine

MOST_CONTAINERS: Final = 2000
"""A job whose pods have more shows those that decide: an object has to fit into etcd, and each write has the list."""
_PHASES: Final = ("Creating", "Pending", "Running", "Succeeded", "Failed", "Unknown", "Deleted")


def write(report: JobReport, lines: Collection[ReplicaLine]) -> dict[str, Any]:
    """Both fields. Types are in the order of the spec, replicas by index, and each counts once."""
    entries: dict[str, list[dict[str, Any]]] = {spec.type: [] for spec in report.job.replicas}
    counts: Counter[str] = Counter()
    has_too_many = sum(len(line.containers) for line in lines) > MOST_CONTAINERS
    only = report.job.profile.container if has_too_many else ""
    for line in lines:
        phase = phase_of(line, report.record)
        counts[phase] += 1
        entries[line.type].append(_replica(line, phase, only))
    tasks = [
        {"type": spec.type.label, **_restarts(report.record.of(spec.type).restarts), "replicas": entries[spec.type]}
        for spec in report.job.replicas
    ]
    return {"tasks": tasks, "aggregate": {phase.lower(): counts[phase] for phase in _PHASES}}


def phase_of(line: ReplicaLine, record: JobRecord) -> str:
    """That of its pod. Without one it is to come, or has done its work, or is not to come now."""
    if line.uid:
        return line.phase if line.phase in _PHASES else "Unknown"
    if line.is_to_run:
        return "Creating"
    is_over = record.is_finished or record.phase is JobPhase.SUSPENDED
    return "Succeeded" if line.is_completed and not is_over else "Deleted"


def _restarts(count: int) -> dict[str, int]:
    return {"restartCount": count} if count else {}


def _replica(line: ReplicaLine, phase: str, only: str) -> dict[str, Any]:
    """``only``: the container that is shown; empty for all of them."""
    fields: dict[str, Any] = {"name": line.pod, "phase": phase}
    if line.uid:
        fields["uid"] = line.uid
    if line.uid and line.containers:
        fields["containers"] = [
            {"name": entry.name, "state": entry.state}
            | ({} if entry.exit_code is None else {"exitCode": entry.exit_code})
            for entry in line.containers
            if only in {"", entry.name}
        ]
    return fields
