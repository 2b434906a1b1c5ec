"""The flags of all that the operator shows and serves itself: metrics, probes, logs, conversion, progress."""

from tf_operator.app.options import flag_types
from tf_operator.app.options.flag import Flag

SHOW = "Metrics, probes and logs"
CONVERT = "Conversion of older versions"
PROGRESS = "Progress of jobs"

FLAGS: tuple[Flag, ...] = (
    Flag(
        "metrics-bind-address",
        SHOW,
        flag_types.address,
        ":8080",
        "ADDRESS",
        "The address of /metrics; 0 disables it.",
    ),
    Flag(
        "metrics-secure",
        SHOW,
        flag_types.switch,
        "false",
        "",
        "Serve /metrics over HTTPS, to bearer tokens whose users the API server allows to get /metrics. Needs "
        "permission to create TokenReviews and SubjectAccessReviews.",
    ),
    Flag(
        "metrics-cert-path",
        SHOW,
        flag_types.text,
        "",
        "DIRECTORY",
        "The directory of the certificate for /metrics, reloaded when it changes. Without it, the operator uses a "
        "self-signed certificate.",
    ),
    Flag("metrics-cert-name", SHOW, flag_types.text, "tls.crt", "NAME", "The certificate file in that directory."),
    Flag("metrics-cert-key", SHOW, flag_types.text, "tls.key", "NAME", "The key file in that directory."),
    Flag(
        "health-probe-bind-address",
        SHOW,
        flag_types.address,
        ":8081",
        "ADDRESS",
        "The address of /healthz and /readyz; 0 disables them.",
    ),
    Flag(
        "log-format",
        SHOW,
        flag_types.choice("json", "console"),
        "json",
        "FORMAT",
        "json, one record per line, or console, for terminals.",
    ),
    Flag(
        "log-level",
        SHOW,
        flag_types.choice("debug", "info", "warning", "error"),
        "info",
        "LEVEL",
        "The minimum level: debug, info, warning or error.",
    ),
    Flag(
        "log-ended-jobs",
        SHOW,
        flag_types.switch,
        "true",
        "",
        "Log one record of at most 1 kB for each job that ends, with what it took and what failed first.",
    ),
    Flag(
        "conversion-webhook-bind-address",
        CONVERT,
        flag_types.address,
        "0",
        "ADDRESS",
        "The address of the webhook that converts between the versions of a CRD; 0 disables it.",
    ),
    Flag(
        "conversion-webhook-secret",
        CONVERT,
        flag_types.text,
        "",
        "NAME",
        "The Secret, in the namespace of the Lease, for the webhook's certificate. It must exist. Any replica fills it "
        "while it is empty or useless; the leader renews its content and writes its authorities into the CRD.",
    ),
    Flag(
        "conversion-webhook-host",
        CONVERT,
        flag_types.text,
        "",
        "NAME",
        "The host name by which the API server reaches the webhook, such as tf-operator.kubeflow.svc; for the "
        "certificate in that Secret.",
    ),
    Flag(
        "conversion-webhook-cert-path",
        CONVERT,
        flag_types.text,
        "",
        "FOLDER",
        "Instead of the Secret: a folder with tls.crt and tls.key, which are read again when they change.",
    ),
    Flag(
        "conversion-webhook-versions",
        CONVERT,
        flag_types.texts,
        "",
        "VERSIONS",
        "The older versions that the CRD serves, such as v1beta1,v1alpha1. Fields that only "
        "another version has, such as tensorboard of v1alpha1, have no effect.",
        is_repeatable=True,
    ),
    Flag(
        "progress-bind-address",
        PROGRESS,
        flag_types.address,
        "0",
        "ADDRESS",
        "The address at which programs report their progress, for jobs with runPolicy.progressPolicy; 0 disables it. "
        "Needs permission to create TokenReviews.",
    ),
    Flag(
        "progress-url",
        PROGRESS,
        flag_types.text,
        "",
        "URL",
        "How pods reach that address, such as https://tf-operator-progress.kubeflow.svc.",
    ),
    Flag(
        "progress-cert-path",
        PROGRESS,
        flag_types.text,
        "",
        "FOLDER",
        "A folder with tls.crt and tls.key for the host of that URL, which are read again when they change, and with "
        "ca.crt, the authority that pods trust.",
    ),
)
