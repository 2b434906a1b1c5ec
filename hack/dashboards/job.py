"""One job: what is known of it, from two sides.

The operator's metrics have no series for a job, because jobs come and go by the thousand; they tell how the job's
namespace is. What its pods do is known to kube-state-metrics, what they use to the kubelet (cAdvisor): panels that need
one of them say so, and stay empty without it. A pod belongs to the job that owns it, not to whatever its name begins
with. Neighbours: ``jobs``, ``frame``, ``panels``, ``promql``.
"""

from typing import Final

from grafana_foundation_sdk.models.dashboard import Dashboard

from dashboards import frame, jobs, panels
from dashboards.panels import (
    BYTES,
    BYTES_A_SECOND,
    COUNT,
    RED,
    YELLOW,
    Ask,
    lines,
    number,
)
from dashboards.promql import Source, or_zero, total
from tf_operator.dialects import registry

UID: Final = "tf-operator-job"
JOBS: Final = Source('job=~"$job", framework=~"$framework", job_namespace="$namespace"')
PODS: Final = Source('namespace="$namespace"')
KINDS: Final = "|".join(api.resource.kind for api in registry.SERVED)
OWNED: Final = (
    "on (namespace, pod) group_left () max by (namespace, pod) "
    f'(kube_pod_owner{{namespace="$namespace", owner_kind=~"{KINDS}", owner_name="$name"}})'
)
MAIN: Final = 'container="tensorflow"'
GPU: Final = 'resource="nvidia_com_gpu"'
FROM_STATE: Final = "Needs kube-state-metrics."
FROM_KUBELET: Final = "Needs kube-state-metrics, and the kubelet's container metrics (cAdvisor)."


def make() -> Dashboard:
    return frame.make(
        uid=UID,
        title="TFJobs / One job",
        text="A job's namespace as the operator sees it, and its pods as kube-state-metrics and the kubelet do.",
        variables=(
            frame.datasource(),
            frame.operator(),
            frame.framework(),
            frame.namespace("The namespace of the job.", is_single=True),
            frame.choice(
                "name",
                "Job",
                f'label_values(kube_pod_owner{{namespace="$namespace", owner_kind=~"{KINDS}"}}, owner_name)',
                text="The job; it must have had pods in the time range.",
                is_single=True,
            ),
        ),
        rows=(
            ("All jobs of the namespace: measured by the operator, which has no series for a single job", _namespace()),
            ("Pods of the job: need kube-state-metrics", _pods()),
            ("Resources: also need the kubelet's container metrics", _usage()),
        ),
    )


def _namespace() -> list[panels.AnyPanel]:
    return [
        *_counts(),
        jobs.by_state(JOBS, width=6),
        jobs.failures_by_reason(JOBS, width=6),
        jobs.restarts(JOBS, "replica_type", "reason", width=6),
        jobs.typical_times(JOBS, width=6),
    ]


def _counts() -> list[panels.AnyPanel]:
    return [
        jobs.running(JOBS, width=6),
        number(
            "Pending or restarting",
            "Jobs that wait for their pods, at the start or after a failure. Normal is zero, or a few for a short "
            "time.",
            Ask(or_zero(jobs.phases(JOBS, where='phase=~"New|Created|Restarting"')), "waiting"),
            unit=COUNT,
            width=6,
            steps={1: YELLOW},
        ),
        number(
            "Succeeded, in the time range",
            "Jobs of this namespace that have succeeded.",
            Ask(JOBS.count(jobs.SUCCEEDED), "succeeded"),
            unit=COUNT,
            width=6,
        ),
        jobs.failed(JOBS, width=6),
    ]


def _pods() -> list[panels.AnyPanel]:
    waiting = PODS.series("kube_pod_container_status_waiting_reason")
    ended = PODS.series("kube_pod_container_status_last_terminated_reason", 'reason="OOMKilled"')
    restarts = PODS.series("kube_pod_container_status_restarts_total", MAIN)
    return [
        lines(
            "Pods by phase",
            f"Existing pods of the job. Pending for long: no node, no image, no volume. {FROM_STATE}",
            Ask(f"{total(_owned(PODS.series('kube_pod_status_phase')), by='phase')} > 0", "{{phase}}"),
            unit=COUNT,
            stacked=True,
        ),
        lines(
            "Why containers wait",
            "Waiting containers of the job by the kubelet's reason; ContainerCreating is normal for a while. "
            f"{FROM_STATE}",
            Ask(or_zero(total(_owned(waiting), by="reason"), by="reason"), "{{reason}}"),
            unit=COUNT,
        ),
        lines(
            "Containers restarted in place",
            f"Restarts of each pod's tensorflow container by the kubelet, since the pod was created. {FROM_STATE}",
            Ask(f"max by (pod) ({_owned(restarts)})", "{{pod}}"),
            unit=COUNT,
        ),
        number(
            "OOMKilled",
            "Containers of the job that were last terminated with OOMKilled. Normal is none; else the limit is below "
            f"what the program needs. {FROM_STATE}",
            Ask(or_zero(total(_owned(f'{ended[:-1]}, reason="OOMKilled"}}'))), "OOMKilled"),
            unit=COUNT,
            width=12,
            steps={1: RED},
        ),
        number(
            "Requested GPUs",
            "GPUs (nvidia.com/gpu) that the job's pods request; they are held also while a program does not use them. "
            f"{FROM_STATE}",
            Ask(
                or_zero(total(_owned(PODS.series("kube_pod_container_resource_requests", GPU)))),
                "GPUs",
            ),
            unit=COUNT,
            width=12,
        ),
    ]


def _usage() -> list[panels.AnyPanel]:
    cpu = f"rate({PODS.series('container_cpu_usage_seconds_total', MAIN)}[$__rate_interval])"
    memory = PODS.series("container_memory_working_set_bytes", MAIN)
    return [
        lines(
            "CPU",
            "Cores used by each pod's tensorflow container. One that idles while the others work waits for them, or "
            f"for its data. {FROM_KUBELET}",
            Ask(total(_owned(cpu), by="pod"), "{{pod}}"),
            unit=COUNT,
        ),
        lines(
            "Memory",
            "Working set, which the kubelet compares with the container's limit. Growth without end ends in OOMKilled. "
            f"{FROM_KUBELET}",
            Ask(total(_owned(memory), by="pod"), "{{pod}}"),
            unit=BYTES,
        ),
        lines(
            "Network",
            f"Bytes received and sent by all pods of the job: gradients, parameters, and data. {FROM_KUBELET}",
            *(
                Ask(
                    total(_owned(f"rate({PODS.series(f'container_network_{way}_bytes_total')}[$__rate_interval])")),
                    name,
                )
                for way, name in (("receive", "received"), ("transmit", "sent"))
            ),
            unit=BYTES_A_SECOND,
        ),
    ]


def _owned(query: str) -> str:
    """Of what a query finds, what is about pods of the job."""
    return f"{query} * {OWNED}"
