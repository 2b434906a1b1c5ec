"""Flags that deployed manifests carry and that change nothing here: each is accepted, and costs one line of warning."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class IgnoredFlag:
    """A flag of other operators that is accepted and changes nothing; ``why`` follows its name in the warning."""

    name: str
    reason: str
    is_switch: bool = False


_WEBHOOK = "there is no webhook: the checks are in the CRD"
_OTHER_KINDS = "this operator runs TensorFlow jobs only"
_RENAMED = "it is called --{} here"

BY_NAME = {
    flag.name: flag
    for flag in (
        IgnoredFlag("webhook-server-port", _WEBHOOK),
        IgnoredFlag("webhook-service-name", _WEBHOOK),
        IgnoredFlag("webhook-secret-name", _WEBHOOK),
        IgnoredFlag("pytorch-init-container-image", _OTHER_KINDS),
        IgnoredFlag("pytorch-init-container-template-file", _OTHER_KINDS),
        IgnoredFlag("pytorch-init-container-max-tries", _OTHER_KINDS),
        IgnoredFlag("mpi-kubectl-delivery-image", _OTHER_KINDS),
        IgnoredFlag("zap-devel", "see --log-format", is_switch=True),
        IgnoredFlag("zap-stacktrace-level", "errors always have a traceback"),
        IgnoredFlag("zap-time-encoding", "times are always RFC 3339"),
        # What the manifests of tf-operator 0.1 to 1.2 carry.
        IgnoredFlag("alsologtostderr", "logs always go to standard error", is_switch=True),
        IgnoredFlag("logtostderr", "logs always go to standard error", is_switch=True),
        IgnoredFlag("v", _RENAMED.format("log-level")),
        IgnoredFlag("gc-interval", "the API server collects what has lost its owner"),
        IgnoredFlag("chaos-level", "this operator deletes no pods at random"),
        IgnoredFlag("threadiness", _RENAMED.format("controller-threads")),
        IgnoredFlag("qps", _RENAMED.format("kube-api-qps")),
        IgnoredFlag("burst", _RENAMED.format("kube-api-burst")),
        IgnoredFlag("monitoring-port", _RENAMED.format("metrics-bind-address")),
        IgnoredFlag("resync-period", "no change is missed, so there is no resync"),
        IgnoredFlag("resyc-period", "no change is missed, so there is no resync"),
    )
}
