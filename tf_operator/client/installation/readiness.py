"""Whether the operator that was installed is at work, and what keeps it from that."""

from collections.abc import Iterable, Iterator
from typing import Final

from tf_operator.client import changes
from tf_operator.client.installation import cluster_check
from tf_operator.client.installation.installer import LEASES, POD_SELECTOR, PODS
from tf_operator.client.installation.objects import DEPLOYMENTS, NAME
from tf_operator.machinery.clock import Clock
from tf_operator.machinery.transport.client import ApiClient
from tf_operator.machinery.transport.requests import Scope
from tf_operator.meta import Body, ObjectKey, key_of, mapping_of, metadata_of, objects_of, text_of

_LOOK_EVERY: Final = 0.5


class NotReady(Exception):
    """The operator is installed, and not at work in time; the message says why."""


async def wait_ready(client: ApiClient, namespace: str, clock: Clock, *, within: float) -> None:
    """Return when all replicas of this very Deployment are available and one of them leads; else ``NotReady``."""
    key = ObjectKey(namespace, NAME)
    try:
        async with clock.timeout(within):
            while not await _is_ready(client, key):
                await clock.sleep(_LOOK_EVERY)
    except TimeoutError:
        reasons = (text for pod in await _pods(client, namespace) for text in waits(pod))
        reason = next(reasons, "its pods do not become available")
        raise NotReady(f"the operator is installed, but not ready after {within:g} s: {reason}") from None


async def _is_ready(client: ApiClient, key: ObjectKey) -> bool:
    deployment = await cluster_check.read(client, DEPLOYMENTS, key)
    if deployment is None or not is_rolled_out(deployment):
        return False
    lease = await cluster_check.read(client, LEASES, key)
    return lease is not None and is_held(lease, await _pods(client, key.namespace))


async def _pods(client: ApiClient, namespace: str) -> list[Body]:
    return (await changes.list_all(client, PODS, Scope(namespace, label_selector=POD_SELECTOR))).items


def is_rolled_out(deployment: Body) -> bool:
    """Whether all replicas are available, and none of an older template is left."""
    status, replicas = mapping_of(deployment.get("status")), mapping_of(deployment.get("spec")).get("replicas")
    counts = [status.get(name) for name in ("replicas", "updatedReplicas", "availableReplicas")]
    return status.get("observedGeneration") == metadata_of(deployment).get("generation") and counts == [replicas] * 3


def is_held(lease: Body, pods: Iterable[Body]) -> bool:
    """Whether one of these pods leads; they put their names before ``_``. No clock is compared with theirs."""
    holder = text_of(mapping_of(lease.get("spec")), "holderIdentity").partition("_")[0]
    return holder in {key_of(pod).name for pod in pods if not metadata_of(pod).get("deletionTimestamp")}


def waits(pod: Body) -> Iterator[str]:
    """What a pod waits for, as the kubelet or the scheduler says."""
    status = mapping_of(pod.get("status"))
    for container in objects_of(status.get("containerStatuses")):
        waiting = mapping_of(mapping_of(container.get("state")).get("waiting"))
        if message := text_of(waiting, "message"):
            yield f"{text_of(waiting, 'reason')}: {message}"
    for condition in objects_of(status.get("conditions")):
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            yield text_of(condition, "message")
