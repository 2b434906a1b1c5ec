"""A driver that plays the kubelet: it moves pods through their lives by writing their status.

No container runs anywhere; what the operator sees is what a kubelet would have written (``pod_status``),
guarded by the pod's UID. ``autopilot`` does the same for every pod of a namespace by a script.

A pod that was never bound to a node, or has finished, is gone the moment it is deleted. A test that needs the time in
between either binds it (``bind``, then ``end``) or holds it by a finalizer (``hold``, ``release``).
"""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

from support.api import Api
from support.pods import pod_status
from support.pods.pod_status import Exit, Waiting
from support.resources import PODS, Json

HOLD = "test.tf-operator/hold"
"""The finalizer that keeps a pod in Terminating until the test says otherwise."""


class Kubelet:
    """Drives the pods of one namespace. Every method takes a pod by name and returns it as it is then."""

    def __init__(self, api: Api, namespace: str) -> None:
        self.api = api
        self.namespace = namespace

    async def wait_in(self, name: str, waiting: Waiting) -> Json:
        """Pending, with its containers waiting for a reason."""
        return await self._change(name, partial(pod_status.pending, waiting=waiting))

    async def run(self, name: str) -> Json:
        return await self._change(name, pod_status.running)

    async def restart(self, name: str, how: Exit) -> Json:
        """Its container ends and is started again in place."""
        return await self._change(name, partial(pod_status.restarted, how=how))

    async def succeed(self, name: str) -> Json:
        return await self._change(name, pod_status.finished)

    async def fail(self, name: str, how: Exit) -> Json:
        return await self._change(name, partial(pod_status.finished, how=how))

    async def reject(self, name: str, reason: str, message: str) -> Json:
        """Failed at admission by the node, for this reason; no container was ever made."""
        return await self._change(name, partial(pod_status.rejected, reason=reason, message=message))

    async def evict(self, name: str) -> Json:
        return await self._change(name, pod_status.evicted)

    async def lose_node(self, name: str) -> Json:
        """The pod's node is silent: phase Unknown, and the pod is deleted but nobody confirms it.

        It stays in Terminating, as in life until the node is back or someone forces it: ``release`` it.
        """
        await self.hold(name)
        await self._change(name, pod_status.lost)
        return await self.disrupt(name, "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint")

    async def disrupt(self, name: str, reason: str, message: str) -> Json:
        """Say in the condition DisruptionTarget why the pod must go, then delete it; the pod as deleted."""
        pod = await self._change(name, partial(pod_status.disrupted, reason=reason, message=message))
        return await self.api.delete(self._path(name), uid=pod["metadata"]["uid"])

    async def bind(self, name: str, node: str = "node-1") -> Json:
        """Bind the pod to a node, which need not exist: from now on its deletion is graceful.

        A controller-manager removes pods of nodes that are none after 40 s.
        """
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        await self.api.create(self._path(name, "binding"), binding)
        return await self.pod(name)

    async def end(self, pod: Json) -> None:
        """Remove this very pod without grace, as when the containers of a deleted one are gone."""
        metadata = pod["metadata"]
        await self.api.delete(self._path(metadata["name"]), uid=metadata["uid"], grace=0)

    async def hold(self, name: str) -> Json:
        """Add a finalizer, so that the pod, once deleted, stays in Terminating; not possible after that."""
        patch = {"metadata": {"finalizers": [HOLD]}}
        return await self.api.patch(self._path(name), patch, "strategic")

    async def release(self, name: str) -> None:
        patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": [HOLD]}}
        await self.api.patch(self._path(name), patch, "strategic")

    async def pod(self, name: str) -> Json:
        return await self.api.get(self._path(name))

    async def is_gone(self, pod: Json) -> bool:
        """Whether this very pod is no more; its name may be another's by now."""
        current = await self.api.find(self._path(pod["metadata"]["name"]))
        return current is None or current["metadata"]["uid"] != pod["metadata"]["uid"]

    async def write(self, pod: Json, status: Callable[[Json, str], Json]) -> Json:
        """Give the pod the status that a function of ``pod_status`` makes of it; one request."""
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        patch = pod_status.merge_patch(pod, status(pod, now))
        return await self.api.patch(self._path(pod["metadata"]["name"], "status"), patch)

    async def _change(self, name: str, status: Callable[[Json, str], Json]) -> Json:
        return await self.write(await self.pod(name), status)

    def _path(self, name: str, subresource: str = "") -> str:
        return PODS.path(self.namespace, name, subresource)
