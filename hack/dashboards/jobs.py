"""What is measured of jobs, and the panels of it that more than one dashboard has.

Every replica of the operator counts the jobs that there are, and only the one that leads counts what happens to them:
of the first kind the highest is taken, of the second the sum. Neighbours: ``overview`` and ``job``, which show it for
all jobs and for those of a namespace; ``panels``, ``promql``.
"""

from typing import Final

from dashboards import panels
from dashboards.panels import A_MINUTE, BLUE, COUNT, RED, SECONDS, Ask
from dashboards.promql import RANGE, Source, or_zero, total

CREATED, SUCCEEDED, FAILED, RESTARTED, DELETED = (
    f"training_operator_jobs_{event}_total" for event in ("created", "successful", "failed", "restarted", "deleted")
)
TO_RUNNING: Final = "tf_operator_job_time_to_running_seconds"
TO_END: Final = "tf_operator_job_duration_seconds"


def phases(jobs: Source, *, by: str = "", where: str = "") -> str:
    """Jobs that there are now, of all kinds, each counted once however many replicas of the operator see it."""
    return total(jobs.highest("tf_operator_jobs", by="job_namespace, framework, phase", where=where), by=by)


def running(jobs: Source, *, width: int) -> panels.AnyPanel:
    return panels.number(
        "Running",
        "Jobs whose chief runs or, without a chief, a worker. Normal is what your users have submitted.",
        Ask(or_zero(phases(jobs, where='phase="Running"')), "running"),
        unit=COUNT,
        width=width,
    )


def failed(jobs: Source, *, width: int) -> panels.AnyPanel:
    return panels.number(
        "Failed, in the time range",
        "Jobs that have failed. The reasons are below.",
        Ask(jobs.count(FAILED), "failed"),
        unit=COUNT,
        width=width,
        steps={1: RED},
    )


def restarts(jobs: Source, *labels: str, width: int) -> panels.AnyPanel:
    rate = jobs.a_minute("tf_operator_replica_restarts_total", by=", ".join(labels))
    return panels.lines(
        f"Restarts by {' and '.join(labels).replace('_', ' ')}",
        "Replicas restarted each minute: failed (the pod was replaced), in-place (the kubelet restarted the "
        "container), disrupted (evicted, preempted, or the node was lost).",
        Ask(or_zero(rate, by="reason"), " ".join(f"{{{{{label}}}}}" for label in labels)),
        unit=A_MINUTE,
        width=width,
    )


def by_state(jobs: Source, *, width: int) -> panels.AnyPanel:
    return panels.lines(
        "Jobs by state",
        "Jobs that there are, by their last condition; New has none yet. A band of Created that grows means that pods "
        "do not start; one of Restarting, that replicas fail. Finished jobs stay until they are deleted.",
        Ask(phases(jobs, by="phase"), "{{phase}}"),
        unit=COUNT,
        width=width,
        stacked=True,
    )


def failures_by_reason(jobs: Source, *, width: int) -> panels.AnyPanel:
    failures = jobs.a_minute("tf_operator_jobs_failed_by_reason_total", by="reason")
    return panels.lines(
        "Failures by reason",
        "Jobs that failed, each minute, by the reason in their Failed condition. TFJobFailed is a replica that failed "
        "for good, TFJobInvalidSpec a manifest that cannot work.",
        Ask(or_zero(failures, by="reason"), "{{reason}}"),
        unit=A_MINUTE,
        width=width,
    )


def typical_times(jobs: Source, *, width: int) -> panels.AnyPanel:
    return panels.bars(
        "Typical times, in the time shown",
        "Half of the jobs took no longer than the median, nine of ten no longer than the 90th percentile.",
        *(
            Ask(jobs.quantile(of, metric, over=RANGE), f"{title}, {name}")
            for title, metric in (("to running", TO_RUNNING), ("to the end", TO_END))
            for of, name in ((0.5, "median"), (0.9, "90 %"))
        ),
        unit=SECONDS,
        width=width,
        colour=BLUE,
    )
