"""The controllers of TensorBoards: which there are by the options, and the parts of one.

With ``--tensorboards=none`` there is none, and nothing is watched for them.
"""

from operator import attrgetter
from typing import Any, Final, TypeVar

from tf_operator.app.options.options import Options, Tensorboards
from tf_operator.app.wiring import FIRST_RETRY, LONGEST_RETRY, ControllerContext
from tf_operator.controller import caches
from tf_operator.controller.controller import Controller
from tf_operator.controller.tensorboards.reconciler import TensorBoardReconciler
from tf_operator.controller.tensorboards.sources import (
    Asking,
    OnSource,
    OnTensorBoardChild,
    Source,
    TensorBoardObjects,
    TensorBoardsOfJobs,
)
from tf_operator.controller.writing.writes import Writer
from tf_operator.dialects.served import ServedAPI
from tf_operator.job.tensorboard import OPERATOR_NAME, RESOURCE
from tf_operator.machinery.cache.consistency import PendingWrites
from tf_operator.machinery.cache.factory import Need
from tf_operator.machinery.cache.store import Item
from tf_operator.machinery.queue.workqueue import RateLimitedQueue
from tf_operator.machinery.ratelimit import ExponentialBackoff
from tf_operator.meta import ObjectKey
from tf_operator.planning import tensorboards
from tf_operator.planning.bodies.children import SERVICES
from tf_operator.planning.child_kinds.tensorboard import KIND
from tf_operator.projections.tensorboards import read_child

_FRAMEWORK: Final = "tensorflow"
_WRITTEN: Final = frozenset(map(str, (RESOURCE, SERVICES, tensorboards.DEPLOYMENTS)))

T = TypeVar("T", bound=Item)


def frameworks(options: Options) -> dict[str, str]:
    """The controllers by name, with the framework of what they show."""
    return dict.fromkeys(_names(options), _FRAMEWORK)


def make_controllers(context: ControllerContext) -> dict[str, Controller]:
    return {name: _make(context, name, _source(context, api)) for name, api in _names(context.options).items()}


def _names(options: Options) -> dict[str, ServedAPI | None]:
    """The names of the controllers, and the API whose jobs each is for; ``None`` for objects of kind TensorBoard."""
    objects = {OPERATOR_NAME: None} if options.tensorboards is Tensorboards.SERVE else {}
    running = (api for api in options.apis if api.tensorboards_in and not options.without_tensorboards(api))
    return objects | {f"{api.controller}-tensorboards": api for api in running}


def _source(context: ControllerContext, api: ServedAPI | None) -> Source[Any]:
    if api is None:
        options = context.options
        return TensorBoardObjects(caches.extra_informer(context.informers, KIND, options.namespaces, options.apis))
    return TensorBoardsOfJobs(caches.job_informer(context.informers, context.scopes(), api), api, context.recorder)


def _make(context: ControllerContext, name: str, source: Source[Any]) -> Controller:
    clock, metrics = context.clock, context.controllers[name]
    backoff = ExponentialBackoff[ObjectKey](base=FIRST_RETRY, cap=LONGEST_RETRY)
    queue = RateLimitedQueue[ObjectKey](clock, backoff, instruments=metrics.queue, flow=attrgetter("namespace"))
    queue.pause()  # until this process leads
    deployments, services = (
        context.informers.get(
            resource,
            decode=read_child,
            scopes=context.scopes(tensorboards.SELECTOR),
            indexes={caches.OWNER: caches.owner_of},
            need=Need.OPTIONAL,  # jobs do not wait for it
        )
        for resource in (tensorboards.DEPLOYMENTS, SERVICES)
    )
    source.informer.add_handler(OnSource(queue, source))
    for children in (deployments, services):
        children.add_handler(OnTensorBoardChild(queue, source.informer.store.by_uid))
    writer = Writer(context.client, PendingWrites({}, clock, uncached=_WRITTEN))
    reconciler = TensorBoardReconciler(source, deployments, services, writer, context.options.cluster_domain)
    return Controller(
        queue=queue,
        jobs=Asking(source),
        reconciler=reconciler,
        notes=reconciler,
        clock=clock,
        instruments=metrics.reconciles,
        workers=min(context.options.workers, 4),
    )
