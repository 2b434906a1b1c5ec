"""Everything that is measured, in one Prometheus registry of its own.

``Metrics`` makes what the parts of the process call: implementations of ``controller.metrics_hooks`` (jobs, reconciles)
and of ``machinery.metrics_hooks`` (queue, client, watches, election). A new metric is a method there, and a family in
the module here that it is about: ``queue``, ``client``, ``watches``, ``process``, ``jobs``, ``phases``. Where client-go
and controller-runtime have a metric, ours has its name and labels, so that dashboards made for them work.

Series exist with the value 0 from the start wherever their labels are known then, so that rates and ``absent()`` tell
the truth about the first hour. Numbers that change while nothing happens (an age, the sizes of the moment) are read by
``sample``, on the event loop that owns them; ``exposition`` asks for it before it renders. Everything else may be
read by any thread.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import prometheus_client
from prometheus_client import CollectorRegistry, ProcessCollector

from tf_operator.app.metrics.client import ClientFamilies, ClientMetrics
from tf_operator.app.metrics.job_queue import JobQueueMetrics
from tf_operator.app.metrics.jobs import JobFamilies, JobMetrics
from tf_operator.app.metrics.process import ConfigMetrics, ElectionMetrics, LoopMetrics, RecorderMetrics, add_build_info
from tf_operator.app.metrics.progress import ProgressMetrics
from tf_operator.app.metrics.queue import (
    ControllerMetrics,
    QueueFamilies,
    QueueMetrics,
    ReconcileFamilies,
    ReconcileMetrics,
)
from tf_operator.app.metrics.watches import ReflectorMetrics, WatchFamilies
from tf_operator.app.metrics.webhook import WebhookMetrics
from tf_operator.dialects import registry as dialects
from tf_operator.machinery.cache.factory import SharedInformerFactory
from tf_operator.machinery.clock import Clock, SystemClock
from tf_operator.machinery.metrics_hooks import ElectionInstruments
from tf_operator.machinery.queue.workqueue import WorkQueue


class Metrics:
    def __init__(
        self,
        *,
        controllers: Mapping[str, str] = {dialects.DEFAULT.controller: dialects.DEFAULT.framework},
        workers: int = 1,
        lease: str = "",
        namespaces: Iterable[str] = (),
        clock: Clock | None = None,
    ) -> None:
        """``controllers`` by name, with the framework of their jobs; each has so many ``workers``.

        ``namespaces`` are those that are served, when they are known: their series begin with 0.

        Without a ``lease`` there is no election, and no series about one.
        """
        # Otherwise each counter has a second series, which nothing uses.
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        add_build_info(self.registry)
        queues, reconciles = QueueFamilies(self.registry), ReconcileFamilies(self.registry)
        jobs, clock, namespaces = JobFamilies(self.registry), clock or SystemClock(), tuple(namespaces)
        reasons = {api.framework: dict.fromkeys(api.failure_reasons.values()) for api in dialects.SERVED}
        self.jobs = {
            framework: JobMetrics(
                jobs, clock, framework=framework, namespaces=namespaces, reasons=reasons.get(framework, ())
            )
            for framework in sorted(set(controllers.values()))
        }
        self.controllers = {
            name: ControllerMetrics(
                self.jobs[framework],
                QueueMetrics(queues, controller=name),
                ReconcileMetrics(reconciles, controller=name, workers=workers),
            )
            for name, framework in controllers.items()
        }
        self.election = ElectionMetrics(self.registry, name=lease) if lease else ElectionInstruments()
        self.recorder = RecorderMetrics(self.registry)
        self.loop = LoopMetrics(self.registry)
        self.config = ConfigMetrics(self.registry)
        self._clients = ClientFamilies(self.registry)
        self._watches = WatchFamilies(self.registry)
        self._samples: list[Callable[[], object]] = [metrics.sample for metrics in self.jobs.values()]

    def job_queue(self) -> JobQueueMetrics:
        """Instruments of the job queue; asked for once, where there is one."""
        return JobQueueMetrics(self.registry)

    def progress(self) -> ProgressMetrics:
        """Instruments of reports of progress; asked for once, where they are taken."""
        return ProgressMetrics(self.registry)

    def webhook(self) -> WebhookMetrics:
        """Instruments of the conversion webhook; asked for once, where there is one."""
        return WebhookMetrics(self.registry)

    def client(self, host: str) -> ClientMetrics:
        return ClientMetrics(self._clients, host=host)

    def reflector(self, informer: str) -> ReflectorMetrics:
        return ReflectorMetrics(self._watches, informer=informer)

    def sample_queue(self, controller: str, queue: WorkQueue[Any]) -> None:
        """From now on ``sample`` reads the ages of what the queue of this controller has given out."""
        self._samples.append(lambda: self.controllers[controller].queue.sample(queue))

    def sample_informers(self, informers: SharedInformerFactory) -> None:
        """From now on ``sample`` reads how long each watch has been idle."""
        self._samples.append(lambda: self._watches.sample(informers))

    def sample(self) -> None:
        """Read the numbers of the moment, on the event loop that changes them. The cost does not grow with jobs."""
        for sample in self._samples:
            sample()
