"""The status of a ``mlkube.io/v1beta1`` TfJob: the record of the job in ``operator``, and what people read beside it.

A status without ``operator`` is one of an operator of that time. Of it only the end is believed, so that a job that has
ended is not run again.
"""

from typing import Any

from tf_operator.dialects import phases
from tf_operator.dialects import record as codec
from tf_operator.dialects.phases import TypeCounts
from tf_operator.job.record import JobPhase, JobRecord
from tf_operator.job.report import JobReport
from tf_operator.job.training_job import ReplicaSpec
from tf_operator.meta import Body


def read(stored_status: Body) -> JobRecord:
    """What is remembered in a status, as far as it can be understood."""
    return codec.read(stored_status["operator"]) if "operator" in stored_status else phases.end_in(stored_status)


def write(report: JobReport, stored_status: Body) -> dict[str, Any]:
    """The whole status: what is to be said, and what others keep in the stored one."""
    record = report.record
    if record.phase is JobPhase.NEW:
        return dict(stored_status)
    fields: dict[str, Any] = {
        "phase": str(phases.phase_of(record)),
        "state": str(phases.state_of(record)),
        "operator": codec.write(record),
    }
    if not report.job.record.is_finished:  # after the end nothing is said any more but that the clean-up is done
        fields["reason"] = _reason(report)
        if report.counts is not None:
            fields["replicaStatuses"] = phases.rows(_count(report, spec) for spec in _in_order_of_spec(report))
    return dict(stored_status) | fields


def _reason(report: JobReport) -> str:
    """Why it failed, or what it waits for."""
    return "" if report.record.phase is JobPhase.SUCCEEDED else (report.message or report.note).strip()


def _in_order_of_spec(report: JobReport) -> list[ReplicaSpec]:
    """The order in which the user has written them, which only their paths tell; there are not ten."""
    return sorted(report.job.replicas, key=lambda spec: spec.path)


def _count(report: JobReport, spec: ReplicaSpec) -> TypeCounts:
    record = report.record.of(spec.type)
    return TypeCounts(report.job.profile.words.type(spec.type), spec.count, len(record.completed), len(record.failed))
