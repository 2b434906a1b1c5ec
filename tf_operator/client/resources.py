"""By which path the objects of a manifest are created: known for jobs, asked of the API server for all others."""

from collections.abc import Mapping

from msgspec import structs

from tf_operator.client.job import NotPossible
from tf_operator.dialects import registry
from tf_operator.dialects.served import ServedAPI
from tf_operator.machinery.transport.client import ApiClient
from tf_operator.machinery.transport.requests import Resource
from tf_operator.meta import Body, text_of


def job_api(manifest: object) -> ServedAPI:
    """The API of a job that is to be created; ``NotPossible`` for anything else, such as the name of a file."""
    if not isinstance(manifest, Mapping):
        raise NotPossible(f"submit takes an object, and {str(manifest)!r} is a file: run() takes one")
    if api := registry.api_of(manifest):
        return api
    kind = text_of(manifest, "kind") or "an object without a kind"
    raise NotPossible(f"{kind} of {text_of(manifest, 'apiVersion') or 'no apiVersion'} is not a training job")


async def resource_of(client: ApiClient, body: Body) -> Resource:
    """The resource of an object; ``NotPossible`` when this API server has no such kind."""
    api_version, kind = text_of(body, "apiVersion"), text_of(body, "kind")
    if api := registry.api_of(body):
        return structs.replace(api.resource, version=api_version.rpartition("/")[2])
    from tf_operator.machinery.transport import discovery  # noqa: PLC0415 (most commands create nothing)

    resource = await discovery.resource_of(client, api_version, kind)
    if resource is None:
        unserved = f"{kind or 'object without a kind'} of {api_version or 'no apiVersion'}"
        raise NotPossible(f"the API server has no {unserved}")
    return resource
