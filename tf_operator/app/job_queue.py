"""The job queue: its parts, and what is watched for it. Without it, none of that is there."""

from tf_operator.app.wiring import ControllerContext
from tf_operator.controller import caches
from tf_operator.controller.job_queue import planner, projections
from tf_operator.controller.job_queue.planner import QueuePlanner
from tf_operator.controller.job_queue.queue_jobs import JobSource, QueueJobs
from tf_operator.controller.job_queue.set_aside import SetAside
from tf_operator.controller.job_queue.usage import NodeUsage, OnNode
from tf_operator.controller.metrics_hooks import QueueDecisions
from tf_operator.controller.resources import PODS
from tf_operator.machinery.cache.factory import Need
from tf_operator.planning.job_queue.schedule import QueueRules


def make_queue_planner(
    context: ControllerContext, rules: QueueRules, instruments: QueueDecisions, *, period: float = planner.PERIOD
) -> QueuePlanner:
    """The queue of all APIs that are served. It counts with all pods and nodes of the cluster."""
    informers, apis = context.informers, context.options.apis
    nodes = informers.get(projections.NODES, decode=projections.read_node)
    decode = projections.counted_pod_reader(apis)
    pods = informers.get(PODS, decode=decode, indexes={caches.OWNER: caches.owner_of})
    priorities = informers.get(
        projections.PRIORITY_CLASSES,
        decode=projections.read_priority_class,
        need=Need.OPTIONAL,  # without them, all jobs have the same priority
    )
    sources = tuple(JobSource(api, caches.job_informer(informers, context.scopes(), api)) for api in apis)
    usage, set_aside = NodeUsage(), SetAside(context.clock, instruments)
    pods.add_handler(usage)
    nodes.add_handler(OnNode(usage))
    queue = QueuePlanner(
        jobs=QueueJobs(
            sources,
            pods.store,
            priorities.store,
            settings=context.settings,
            resizes=rules.resizes,
            set_aside=set_aside,
        ),
        nodes=nodes,
        pods=pods,
        usage=usage,
        set_aside=set_aside,
        sources=sources,
        client=context.client,
        clock=context.clock,
        rules=rules,
        instruments=instruments,
        period=period,
    )
    for source in sources:
        source.informer.add_handler(queue)
    return queue
