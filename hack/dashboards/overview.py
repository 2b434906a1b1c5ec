"""Overview: the state of all jobs. Every number is the operator's own.

Neighbours: ``jobs`` says what is measured of jobs; ``frame``, ``panels``, ``promql``.
"""

from typing import Final

from grafana_foundation_sdk.models.dashboard import Dashboard

from dashboards import frame, jobs, panels
from dashboards.panels import (
    A_MINUTE,
    COUNT,
    ORANGE,
    PURPLE,
    RED,
    SECONDS,
    SHARE,
    YELLOW,
    Ask,
    heat,
    lines,
    number,
    rows,
)
from dashboards.promql import Source, or_zero

UID: Final = "tf-operator-overview"
JOB_LINK: Final = "/d/tf-operator-job?${datasource:queryparam}&${__url_time_range}&var-namespace=${__value.text}"
JOBS: Final = Source('job=~"$job", framework=~"$framework", job_namespace=~"$namespace"')
NAMED: Final = Source('job=~"$job", framework=~"$framework", job_namespace=~"$namespace", job_namespace!=""')
WAITING: Final = 'phase=~"New|Created"'


def make() -> Dashboard:
    return frame.make(
        uid=UID,
        title="TFJobs / Overview",
        text="All jobs: what runs and waits, failures and their reasons, durations, namespaces.",
        variables=(
            frame.datasource(),
            frame.operator(),
            frame.framework(),
            frame.namespace("Namespaces of jobs."),
        ),
        rows=(
            ("Now, and in the time range", _numbers()),
            ("Jobs", _jobs()),
            ("Failures and restarts", _failures()),
            ("Durations", _times()),
            ("Namespaces", [_namespaces()]),
        ),
    )


def _numbers() -> list[panels.AnyPanel]:
    ended = f"({JOBS.count(jobs.SUCCEEDED)} + {JOBS.count(jobs.FAILED)})"
    return [
        jobs.running(JOBS, width=4),
        number(
            "Waiting",
            "Jobs that do not run yet: their pods are being created, or wait for nodes, images or quota. Normal is a "
            "few for a short time; if the number stays, see the pods.",
            Ask(or_zero(jobs.phases(JOBS, where=WAITING)), "waiting"),
            unit=COUNT,
            steps={1: YELLOW, 20: ORANGE},
        ),
        number(
            "Restarting",
            "Jobs with a replica that is being replaced. Normal is zero, or a few after a node was drained.",
            Ask(or_zero(jobs.phases(JOBS, where='phase="Restarting"')), "restarting"),
            unit=COUNT,
            steps={1: ORANGE},
        ),
        number(
            "Suspended",
            "Jobs without pods: suspended, or waiting in a queue until it admits them.",
            Ask(or_zero(jobs.phases(JOBS, where='phase=~"Suspended|Queued"')), "suspended"),
            unit=COUNT,
            steps={1: PURPLE},
        ),
        jobs.failed(JOBS, width=4),
        number(
            "Failure ratio",
            "Failed jobs, of all that ended in the time range. What is normal depends on your users: look for a "
            "change.",
            Ask(f"{JOBS.count(jobs.FAILED)} / clamp_min({ended}, 1)", "failed"),
            unit=SHARE,
            steps={0.1: YELLOW, 0.3: RED},
        ),
    ]


def _jobs() -> list[panels.AnyPanel]:
    return [
        jobs.by_state(JOBS, width=12),
        lines(
            "Jobs created and ended",
            "Jobs created, ended and deleted by their TTL, each minute. Over hours, as many should end as are created.",
            Ask(JOBS.a_minute(jobs.CREATED), "created"),
            Ask(JOBS.a_minute(jobs.SUCCEEDED), "succeeded"),
            Ask(JOBS.a_minute(jobs.FAILED), "failed"),
            Ask(JOBS.a_minute(jobs.DELETED), "deleted"),
            unit=A_MINUTE,
            width=12,
        ),
    ]


def _failures() -> list[panels.AnyPanel]:
    return [
        jobs.failures_by_reason(JOBS, width=8),
        lines(
            "Limits reached",
            "Jobs that failed by backoffLimit or activeDeadlineSeconds, each minute. Normal is near zero; many at once "
            "point to a node, an image or a data set.",
            Ask(JOBS.a_minute("tf_operator_jobs_backoff_exceeded_total"), "backoff limit exceeded"),
            Ask(JOBS.a_minute("tf_operator_jobs_deadline_exceeded_total"), "deadline exceeded"),
            unit=A_MINUTE,
            width=5,
        ),
        jobs.restarts(JOBS, "reason", width=6),
        lines(
            "Conflicting writes",
            "Changes of a job's status by another TFJob controller, each minute. It must be zero: two controllers "
            "destroy each other's jobs.",
            Ask(JOBS.a_minute("tf_operator_jobs_conflicting_writes_total"), "conflicting writes"),
            unit=A_MINUTE,
            width=5,
        ),
    ]


def _times() -> list[panels.AnyPanel]:
    return [
        heat(
            "Time to running",
            "From the start of a job until all of its replicas run. A band that climbs means slow images, scarce "
            "nodes or a slow API server.",
            Ask(JOBS.buckets(jobs.TO_RUNNING), "{{le}}"),
            width=6,
        ),
        heat(
            "Duration of jobs",
            "From the start of a job to its end, success or failure. Jobs that end in seconds mostly did not do their "
            "work.",
            Ask(JOBS.buckets(jobs.TO_END), "{{le}}"),
            width=6,
            scheme="Greens",
        ),
        lines(
            "Oldest pending job",
            "The longest time that a job has been New, Created or Restarting. A line that climbs steadily is one job "
            "that makes no progress: kubectl get tfjobs -A shows it.",
            Ask(JOBS.highest("tf_operator_oldest_pending_job_age_seconds", by="phase"), "{{phase}}"),
            unit=SECONDS,
            width=6,
        ),
        jobs.typical_times(JOBS, width=6),
    ]


def _namespaces() -> panels.AnyPanel:
    by = "job_namespace"
    return rows(
        "Namespaces",
        "Existing jobs, and, from the column Created on, changes in the time range. A name links to the jobs of its "
        "namespace.",
        by,
        {
            "Running": jobs.phases(NAMED, by=by, where='phase="Running"'),
            "Waiting": jobs.phases(NAMED, by=by, where=WAITING),
            "Restarting": jobs.phases(NAMED, by=by, where='phase="Restarting"'),
            "Suspended": jobs.phases(NAMED, by=by, where='phase="Suspended"'),
            "Created": NAMED.count(jobs.CREATED, by=by),
            "Succeeded": NAMED.count(jobs.SUCCEEDED, by=by),
            "Failed": NAMED.count(jobs.FAILED, by=by),
            "Restarts of replicas": NAMED.count(jobs.RESTARTED, by=by),
        },
        link=JOB_LINK,
    )
