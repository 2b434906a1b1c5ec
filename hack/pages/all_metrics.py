"""Informers in which nothing happens, and the metrics of a process that has had some of everything."""

from collections.abc import Mapping

from prometheus_client import CollectorRegistry

from tf_operator.app.metrics.registry import Metrics
from tf_operator.controller.metrics_hooks import ReconcileResult


class Idle:
    """As much of ``Informers`` as is sampled: each has been silent for a known time and holds known objects."""

    def __init__(self, silences: Mapping[str, float] | None = None, *, objects: int = 7) -> None:
        self._silences = dict(silences or {"pods": 1.0})
        self._objects = objects

    def idle_seconds(self) -> dict[str, float]:
        """For how long each has received nothing."""
        return dict(self._silences)

    def sizes(self) -> dict[str, int]:
        """How many objects each holds."""
        return dict.fromkeys(self._silences, self._objects)


def full_registry() -> CollectorRegistry:
    """The metrics of a process with an election, a client, a watch, and jobs in trouble."""
    metrics = Metrics(lease="lease", namespaces=["ns"])
    client, pods = metrics.client("host"), metrics.reflector("pods")
    client.replied("get", "200", 0.1)
    client.retried("get", "Throttled")
    pods.listed(1, 0.1)
    pods.watch_ended("closed")
    metrics.sample_informers(Idle())  # type: ignore[arg-type]  # as much of it as is sampled
    metrics.jobs["tensorflow"].restarted("ns", replica_type="PS", reason="failed")
    metrics.jobs["tensorflow"].memory_grown("ns", replica_type="PS")
    metrics.jobs["tensorflow"].failed("ns", "TFJobFailed")
    metrics.controllers["tfjob-controller"].reconciles.ended(ReconcileResult.SUCCESS, 0.1)
    metrics.job_queue()
    metrics.webhook().stored("tfjobs.kubeflow.org", 0)
    metrics.progress().replied(200)
    metrics.sample()
    return metrics.registry
