"""Operator internals: whether the operator itself is well.

From top to bottom along the path of an event: health, queue, reconciles, API server, caches, election, process. What
only the leader does is summed over replicas; what each replica does by itself is shown for each. Neighbours: ``frame``,
``panels``, ``promql``.
"""

from typing import Final

from grafana_foundation_sdk.models.dashboard import Dashboard

from dashboards import frame, panels
from dashboards.panels import (
    A_MINUTE,
    A_SECOND,
    BYTES,
    COUNT,
    GREEN,
    NAME,
    ORANGE,
    RED,
    SECONDS,
    SHARE,
    YELLOW,
    Ask,
    heat,
    lines,
    number,
)
from dashboards.promql import RANGE, Source, or_zero, total

UID: Final = "tf-operator-internals"
SELF: Final = Source('job=~"$job", instance=~"$instance"')
QUEUE: Final = 'name="tfjob-controller"'
CONTROLLER: Final = 'controller="tfjob-controller"'
TROUBLE: Final = 'code=~"5..|429|<error>"'


def make() -> Dashboard:
    return frame.make(
        uid=UID,
        title="TFJobs / Operator internals",
        text="Whether tf-operator is healthy: queue, reconciles, API server, watches, election, process.",
        variables=(
            frame.datasource(),
            frame.operator(),
            frame.choice(
                "instance",
                "Replica",
                'label_values(tf_operator_build_info{job=~"$job"}, instance)',
                text="Replicas of the operator.",
            ),
        ),
        rows=(
            ("Health", _health()),
            ("Queue: jobs that wait for a worker", _queue()),
            ("Reconciles", _reconciles()),
            ("Requests to the API server", _requests()),
            ("Watches and caches", _watches()),
            ("Leader election", _election()),
            ("Process", _process()),
        ),
    )


def _health() -> list[panels.AnyPanel]:
    errors = SELF.count("controller_runtime_reconcile_errors_total", where=CONTROLLER)
    return [
        number(
            "Replicas",
            "Replicas of the operator that are scraped. Normal is the number in the Deployment; 2 with the chart.",
            Ask(f"count({SELF.series('tf_operator_build_info')})", "replicas"),
            unit=COUNT,
        ),
        number(
            "Leaders",
            "Normal is 1 for each operator. 0 for more than twenty seconds: no job is reconciled. 2 for one operator "
            "is an error.",
            Ask(total(SELF.series("leader_election_master_status")), "leaders"),
            unit=COUNT,
            base=RED,
            steps={1: GREEN, 2: ORANGE},
        ),
        number(
            "Jobs in the queue",
            "Jobs that wait for a worker now. Normal is near zero: a reconcile takes milliseconds.",
            Ask(total(SELF.series("workqueue_depth", QUEUE)), "jobs"),
            unit=COUNT,
            steps={50: YELLOW, 500: RED},
        ),
        number(
            "Longest reconcile",
            "Age of the oldest running reconcile. Normal is zero or below a second; above a minute it hangs.",
            Ask(SELF.highest("workqueue_longest_running_processor_seconds", where=QUEUE), "longest reconcile"),
            unit=SECONDS,
            steps={10: YELLOW, 60: RED},
        ),
        number(
            "Failed reconciles",
            "Reconciles in the time range that failed and are retried. A few after an outage of the API server are "
            "normal; the log has each.",
            Ask(errors, "failed reconciles"),
            unit=COUNT,
            steps={1: YELLOW, 50: RED},
        ),
        number(
            "Release",
            "The running release. Two of them for longer than an upgrade takes: see the Deployment.",
            Ask(f"count by (version) ({SELF.series('tf_operator_build_info')})", "{{version}}"),
            unit=NAME,
        ),
    ]


def _queue() -> list[panels.AnyPanel]:
    return [
        lines(
            "Depth",
            "Jobs that wait for a worker; a standby has none. Peaks after a start or many submissions are normal if "
            "they drain; a plateau that grows is not.",
            Ask(total(SELF.series("workqueue_depth", QUEUE), by="instance"), "{{instance}}"),
            unit=COUNT,
            width=6,
        ),
        lines(
            "Adds",
            "Jobs added to the queue each second, and how many of these after a delay or a failure. Follows changes of "
            "pods; many adds without changes are a loop.",
            Ask(SELF.rate("workqueue_adds_total", where=QUEUE), "added"),
            Ask(SELF.rate("workqueue_retries_total", where=QUEUE), "retries"),
            unit=A_SECOND,
            width=6,
        ),
        lines(
            "Wait for a worker",
            "How long jobs wait in the queue. Normal is milliseconds; seconds mean too few workers or a slow API "
            "server.",
            *_quantiles("workqueue_queue_duration_seconds", where=QUEUE),
            unit=SECONDS,
            width=6,
        ),
        lines(
            "Running reconciles",
            "Age of the oldest running reconcile, and the sum of the ages of all. Lines that climb steadily: "
            "reconciles hang.",
            Ask(SELF.highest("workqueue_longest_running_processor_seconds", where=QUEUE), "oldest"),
            Ask(SELF.highest("workqueue_unfinished_work_seconds", where=QUEUE), "sum"),
            unit=SECONDS,
            width=6,
        ),
    ]


def _reconciles() -> list[panels.AnyPanel]:
    return [
        lines(
            "Reconciles by result",
            "Reconciles each second: success, error (retried with backoff), requeue_after (repeated at a certain "
            "time). Normal is green and blue.",
            Ask(SELF.rate("controller_runtime_reconcile_total", by="result", where=CONTROLLER), "{{result}}"),
            unit=A_SECOND,
            width=6,
        ),
        lines(
            "Failures",
            "Reconciles that failed, and those that panicked (a bug of the operator), each minute. Normal is zero; "
            "report panics.",
            Ask(SELF.a_minute("controller_runtime_reconcile_errors_total", where=CONTROLLER), "errors"),
            Ask(SELF.a_minute("controller_runtime_reconcile_panics_total", where=CONTROLLER), "panics"),
            unit=A_MINUTE,
            width=6,
        ),
        heat(
            "Duration of reconciles",
            "Normal is far below a second; creating a job of thousands of replicas takes longer. A band that climbs: "
            "the API server is slow, or the client-side rate limit is reached.",
            Ask(SELF.buckets("controller_runtime_reconcile_time_seconds", where=CONTROLLER), "{{le}}"),
            width=6,
        ),
        lines(
            "Workers",
            "Busy workers, of all (--controller-threads). All of them busy for long: see the queue.",
            Ask(total(SELF.series("controller_runtime_active_workers", CONTROLLER)), "busy"),
            Ask(SELF.highest("controller_runtime_max_concurrent_reconciles", where=CONTROLLER), "all"),
            unit=COUNT,
            width=6,
        ),
    ]


def _requests() -> list[panels.AnyPanel]:
    all_of_them = SELF.rate("rest_client_requests_total")
    return [
        lines(
            "Requests by code",
            "Requests each second by the code of the reply; <error>: no reply. 409 is normal now and then (another "
            "client wrote first), 404 after deletions.",
            Ask(SELF.rate("rest_client_requests_total", by="code"), "{{code}}"),
            unit=A_SECOND,
        ),
        lines(
            "Requests by method",
            "GET reads and watches, POST creates pods, services and events, PATCH writes status. A quiet operator "
            "only renews its Lease.",
            Ask(SELF.rate("rest_client_requests_total", by="method"), "{{method}}"),
            unit=A_SECOND,
        ),
        lines(
            "Share that failed",
            "Share of requests with 429, 5xx or no reply, and of requests that the client retried. Normal is zero.",
            Ask(f"({or_zero(SELF.rate('rest_client_requests_total', where=TROUBLE))}) / {all_of_them}", "failed"),
            Ask(f"({or_zero(SELF.rate('rest_client_request_retries_total'))}) / {all_of_them}", "retried"),
            unit=SHARE,
        ),
        lines(
            "Time to reply, 99th percentile",
            "From sending a request to the header of its reply. Normal is below 100 ms.",
            Ask(SELF.quantile(0.99, "rest_client_request_duration_seconds", by="verb"), "{{verb}}"),
            unit=SECONDS,
            width=12,
        ),
        lines(
            "Wait for the client-side rate limit, 99th percentile",
            "How long requests wait for --kube-api-qps and --kube-api-burst. Normal is the lowest bucket; if it stays "
            "higher, the limit slows jobs down.",
            Ask(SELF.quantile(0.99, "rest_client_rate_limiter_duration_seconds", by="verb"), "{{verb}}"),
            unit=SECONDS,
            width=12,
        ),
    ]


def _watches() -> list[panels.AnyPanel]:
    read = f"rate({SELF.series('tf_operator_informer_list_duration_seconds_bucket')}[{RANGE}])"
    return [
        lines(
            "Idle watches",
            "The longest time without data from a watch of each resource. The API server sends a bookmark every "
            "minute: above 90 s the watch is dead, and the probe /healthz fails.",
            Ask(_highest_by_resource("tf_operator_watch_idle_seconds"), "{{informer}}"),
            unit=SECONDS,
        ),
        lines(
            "Ended watches and relists",
            "Watches that ended (normal every few minutes; they resume), and relists, each minute. Relists are normal "
            "after a restart of the API server, but not repeatedly.",
            Ask(SELF.a_minute("tf_operator_watch_ends_total"), "watches ended"),
            Ask(SELF.a_minute("tf_operator_informer_relists_total"), "relists"),
            unit=A_MINUTE,
        ),
        lines(
            "Objects in the caches",
            "Objects in the cache of each resource. They are those of TFJobs only; memory follows them.",
            Ask(_highest_by_resource("tf_operator_informer_objects"), "{{informer}}"),
            unit=COUNT,
        ),
        lines(
            "Duration of lists, 90th percentile, in the time range",
            "How long the initial list or a relist takes. Normal is below a second for thousands of objects.",
            Ask(
                f"histogram_quantile(0.9, {total(_by_resource(read), by='le, informer')})",
                "{{informer}}",
            ),
            unit=SECONDS,
            width=12,
        ),
        lines(
            "Decode and handler errors",
            "Objects that could not be decoded, and handlers that panicked, each minute. Normal is zero; the log names "
            "the object.",
            Ask(SELF.a_minute("tf_operator_informer_decode_errors_total"), "decode errors"),
            Ask(SELF.a_minute("tf_operator_informer_handler_errors_total"), "handler errors"),
            unit=A_MINUTE,
            width=12,
        ),
    ]


def _election() -> list[panels.AnyPanel]:
    return [
        lines(
            "Leader",
            "1 while a replica leads. Exactly one line is at 1; a change of leader takes at most the duration of the "
            "Lease.",
            Ask(total(SELF.series("leader_election_master_status"), by="instance"), "{{instance}}"),
            unit=COUNT,
            most=1.1,
        ),
        lines(
            "Attempts",
            "Attempts to acquire or renew the Lease, each second: ours (renewed or acquired), theirs (another replica "
            "leads), or the name of an error. Normal is one attempt per replica every two seconds.",
            Ask(SELF.rate("tf_operator_leader_election_attempts_total", by="outcome"), "{{outcome}}"),
            unit=A_SECOND,
        ),
        lines(
            "Changes",
            "Changes of the Lease's holder, and renewals that had to read it first, each minute. Normal is zero "
            "outside upgrades; repeated changes: the API server or the leader is too slow.",
            Ask(f"60 * {SELF.highest_rate('tf_operator_leader_election_transitions_total')}", "changes of leader"),
            Ask(SELF.a_minute("leader_election_slowpath_total"), "slow renewals"),
            unit=A_MINUTE,
        ),
    ]


def _process() -> list[panels.AnyPanel]:
    loop = "tf_operator_event_loop_lag_seconds"
    return [
        lines(
            "Lag of the event loop, 99th percentile",
            "How late tasks are scheduled: the operator has one event loop. Normal is milliseconds; above a second "
            "something blocks it, and at 8 s the probe /healthz fails.",
            Ask(SELF.quantile(0.99, loop, by="instance"), "{{instance}}"),
            unit=SECONDS,
        ),
        lines(
            "CPU",
            "Cores in use. Python uses one at most: if it stays near 1, the operator has reached its limit.",
            Ask(SELF.rate("process_cpu_seconds_total", by="instance"), "{{instance}}"),
            unit=COUNT,
        ),
        lines(
            "Memory",
            "Resident memory. It follows the number of TFJobs and their pods, not the cluster; growth with a constant "
            "number of jobs is a leak.",
            Ask(total(SELF.series("process_resident_memory_bytes"), by="instance"), "{{instance}}"),
            unit=BYTES,
        ),
        lines(
            "Age of the event loop's heartbeat",
            "Normal is about a second. A line that climbs: something blocks the loop now.",
            Ask(SELF.highest("tf_operator_event_loop_heartbeat_age_seconds", by="instance"), "{{instance}}"),
            unit=SECONDS,
        ),
        lines(
            "Open file descriptors",
            "Open files and connections of each replica. Normal is some tens: watches, and as many connections as "
            "there were concurrent requests. Growth without end is a leak.",
            Ask(total(SELF.series("process_open_fds"), by="instance"), "{{instance}}"),
            unit=COUNT,
        ),
        lines(
            "Events about jobs",
            "Kubernetes Events posted, and those dropped, each minute. Some are dropped on purpose when thousands of "
            "jobs change at once; jobs do not depend on them.",
            Ask(SELF.a_minute("tf_operator_events_sent_total"), "sent"),
            Ask(SELF.a_minute("tf_operator_events_dropped_total"), "dropped"),
            unit=A_MINUTE,
        ),
    ]


def _highest_by_resource(metric: str) -> str:
    return f"max by (informer) ({_by_resource(SELF.series(metric))})"


def _by_resource(query: str) -> str:
    """Name an informer by its resource only; with its namespaces and labels, the name would fill the legend.

    To be added up only after that: operators for different namespaces have informers of the same resource.
    """
    return f'label_replace({query}, "informer", "$1", "informer", "([^ ]+).*")'


def _quantiles(metric: str, *, where: str) -> list[Ask]:
    names = {0.5: "median", 0.9: "90 %", 0.99: "99 %"}
    return [Ask(SELF.quantile(of, metric, where=where), name) for of, name in names.items()]
