"""One reconcile of one object that asks for a TensorBoard.

All writes can be repeated: children have fixed names, and are changed and deleted by UID. So a cache that does not show
the last write yet costs a request at most, and no write is waited for.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, assert_never

from tf_operator.controller.caches import OWNER, owner_value
from tf_operator.controller.reconciler import UNREADABLE_WAITS
from tf_operator.controller.rejections import is_answer, is_final
from tf_operator.controller.result import DONE, Result
from tf_operator.controller.tensorboards.sources import Source
from tf_operator.controller.writing.writes import Writer
from tf_operator.machinery.cache.consistency import OwnerKey
from tf_operator.machinery.cache.informer import Informer
from tf_operator.machinery.log import Logger
from tf_operator.machinery.transport import errors
from tf_operator.meta import ObjectKey
from tf_operator.planning import tensorboards
from tf_operator.planning.actions import Action, Create, Delete, DeleteCollection, Patch
from tf_operator.projections.tensorboards import CachedChild
from tf_operator.text import one_line

_log = Logger(__name__)


@dataclass(frozen=True, slots=True)
class TensorBoardReconciler:
    source: Source[Any]
    deployments: Informer[CachedChild]
    services: Informer[CachedChild]
    writer: Writer
    cluster_domain: str

    def begin_term(self) -> None:
        self.source.begin_term()

    def end_term(self) -> None:
        """Nothing is kept that is of no use to who stands by."""

    async def reconcile(self, key: ObjectKey) -> Result:
        item = self.source.informer.store.get(key)
        request = self.source.read(item) if item else None
        if item is None or request is None:
            return DONE
        caches = (self.source.informer, self.deployments, self.services)
        if any(not cache.has_synced or cache.is_stale(key.namespace) for cache in caches):
            return Result(UNREADABLE_WAITS)
        observed = tensorboards.Observed(
            namespace=key.namespace,
            owner=request.owner,
            board=request.board,
            deployments=self._children(self.deployments, key, request.owner.uid),
            services=self._children(self.services, key, request.owner.uid),
            has_ended=request.has_ended,
            cluster_domain=self.cluster_domain,
        )
        plan = tensorboards.plan(observed)
        refusal = await self._carry_out(OwnerKey(key, request.owner.uid), plan.actions)
        if refusal:
            plan = tensorboards.plan(replace(observed, rejected=one_line(str(refusal))))
        await self.source.report(item, plan, self.writer)
        if refusal and not is_final(refusal):
            raise refusal  # tried again, later each time
        return DONE

    def _children(
        self, informer: Informer[CachedChild], key: ObjectKey, uid: str
    ) -> tuple[tensorboards.TensorBoardChild, ...]:
        return tuple(entry.child for entry in informer.store.by_index(OWNER, owner_value(key.namespace, uid)))

    async def _carry_out(self, owner: OwnerKey, actions: Iterable[Action]) -> errors.Refused | None:
        """One after the other; the first refusal ends it."""
        for action in actions:
            try:
                await self._act(owner, action)
            except errors.Refused as refusal:
                if not is_answer(refusal, is_change=isinstance(action, Patch)):
                    raise
                _log.info("a part of a TensorBoard was rejected", what=str(action.resource), error=str(refusal))
                return refusal
        return None

    async def _act(self, owner: OwnerKey, action: Action) -> None:
        match action:
            case Create():
                await self.writer.create(owner, action.resource, action.body())
            case Patch():
                content = action.content()
                body = {**content, "metadata": {**content["metadata"], "uid": action.uid}}
                await self.writer.patch(owner, action.resource, action.name, body=body)
            case Delete():
                await self.writer.delete(owner, action.resource, name=action.name, uid=action.uid)
            case DeleteCollection():
                raise NotImplementedError
            case _:
                assert_never(action)
