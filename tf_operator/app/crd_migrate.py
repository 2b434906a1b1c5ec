"""Has every object of a kind stored in the storage version of its CRD, so that older versions can be switched off.

Each object is written back as it is, in the storage version: the API server then stores it in that version. Only after
the last one the definition is told that no other version is stored. What was begun and not finished is simply begun
again. With ``is_last`` the definition then has the stored version alone, and no webhook: nothing depends on the
operator any more. Neighbours: ``crd_apply`` has the client, ``crd_command`` the command line.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from tf_operator.app.crd_apply import CRDS, FIELD_MANAGER, connected
from tf_operator.machinery.cache import pager
from tf_operator.machinery.clock import Clock
from tf_operator.machinery.transport import errors, responses
from tf_operator.machinery.transport.client import ApiClient
from tf_operator.machinery.transport.config import ConfigSource
from tf_operator.machinery.transport.requests import EVERYWHERE, Resource
from tf_operator.meta import Body, ObjectKey, key_of, metadata_of, resource_version_of

AT_ONCE: Final = 8
"""Writes at once: one after the other, many objects on a slow server take longer than the hook of a chart may."""
_MOST_NAMED: Final = 20
"""Refused objects."""


class NoDefinition(Exception):
    """The cluster has no such CRD, and so none of its objects."""


class NotMigrated(Exception):
    """Some objects may still be stored in an older version; the message says why."""


async def migrate(name: str, source: ConfigSource, clock: Clock, *, is_last: bool = False) -> int:
    """Migrate the objects of the CRD of this name; how many were written.

    Raises ``ApiError``, ``NotMigrated`` or ``NoDefinition``.
    """
    key = ObjectKey("", name)
    async with connected(source, clock) as client:
        try:
            crd = await client.get(CRDS, key)
        except errors.NotFound:
            raise NoDefinition from None
        written = await _migrate(client, crd, clock)
        if is_last:
            await _end_conversion(client, key)
        return written


async def _migrate(client: ApiClient, crd: Body, clock: Clock) -> int:
    resource = _stored_as(crd)
    if (crd.get("status") or {}).get("storedVersions") == [resource.version]:
        return 0
    written, refused = 0, list[NotMigrated]()
    async with aclosing(_batches(client, resource, clock)) as batches:
        async for batch in batches:
            writes = (_write(client, resource, key) for key in batch)
            for outcome in await asyncio.gather(*writes, return_exceptions=True):  # none goes on after an error
                if isinstance(outcome, NotMigrated):  # so that one run names all that somebody has to look at
                    refused.append(outcome)
                elif isinstance(outcome, BaseException):
                    raise outcome
                else:
                    written += outcome
    if refused:
        more = [f"and {len(refused) - _MOST_NAMED} more"] * (len(refused) > _MOST_NAMED)
        raise NotMigrated("; ".join([*map(str, refused[:_MOST_NAMED]), *more]))
    patch = {"status": {"storedVersions": [resource.version]}}
    await client.merge_patch(CRDS, key_of(crd), patch, subresource="status")
    return written


async def _end_conversion(client: ApiClient, key: ObjectKey) -> None:
    """Both in one request: without a conversion, older versions would be served wrongly."""
    crd = await client.get(CRDS, key)
    versions = [entry for entry in crd["spec"]["versions"] if entry["storage"]]
    if len(versions) == len(crd["spec"]["versions"]):
        return
    spec = {"versions": versions, "conversion": {"strategy": "None", "webhook": None}}
    head = {"resourceVersion": resource_version_of(crd)}
    changed = await client.merge_patch(CRDS, key, {"metadata": head, "spec": spec})
    # Whoever has installed the definition owns it: otherwise the next server-side apply would be a conflict.
    owners = [entry for entry in metadata_of(changed).get("managedFields", ()) if not _is_own(entry)]
    await client.merge_patch(CRDS, key, {"metadata": {"managedFields": owners or [{}]}})


def _is_own(owner: Body) -> bool:
    return owner.get("manager") == FIELD_MANAGER and not owner.get("subresource") and owner.get("operation") == "Update"


async def _batches(client: ApiClient, resource: Resource, clock: Clock) -> AsyncGenerator[list[ObjectKey], None]:
    batch: list[ObjectKey] = []
    async with aclosing(_keys(client, resource, clock)) as keys:
        async for key in keys:
            batch.append(key)
            if len(batch) == AT_ONCE:
                yield batch
                batch = []
    if batch:
        yield batch


async def _keys(client: ApiClient, resource: Resource, clock: Clock) -> AsyncGenerator[ObjectKey, None]:
    parts = pager.parts(pager.in_one_piece(client.send), resource, EVERYWHERE, clock=clock)
    async with aclosing(parts):
        async for part in parts:
            for item in part.items:
                metadata = responses.read_metadata(item)
                yield ObjectKey(metadata.namespace, metadata.name)


async def _write(client: ApiClient, resource: Resource, key: ObjectKey) -> int:
    try:
        await client.merge_patch(resource, key, {})
    except errors.NotFound:  # it was deleted meanwhile
        return 0
    except errors.Refused as error:
        raise NotMigrated(f"{resource.kind} {key}: {error}") from None
    return 1


def _stored_as(crd: Body) -> Resource:
    spec = crd["spec"]
    version = next(entry["name"] for entry in spec["versions"] if entry["storage"])
    return Resource(spec["group"], version, spec["names"]["plural"], spec["names"]["kind"])
