"""The flags of ``tf-operator run``: their names, meanings and defaults.

Names are those of the Go operator wherever it has the flag, so that its manifests keep working; ``ignored_flags`` has
those that change nothing here. Neighbours: ``endpoint_flags`` has the second half of the table, ``options`` reads a
command line by it, ``usage`` prints it, and docs/reference/flags.md is made of it.
"""

from tf_operator.app.options import endpoint_flags, flag_types
from tf_operator.app.options.flag import Flag
from tf_operator.planning.child_kinds import kinds

SERVE = "What to serve"
JOB_QUEUE = "The job queue"
REACH = "The API server"
LEAD = "Leader election"
RESTART = "Restarts of replicas"

FLAGS: tuple[Flag, ...] = (
    Flag(
        "namespace",
        SERVE,
        flag_types.names,
        "",
        "NAMES",
        "Serve only this namespace, with Roles instead of a ClusterRole; for several, repeat the flag or use commas. "
        "Default: all namespaces.",
        is_repeatable=True,
        variable="KUBEFLOW_NAMESPACE",
    ),
    Flag(
        "enable-scheme",
        SERVE,
        flag_types.texts,
        "",
        "KIND",
        "Serve this kind, such as TFJob.kubeflow.org; for several, repeat the flag or use commas. Unknown kinds are "
        "ignored; default: TFJob. TFJob.hub.kubeflow.org is TFJob in a cluster that serves an older version and no v1.",
        is_repeatable=True,
    ),
    Flag(
        "controller-config-file",
        SERVE,
        flag_types.text,
        "",
        "FILE",
        "A YAML file with settings for accelerators and default parameter servers of TfJobs and v1alpha1, reloaded "
        "when it changes.",
    ),
    Flag(
        "v1alpha1-exit-codes",
        SERVE,
        flag_types.choice("default", "fork"),
        "default",
        "TABLE",
        "The exit codes after which a master of v1alpha1 is restarted: default (129 to 255 except 139), or fork (128 "
        "to 255, as in the fork with gang scheduling and auto-scaling).",
    ),
    Flag(
        "gang-scheduler-name",
        SERVE,
        flag_types.text,
        "",
        "NAME",
        "Create a PodGroup for each job: volcano, native (kube-scheduler's own), or the name of a scheduler with the "
        "coscheduling plugin. Default, or none: no gang scheduling.",
    ),
    Flag(
        "gang-schedulers-by-job",
        SERVE,
        flag_types.texts,
        "",
        "NAMES",
        "The gang schedulers, named as for --gang-scheduler-name, that jobs may choose with the annotation "
        "tf-operator.kubeflow.org/gang-scheduler. Their PodGroups are watched once a job chooses one.",
        is_repeatable=True,
    ),
    Flag(
        "tensorboards",
        SERVE,
        flag_types.choice("none", "serve", "external"),
        "none",
        "WHO",
        "Who runs the TensorBoards that jobs request. serve: this operator, also those of tensorstack.dev that users "
        "create. external: another controller, those of tensorstack.dev. none: jobs get none.",
    ),
    Flag(
        "network-policies",
        SERVE,
        flag_types.choice("none", "requested", "all"),
        "none",
        "WHICH",
        "Which jobs get a NetworkPolicy that lets only their own pods connect to them. requested: those with "
        "networkPolicy: Job. all: also those that do not say networkPolicy: None, except with hostNetwork. none: none, "
        "so a job that requests it waits. Needs permission for NetworkPolicies.",
    ),
    *(Flag(kind.flag, SERVE, flag_types.switch, "false", "", kind.flag_help) for kind in kinds.ALL if kind.flag_help),
    Flag(
        "restart-in-place",
        SERVE,
        flag_types.switch,
        "false",
        "",
        "Keep pods, and restart their containers: in resizes of jobs with elasticPolicy.restartInPlace, and in "
        "restarts with runPolicy.restarts.method InPlace. Needs Kubernetes 1.36 and permission to patch pods.",
    ),
    Flag(
        "kueue",
        SERVE,
        flag_types.choice("none", "external"),
        "none",
        "WHO",
        "Who creates the Workloads of jobs with the label kueue.x-k8s.io/queue-name. external: this operator, so that "
        "Kueue needs no code for TFJobs. none: not this operator.",
    ),
    Flag(
        "controller-threads",
        SERVE,
        flag_types.whole(least=1, most=1000),
        "16",
        "N",
        "Number of jobs that are reconciled concurrently.",
    ),
    Flag(
        "override-existing-controller",
        SERVE,
        flag_types.switch,
        "false",
        "",
        "Start although another controller changes TFJobs. Two controllers destroy each other's jobs.",
    ),
    Flag(
        "drain-timeout",
        SERVE,
        flag_types.duration,
        "8s",
        "DURATION",
        "How long running reconciles may take to finish after SIGTERM. Keep it below the pod's grace period.",
    ),
    Flag(
        "job-queue",
        JOB_QUEUE,
        flag_types.switch,
        "false",
        "",
        "Let jobs wait until all their pods fit on the nodes, by priority and age, and resize jobs with an "
        "elasticPolicy without metrics. Needs permission to watch nodes, pods and priority classes of the whole "
        "cluster. --autoscale and --autoscale-... are older names of this flag and of those below.",
        old_name="autoscale",
    ),
    Flag(
        "job-queue-shrink-after",
        JOB_QUEUE,
        flag_types.duration,
        "2m",
        "DURATION",
        "Elastic jobs give up workers for a job that has waited this long.",
        old_name="autoscale-shrink-after",
    ),
    Flag(
        "job-queue-grow-after",
        JOB_QUEUE,
        flag_types.duration,
        "1m",
        "DURATION",
        "Give elastic jobs more workers only if no job has been admitted for this long.",
        old_name="autoscale-grow-after",
    ),
    Flag(
        "job-queue-resize-interval",
        JOB_QUEUE,
        flag_types.duration,
        "5m",
        "DURATION",
        "The shortest time between two resizes of one job.",
        old_name="autoscale-resize-interval",
    ),
    Flag(
        "job-queue-reserve-after",
        JOB_QUEUE,
        flag_types.duration,
        "5m",
        "DURATION",
        "After a job has waited this long, reserve room for it against later jobs and those of lower priority. 0: "
        "never, as in the v1alpha1 fork.",
        old_name="autoscale-reserve-after",
    ),
    Flag(
        "kubeconfig",
        REACH,
        flag_types.text,
        "",
        "FILE",
        "Use this kubeconfig. Without it: $KUBECONFIG, the pod's service account, ~/.kube/config.",
        variable="USE_KUBE_CONFIG",
    ),
    Flag(
        "kube-api-qps",
        REACH,
        flag_types.rate,
        # The Go operator's 20 and 30 make a job of 1000 replicas take minutes. The API server protects itself by
        # priority and fairness; this limit only keeps the operator from being the noisy one.
        "500",
        "RATE",
        "Average requests per second for jobs; negative: no limit. Watches, events and Leases have their own limits.",
    ),
    Flag(
        "kube-api-burst",
        REACH,
        flag_types.whole(least=1, most=1_000_000),
        "1000",
        "N",
        "Burst of requests for jobs.",
    ),
    Flag(
        "leader-elect",
        LEAD,
        flag_types.switch,
        "true",
        "",
        "Work only while holding a Lease, so that several replicas can stand by. Without it, run only one replica.",
    ),
    Flag("leader-election-id", LEAD, flag_types.name, "tf-operator", "NAME", "The name of the Lease."),
    Flag(
        "leader-election-namespace",
        LEAD,
        flag_types.name,
        "tf-operator",
        "NAME",
        "The namespace of the Lease.",
        variable="MY_POD_NAMESPACE",
    ),
    Flag(
        "leader-election-lease-duration",
        LEAD,
        flag_types.positive_duration,
        "15s",
        "DURATION",
        "Another replica takes over when the leader has not renewed the Lease for this long. Whole seconds.",
    ),
    Flag(
        "leader-election-renew-deadline",
        LEAD,
        flag_types.positive_duration,
        "10s",
        "DURATION",
        "The leader stops writing if it cannot renew the Lease for this long. Shorter than the lease duration.",
    ),
    Flag(
        "leader-election-retry-period",
        LEAD,
        flag_types.positive_duration,
        "2s",
        "DURATION",
        "The time between attempts to acquire or renew the Lease.",
    ),
    Flag(
        "restart-delay-base",
        RESTART,
        flag_types.duration,
        "1s",
        "DURATION",
        "The backoff of the first replacement of a failed replica; it doubles each time.",
    ),
    Flag("restart-delay-cap", RESTART, flag_types.duration, "5m", "DURATION", "The maximum backoff."),
    Flag(
        "restart-delay-reset",
        RESTART,
        flag_types.duration,
        "10m",
        "DURATION",
        "A replica that ran for this long starts with the base backoff again.",
    ),
    *endpoint_flags.FLAGS,
)
BY_NAME = {name: flag for flag in FLAGS for name in (flag.name, flag.old_name) if name}
