"""Each loop that serves many jobs, with one job among healthy ones that raises, has no pods, or is huge.

A loop is a row of the table: it is given the jobs in an order in which the poisoned one is neither first nor last, and
a switch that makes the very thing raise that the loop does for one job. It returns the names of the jobs that it has
served. Whatever the poisoned job does, the healthy ones are among them.
"""

import asyncio
import json
from collections.abc import Iterable
from dataclasses import dataclass
from types import SimpleNamespace

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from support.embedded.controller_harness import FakeInformer, Recorder
from support.fake_clock import FakeClock
from support.jobs import builders
from support.jobs.templates import Template
from tf_operator.app.metrics.jobs import JobFamilies, JobMetrics
from tf_operator.app.webhook import review
from tf_operator.app.webhook.share import TimeShare
from tf_operator.controller.caches import OWNER, owner_of
from tf_operator.controller.controller import Controller
from tf_operator.controller.job_queue import planner, projections, queue_jobs, set_aside
from tf_operator.controller.job_queue.planner import QueuePlanner
from tf_operator.controller.job_queue.queue_jobs import JobSource, QueueJobs
from tf_operator.controller.job_queue.set_aside import SetAside
from tf_operator.controller.job_queue.usage import NodeUsage
from tf_operator.controller.metrics_hooks import QueueDecisions, ReconcileInstruments
from tf_operator.controller.resources import PODS
from tf_operator.controller.result import DONE
from tf_operator.controller.status_batches import StatusBatches
from tf_operator.controller.tensorboards.sources import Asking, OnSource, TensorBoardsOfJobs
from tf_operator.dialects.kubeflow import v1
from tf_operator.machinery.cache.decoding import ObjectDecoder
from tf_operator.machinery.cache.informer import Informer
from tf_operator.machinery.cache.store import Store
from tf_operator.machinery.metrics_hooks import ReflectorInstruments
from tf_operator.machinery.queue.workqueue import RateLimitedQueue
from tf_operator.machinery.ratelimit import ExponentialBackoff
from tf_operator.machinery.transport import errors
from tf_operator.planning.job_queue.schedule import QueueRules, make_schedule
from tf_operator.planning.snapshot import Settings
from tf_operator.projections.jobs import job_reader
from tf_operator.projections.workloads import workload_reader

HEALTHY = {"a", "z"}
POISONED = "poisoned"
ASKS = Template().resources(requests={"cpu": "1m"})
QUEUED = [{"type": "Created", "status": "True"}, {"type": "Queued", "status": "True"}]
RULE = {"key": "zone", "operator": "NotIn", "values": [f"zone-{number}" for number in range(20_000)]}
NOWHERE = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [RULE]}]}}


def job(name, *, workers=1, template=ASKS):
    body = builders.tfjob(name).workers(workers, template=template).in_namespace(f"of-{name}").body()
    body["metadata"] |= {"uid": f"uid-{name}", "resourceVersion": "1", "generation": 1}
    body["metadata"]["creationTimestamp"] = f"2026-01-01T00:00:0{['a', 'poisoned', 'z'].index(name)}Z"
    return body | {"status": {"conditions": QUEUED}}


POISONS = {
    "raises": job(POISONED),
    "without pods": job(POISONED, workers=0),
    "huge": job(POISONED, workers=10_000, template=ASKS.spec(affinity={"nodeAffinity": NOWHERE})),
}


@dataclass
class Case:
    """The jobs, and whether what is done for the poisoned one raises."""

    body: dict
    raises: bool
    patch: pytest.MonkeyPatch
    clock: FakeClock

    @property
    def bodies(self):
        return [job("a"), self.body, job("z")]

    @property
    def stored(self):
        return [job_reader(v1.API)(msgspec.json.encode(body)) for body in self.bodies]

    def or_raise(self, name, function):
        """The function, which raises for the poisoned job; ``name`` takes its arguments."""

        def call(*arguments, **named):
            if self.raises and POISONED in name(*arguments):
                raise IndexError("a bug")
            return function(*arguments, **named)

        return call

    def replace(self, where, attribute, name):
        self.patch.setattr(where, attribute, self.or_raise(name, getattr(where, attribute)))


def text(first, *_):
    return str(first)


# --- The job queue ----------------------------------------------------------------------------------------


async def _queue(case, refuses=None):
    usage, jobs, nodes = NodeUsage(), Store(), Store()
    for stored in case.stored:
        jobs.put(stored)
    status = {"allocatable": {"cpu": "8", "pods": "110"}, "conditions": [{"type": "Ready", "status": "True"}]}
    node = {"metadata": {"name": "n", "uid": "n", "resourceVersion": "1"}, "status": status}
    nodes.put(projections.read_node(msgspec.json.encode(node)))
    source, served = JobSource(v1.API, FakeInformer(v1.RESOURCE, jobs)), []
    aside = SetAside(case.clock, QueueDecisions())

    async def merge_patch(_resource, key, _body, *, subresource):
        if refuses and key.name == POISONED:
            raise refuses
        served.append((key.name, subresource))

    loop = QueuePlanner(
        jobs=QueueJobs(
            (source,),
            Store({OWNER: owner_of}),
            Store(),
            settings=lambda: Settings(has_job_queue=True),
            resizes=True,
            set_aside=aside,
        ),
        nodes=FakeInformer(projections.NODES, nodes),
        pods=FakeInformer(PODS, Store()),
        usage=usage,
        set_aside=aside,
        sources=(source,),
        client=SimpleNamespace(merge_patch=merge_patch),
        clock=case.clock,
        rules=QueueRules(),
        instruments=QueueDecisions(),
    )
    task = asyncio.ensure_future(loop.run())
    await case.clock.advance(3)
    task.cancel()
    return {name for name, _ in served}


async def reading_jobs_for_the_queue(case):
    case.replace(queue_jobs, "job_of", lambda stored, _api: stored.metadata.name)
    return await _queue(case)


async def planning_the_queue(case):
    plan = case.or_raise(lambda cluster: [queue_job.key.name for queue_job in cluster.jobs], make_schedule)
    for module in (planner, set_aside):
        case.patch.setattr(module, "make_schedule", plan)
    return await _queue(case)


async def recording_what_the_queue_decides(case):
    return await _queue(case, errors.Forbidden(403, errors.Status()) if case.raises else None)


# --- Workers, and what gives them keys -------------------------------------------------------------------------------


def _work_queue(case):
    return RateLimitedQueue(case.clock, ExponentialBackoff(base=1, cap=60), flow=lambda key: key.namespace)


async def _served_by_workers(case, jobs: Iterable):
    served = []
    name = lambda key: key.name  # noqa: E731
    controller = Controller(
        queue=_work_queue(case),
        jobs=jobs,
        reconciler=SimpleNamespace(reconcile=_awaitable(case.or_raise(name, served.append))),
        notes=SimpleNamespace(begin_term=lambda: None, end_term=lambda: None),
        clock=case.clock,
        instruments=ReconcileInstruments(),
        workers=1,
    )
    task = asyncio.ensure_future(controller.run())
    await case.clock.advance(1)
    task.cancel()
    return {key.name for key in served}


def _awaitable(function):
    async def reconcile(key):
        function(key)
        return DONE

    return reconcile


async def workers_that_reconcile(case):
    return await _served_by_workers(case, case.stored)


async def the_first_keys_of_a_term(case):
    store = Store()
    for stored in case.stored:
        store.put(stored)
    source = TensorBoardsOfJobs(FakeInformer(v1.RESOURCE, store), v1.API, Recorder())
    may_ask = case.or_raise(lambda item: item.metadata.name, lambda _item: True)
    asking = SimpleNamespace(informer=source.informer, may_ask=may_ask)
    return await _served_by_workers(case, Asking(asking))


# --- Handlers of what is watched -------------------------------------------------------------------------------------


def _informer(case, *handlers):
    decode = job_reader(v1.API)
    informer = Informer(v1.RESOURCE, client=None, clock=case.clock, decode=decode)
    for handler in handlers:
        informer.add_handler(handler)
    writer = informer._make_writer(SimpleNamespace(namespace=""))
    for version, body in enumerate(case.bodies, 1):
        body["metadata"]["resourceVersion"] = str(version)
        writer.apply("ADDED", msgspec.Raw(json.dumps(body).encode()))
    return informer


async def handlers_of_jobs(case):
    served = []
    on_add = case.or_raise(lambda item: item.metadata.name, lambda item: served.append(item.metadata.name))
    first, second = (SimpleNamespace(on_add=on_add) for _ in range(2))
    _informer(case, first, second)
    return {name for name in served if served.count(name) == 2}


async def handlers_of_tensorboards(case):
    queue, store = _work_queue(case), Store()
    source = TensorBoardsOfJobs(FakeInformer(v1.RESOURCE, store), v1.API, Recorder())
    may_ask = case.or_raise(lambda item: item.metadata.name, lambda _item: True)
    _informer(case, OnSource(queue, SimpleNamespace(informer=source.informer, may_ask=may_ask)))
    return {(await queue.get()).name for _ in range(queue.depth)}


async def counting_jobs_by_phase(case):
    registry = CollectorRegistry()
    metrics = JobMetrics(JobFamilies(registry), case.clock)
    case.replace(metrics, "_begin", text)
    _informer(case, metrics.phases)
    labels = {"framework": "tensorflow", "phase": "Queued"}
    return {
        name
        for name in (*HEALTHY, POISONED)
        if registry.get_sample_value("tf_operator_jobs", labels | {"job_namespace": f"of-{name}"})
    }


async def reading_what_is_watched(case):
    read = case.or_raise(lambda raw: bytes(raw).decode(), job_reader(v1.API))
    reader = ObjectDecoder(read, store=Store(), instruments=ReflectorInstruments())
    items = [reader.read(msgspec.Raw(json.dumps(body).encode()))[1] for body in case.bodies]
    return {item.metadata.name for item in items if item}


async def reading_workloads(case):
    read = case.or_raise(lambda raw: bytes(raw).decode(), workload_reader((v1.API,)))
    reader = ObjectDecoder(read, store=Store(), instruments=ReflectorInstruments())
    pod_sets = [
        {"name": "worker", "count": body["spec"]["tfReplicaSpecs"]["Worker"]["replicas"]} for body in case.bodies
    ]
    raw = [
        {"metadata": body["metadata"], "spec": {"podSets": [pod_set]}}
        for body, pod_set in zip(case.bodies, pod_sets, strict=True)
    ]
    items = [reader.read(msgspec.Raw(json.dumps(body).encode()))[1] for body in raw]
    return {item.metadata.name for item in items if item}


# --- What is kept and answered ---------------------------------------------------------------------------------------


async def batches_of_statuses(case):
    exists = case.or_raise(text, lambda _uid: True)
    batches, served = StatusBatches(case.clock, exists), set()
    reconcile = _awaitable(lambda key: batches.note_created(f"uid-{key.name}", key.name))
    for stored in case.stored:
        try:
            await reconcile(stored.metadata.key)
        except IndexError:
            continue  # as a worker does
    batches.begin_term()
    for stored in case.stored:
        batches.note_created(stored.metadata.uid, "p") if stored.metadata.name in HEALTHY else None
        served |= {stored.metadata.name} if batches.take_created(stored.metadata.uid) else set()
    return served


async def conversions(case):
    convert = case.or_raise(lambda body, _version: body["metadata"]["name"], v1.API.conversion.convert)
    share, served = TimeShare(case.clock, cpu_time=lambda: 0.0), set()
    for body in case.bodies:
        raw = json.dumps(
            {"request": {"uid": "u", "desiredAPIVersion": "kubeflow.org/v1beta1", "objects": [body]}}
        ).encode()
        answered = json.loads(await share.take(review.answer(raw, convert), client="", size=len(raw)))["response"]
        if answered["result"]["status"] == "Success":
            served.add(body["metadata"]["name"])
        else:
            assert answered["result"]["message"] == "of-poisoned/poisoned cannot be converted: IndexError"
    return served


LOOPS = [
    reading_jobs_for_the_queue,
    planning_the_queue,
    recording_what_the_queue_decides,
    workers_that_reconcile,
    the_first_keys_of_a_term,
    handlers_of_jobs,
    handlers_of_tensorboards,
    counting_jobs_by_phase,
    reading_what_is_watched,
    reading_workloads,
    batches_of_statuses,
    conversions,
]


@pytest.mark.parametrize("poison", POISONS)
@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.__name__)
async def test_a_poisoned_job_costs_only_itself(loop, poison, monkeypatch, clock):
    served = await loop(Case(POISONS[poison], poison == "raises", monkeypatch, clock))

    assert served >= HEALTHY
    assert poison != "raises" or POISONED not in served
