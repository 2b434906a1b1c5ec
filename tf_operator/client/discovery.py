"""By which path the objects of a manifest are created: known for jobs, asked of the API server for all others."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec

from tf_operator.client.job import NotPossible
from tf_operator.dialects import registry
from tf_operator.machinery.transport import errors
from tf_operator.machinery.transport.client import ApiClient
from tf_operator.machinery.transport.requests import Request, Resource
from tf_operator.meta import Body, text_of


class _Served(msgspec.Struct, frozen=True):
    name: str
    kind: str
    namespaced: bool


class _ResourceList(msgspec.Struct, frozen=True):
    resources: tuple[_Served, ...] = ()


async def resource_of(client: ApiClient, body: Body) -> Resource:
    """The resource of an object; ``NotPossible`` when this API server has no such kind."""
    group, _, version = text_of(body, "apiVersion").rpartition("/")
    if api := registry.api_of(body):
        return replace(api.resource, version=version)
    listed = await served(client, f"{group}/{version}" if group else version)
    kind = text_of(body, "kind")
    match = next((entry for entry in listed if entry.kind == kind and "/" not in entry.name), None)
    if match is None:
        api_version = text_of(body, "apiVersion") or "no apiVersion"
        raise NotPossible(f"the API server has no {kind or 'object without a kind'} of {api_version}")
    return Resource(group, version, match.name, kind, is_namespaced=match.namespaced)


async def served(client: ApiClient, api_version: str) -> tuple[_Served, ...]:
    """What is served in a group and version; nothing where it is not known."""
    path = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
    try:
        reply = await client.send(Request("get", "GET", path))
        return msgspec.json.decode(reply, type=_ResourceList).resources
    except errors.NotFound:
        return ()
    except msgspec.DecodeError as error:
        raise errors.Garbled(f"the reply to {path} is no list of resources") from error


async def version(client: ApiClient) -> Mapping[str, Any]:
    """What the API server says of itself."""
    return msgspec.json.decode(await client.send(Request("get", "GET", "/version")), type=dict[str, Any])
