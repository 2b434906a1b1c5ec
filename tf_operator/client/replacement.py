"""Making room for a job whose name is taken: the old one goes, with its pods, before the new one comes."""

from contextlib import aclosing

from tf_operator.client import changes
from tf_operator.machinery.clock import Clock
from tf_operator.machinery.transport.client import ApiClient
from tf_operator.machinery.transport.errors import NotFound
from tf_operator.machinery.transport.requests import Resource, Scope
from tf_operator.meta import ObjectKey, uid_of


async def remove(client: ApiClient, resource: Resource, key: ObjectKey, clock: Clock) -> None:
    """Delete an object, and wait until it and what it owns are gone; harmless when there is none."""
    try:
        uid = uid_of(await client.get(resource, key))
        await client.delete(resource, key, uid=uid, propagation="Foreground")
    except NotFound:
        return
    scope = Scope(key.namespace, field_selector=f"metadata.name={key.name}")
    async with aclosing(changes.follow(client, resource, scope, clock)) as batches:
        async for batch in batches:
            if any(change.is_deleted or uid_of(change.body) != uid for change in batch) or not batch:
                return
