"""Applies a CustomResourceDefinition to a cluster, and waits until it is served.

Server-side and by force: the definition belongs to the operator, however an older one was applied, and an upgrade must
not stop at fields that Kubeflow's manifests or ``kubectl apply`` own. Objects that are stored stay as they are.
Neighbours: ``dialects.registry`` has the definition, ``crd_command`` the command line.
"""

import math
import os
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from tf_operator.machinery.clock import Clock
from tf_operator.machinery.ratelimit import TokenBucket
from tf_operator.machinery.transport import errors, requests, responses
from tf_operator.machinery.transport.client import ApiClient
from tf_operator.machinery.transport.config import ConfigSource
from tf_operator.machinery.transport.connection import Connection
from tf_operator.machinery.transport.in_cluster import InCluster
from tf_operator.machinery.transport.kubeconfig import KubeConfig
from tf_operator.machinery.transport.requests import Request, Resource, Scope
from tf_operator.meta import Body, ObjectKey, metadata_of

CRDS = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", is_namespaced=False
)
FIELD_MANAGER = "tf-operator"
APPLY_PATCH = "application/apply-patch+yaml"
SERVED_WITHIN = 30.0
WEBHOOK_WITHIN = 5.0
"""Seconds for versions that a webhook converts: it may not run before its definition is there."""
_LOOK_EVERY = 0.2


class StillStored(Exception):
    """The definition lacks a version in which objects are stored; the message says which, and what to do."""


class NotServed(Exception):
    """The definition was taken, and its objects are still not served; the message says why."""


def source_of(kubeconfig: str | None, environment: Mapping[str, str] = os.environ) -> ConfigSource:
    """That of this kubeconfig, or as kubectl chooses: inside of a pod without any, its service account."""
    is_pod = environment.get("KUBERNETES_SERVICE_HOST") and not environment.get("KUBECONFIG")
    if is_pod and not kubeconfig and not Path("~/.kube/config").expanduser().exists():
        return InCluster()
    return KubeConfig(kubeconfig)


async def apply(crd: Mapping[str, Any], source: ConfigSource, clock: Clock) -> list[str]:
    """Apply, and return when it is served, with the versions that still wait for their webhook.

    Raises ``ApiError``, ``ConfigurationError``, ``StillStored`` or ``NotServed``.
    """
    key = ObjectKey("", str(metadata_of(crd)["name"]))
    async with connected(source, clock) as client:
        try:
            stored = await client.send(make_request(key, crd))
        except errors.Invalid:
            if "conversion" in crd["spec"]:
                raise
            await _check_stored(client, key, crd)
            await _end_conversion(client, key, crd)
            stored = await client.send(make_request(key, crd))
        if "conversion" not in crd["spec"] and _has_webhook(responses.read_object(stored)):
            await _end_conversion(client, key, crd)  # kubectl has applied it, so it is still there
        return await _wait_served(client, key, clock)


@asynccontextmanager
async def connected(source: ConfigSource, clock: Clock) -> AsyncIterator[ApiClient]:
    async with Connection(source, clock=clock) as connection:
        yield ApiClient(connection, clock=clock, budget=TokenBucket(clock, qps=math.inf, burst=1))


async def _check_stored(client: ApiClient, key: ObjectKey, crd: Mapping[str, Any]) -> None:
    stored = (await client.get(CRDS, key)).get("status", {}).get("storedVersions", ())
    served = {version["name"] for version in crd["spec"]["versions"]}
    if missing := [name for name in stored if name not in served]:
        raise StillStored(f"objects are still stored in {', '.join(missing)}: first run tf-operator crd migrate")


async def _end_conversion(client: ApiClient, key: ObjectKey, crd: Mapping[str, Any]) -> None:
    """An apply leaves what others own, here the authority of the webhook, which is invalid without the webhook.

    The versions go with it, in the same request: without a conversion they would be served wrongly.
    """
    change = {"versions": crd["spec"]["versions"], "conversion": {"strategy": "None", "webhook": None}}
    await client.merge_patch(CRDS, key, {"spec": change})


def _has_webhook(crd: Body) -> bool:
    return bool((crd["spec"].get("conversion") or {}).get("strategy") == "Webhook")


def make_request(key: ObjectKey, crd: Mapping[str, Any]) -> Request:
    """Apply it as a whole: what an older definition had and this one has not is taken away."""
    query = {"fieldManager": FIELD_MANAGER, "force": "true"}
    body = msgspec.json.encode(crd)
    return Request("patch", "PATCH", requests.path_of(CRDS, key), query, body=body, content_type=APPLY_PATCH)


async def _wait_served(client: ApiClient, key: ObjectKey, clock: Clock) -> list[str]:
    """Wait until each version is served; those that only their webhook keeps from it are waited for less long."""
    reasons: dict[str, str] = {}
    patience = clock.monotonic() + WEBHOOK_WITHIN
    try:
        async with clock.timeout(SERVED_WITHIN):
            while True:
                crd = await client.get(CRDS, key)
                reasons, waiting = await _why_not_served(client, crd)
                if not reasons and (not waiting or clock.monotonic() >= patience):
                    return waiting
                await clock.sleep(_LOOK_EVERY)
    except TimeoutError:
        reason = next(iter(reasons.values()), "the API server is slow")
        raise NotServed(f"it is not served after {SERVED_WITHIN:g} s: {reason}") from None


async def _why_not_served(client: ApiClient, crd: Body) -> tuple[dict[str, str], list[str]]:
    """By version, and the versions that wait for the webhook.

    What the definition says of itself comes a moment too early, so each version is asked for.
    """
    reasons: dict[str, str] = {}
    waiting: list[str] = []
    if reason := _why_not_established(crd):
        return {"": reason}, []
    for resource in _served_resources(crd):
        try:
            await client.send(requests.list_page(resource, Scope("default"), limit=1))
        except errors.NotFound as error:
            reasons[resource.version] = str(error)
        except errors.Forbidden:  # who may define a kind need not be allowed to see its objects
            continue
        except (errors.Throttled, errors.ServerFailed) as error:
            if _has_webhook(crd):
                waiting.append(resource.version)
            elif isinstance(error, errors.Throttled):
                reasons[resource.version] = str(error)
            else:
                raise
    return reasons, waiting


def _why_not_established(crd: Body) -> str:
    conditions = {entry["type"]: entry for entry in (crd.get("status") or {}).get("conditions") or ()}
    if conditions.get("Established", {}).get("status") == "True":
        return ""
    refused = conditions.get("NamesAccepted", {})
    return str(refused.get("message") or "it is not established yet")


def _served_resources(crd: Body) -> Iterator[Resource]:
    spec = crd["spec"]
    for version in spec["versions"]:
        if version["served"]:
            yield Resource(spec["group"], version["name"], spec["names"]["plural"], spec["names"]["kind"])
