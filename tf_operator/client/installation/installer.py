"""Writes an installation into a cluster, and takes it away again."""

from collections.abc import Callable
from contextlib import suppress
from typing import Final

from msgspec import structs

from tf_operator.client import changes
from tf_operator.client.installation import cluster_check, objects, ownership
from tf_operator.client.installation.cluster_check import InstallationPlan
from tf_operator.client.installation.objects import CRDS, DEPLOYMENTS, NAME, NAMESPACES
from tf_operator.machinery.transport import discovery, errors, requests, responses
from tf_operator.machinery.transport.client import ApiClient
from tf_operator.machinery.transport.requests import Resource, Scope
from tf_operator.meta import Body, ObjectKey, key_of, labels_of, metadata_of, uid_of

PODS: Final = Resource("", "v1", "pods", "Pod")
LEASES: Final = Resource("coordination.k8s.io", "v1", "leases", "Lease")
POD_SELECTOR: Final = f"app.kubernetes.io/name={NAME},app.kubernetes.io/component=controller"
_DERIVED: Final = frozenset({"Event", "Endpoints", "EndpointSlice"})
"""Kinds that say something of other objects, and keep no namespace."""
_OF_EVERY_NAMESPACE: Final = frozenset({("ConfigMap", "kube-root-ca.crt"), ("ServiceAccount", "default")})
_METADATA: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
"""Contents of Secrets are never read."""
_LOOK_EVERY: Final = 0.5
_ENDS_WITHIN: Final = 60.0

Report = Callable[[str], object]
"""Called with a line for each object that was written or removed."""


async def install(client: ApiClient, plan: InstallationPlan, report: Report) -> None:
    """Apply all, then remove what is left over. If that is cut, the next call goes on."""
    for body in plan.applied:
        stored = responses.read_object(await client.send(cluster_check.make_apply(body)))
        earlier = plan.versions.get(objects.identity_of(body))
        change = "unchanged" if cluster_check.version_of(stored) == earlier else "changed" if earlier else "created"
        report(f"{objects.name_of(body)} {change}")
    for surplus in plan.removed:
        await _remove(client, surplus, report)


async def uninstall(client: ApiClient, ours: list[Body], report: Report, *, with_crds: bool = False) -> None:
    """Remove these objects of an installation; jobs and CRDs stay, unless ``with_crds``.

    None is removed if one of them could not be. The operator ends before its rights go, and its Lease goes
    before the right to it, which the next call finds if this one is cut. A namespace that holds anything else stays.
    """
    removed = [*ownership.removable(ours), *(body for body in ours if body["kind"] == CRDS.kind and with_crds)]
    await cluster_check.check_removal(client, removed)
    for body in removed:
        if body["kind"] == "Role":
            await _remove_lease(client, key_of(body).namespace, report)
        await _remove(client, body, report)
        if body["kind"] == DEPLOYMENTS.kind:
            await _wait_gone(client, Scope(key_of(body).namespace, label_selector=POD_SELECTOR))
    for body in (body for body in ours if body["kind"] == NAMESPACES.kind):
        if remainder := await _remainder(client, key_of(body).name):
            report(f"{objects.name_of(body)} stays, because of {remainder}")
        else:
            await _remove(client, body, report)


async def _remove_lease(client: ApiClient, namespace: str, report: Report) -> None:
    """The operator makes it, by a right that it was given for this."""
    lease = await cluster_check.read(client, LEASES, ObjectKey(namespace, NAME))
    if lease is not None:
        await _remove(client, {**lease, "kind": LEASES.kind}, report)


async def _remove(client: ApiClient, body: Body, report: Report) -> None:
    """Remove this object, and none that has taken its name."""
    resource = LEASES if body["kind"] == LEASES.kind else objects.resource_of(body)
    try:
        await client.delete(resource, key_of(body), uid=uid_of(body), propagation="Background")
    except errors.NotFound:
        return
    report(f"{objects.name_of(body)} deleted")


async def _wait_gone(client: ApiClient, scope: Scope) -> None:
    """Wait until the operator has ended, or for as long as a node that is lost may be waited for."""
    with suppress(TimeoutError):
        async with client.clock.timeout(_ENDS_WITHIN):
            while (await changes.list_all(client, PODS, scope)).items:
                await client.clock.sleep(_LOOK_EVERY)


async def _remainder(client: ApiClient, namespace: str) -> str:
    """Something in a namespace that was not made by this installation, as ``Pod p``; empty if there is nothing."""
    for resource in await discovery.contents_of_namespaces(client):
        if resource.kind in _DERIVED:
            continue
        try:
            request = requests.list_page(resource, Scope(namespace), limit=500)
            reply = await client.send(structs.replace(request, accept=_METADATA))
            items = responses.read_object(reply).get("items") or ()
        except errors.NotFound:  # the CRD is gone
            continue
        except errors.Forbidden:
            return f"{resource}, which you may not list"
        except errors.ServerFailed:  # as of an aggregated API whose server is down
            return f"{resource}, which cannot be listed"
        for item in items:
            name = key_of(item).name
            is_leaving = bool(metadata_of(item).get("deletionTimestamp")) or _is_of_operator(item)
            if not is_leaving and (resource.kind, name) not in _OF_EVERY_NAMESPACE:
                return f"{resource.kind} {name}"
    return ""


def _is_of_operator(item: Body) -> bool:
    """Whether the Deployment's controllers have made it, for what people make may have its labels."""
    labels = labels_of(item)
    pairs = (pair.split("=") for pair in POD_SELECTOR.split(","))
    return bool(metadata_of(item).get("ownerReferences")) and all(labels.get(name) == value for name, value in pairs)
