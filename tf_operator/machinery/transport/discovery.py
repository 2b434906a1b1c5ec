"""Discovery: what an API server serves, as it says itself."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from tf_operator.machinery.transport import errors
from tf_operator.machinery.transport.client import ApiClient
from tf_operator.machinery.transport.requests import Request, Resource

_AGGREGATED: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_LEAVING: Final = frozenset({"list", "delete"})


class Served(msgspec.Struct, frozen=True):
    """A resource, or a subresource, of a group and version."""

    name: str
    kind: str
    namespaced: bool


class _Kind(msgspec.Struct, frozen=True):
    kind: str = ""


class _Discovered(msgspec.Struct, frozen=True, rename="camel"):
    resource: str
    scope: str
    response_kind: _Kind = _Kind()
    verbs: frozenset[str] = frozenset()


class _Version(msgspec.Struct, frozen=True):
    version: str
    resources: tuple[_Discovered, ...] = ()


class _Name(msgspec.Struct, frozen=True):
    name: str = ""
    """Of the group; the core group has none."""


class _Group(msgspec.Struct, frozen=True):
    versions: tuple[_Version, ...] = ()
    metadata: _Name = _Name()


class _GroupList(msgspec.Struct, frozen=True):
    items: tuple[_Group, ...]


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
        raise errors.Garbled(f"the reply to {path} is not a list of resources") from error


async def resource_of(client: ApiClient, api_version: str, kind: str) -> Resource | None:
    group, _, version = api_version.rpartition("/")
    for entry in await served(client, api_version):
        if entry.kind == kind and "/" not in entry.name:
            return Resource(group, version, entry.name, kind, is_namespaced=entry.namespaced)
    return None


async def contents_of_namespaces(client: ApiClient) -> list[Resource]:
    """All that goes with a namespace when it is deleted, each in the version that the API server prefers."""
    resources = dict[tuple[str, str], Resource]()
    for path in ("/api", "/apis"):
        reply = await client.send(Request("get", "GET", path, accept=_AGGREGATED))
        try:
            groups = msgspec.json.decode(reply, type=_GroupList).items
        except msgspec.DecodeError as error:
            raise errors.Garbled(f"the reply to {path} is not a list of groups") from error
        for group in groups:
            name = group.metadata.name
            for version in group.versions:
                for it in version.resources:
                    if it.scope == "Namespaced" and it.verbs >= _LEAVING:
                        resource = Resource(name, version.version, it.resource, it.response_kind.kind)
                        resources.setdefault((name, it.resource), resource)
    return list(resources.values())


async def release(client: ApiClient) -> Mapping[str, Any]:
    """What the API server says of its own release."""
    return msgspec.json.decode(await client.send(Request("get", "GET", "/version")), type=dict[str, Any])
