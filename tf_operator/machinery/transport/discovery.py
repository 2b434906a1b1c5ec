"""Discovery: what an API server serves, as it says itself."""

from collections.abc import Mapping
from typing import Any

import msgspec

from tf_operator.machinery.transport import errors
from tf_operator.machinery.transport.client import ApiClient
from tf_operator.machinery.transport.requests import Request, Resource


class Served(msgspec.Struct, frozen=True):
    """A resource, or a subresource, of a group and version."""

    name: str
    kind: str
    namespaced: bool


class _ResourceList(msgspec.Struct, frozen=True):
    resources: tuple[Served, ...] = ()


async def served(client: ApiClient, api_version: str) -> tuple[Served, ...]:
    """What is served in a group and version; nothing where it is not known."""
    path = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
    try:
        reply = await client.send(Request("get", "GET", path))
        return msgspec.json.decode(reply, type=_ResourceList).resources
    except errors.NotFound:
        return ()
    except msgspec.DecodeError as error:
        raise errors.Garbled(f"the reply to {path} is no list of resources") from error


async def resource_of(client: ApiClient, api_version: str, kind: str) -> Resource | None:
    group, _, version = api_version.rpartition("/")
    for entry in await served(client, api_version):
        if entry.kind == kind and "/" not in entry.name:
            return Resource(group, version, entry.name, kind, is_namespaced=entry.namespaced)
    return None


async def release(client: ApiClient) -> Mapping[str, Any]:
    """What the API server says of its own release."""
    return msgspec.json.decode(await client.send(Request("get", "GET", "/version")), type=dict[str, Any])
