"""New kinds for tests: CustomResourceDefinitions, created and waited for."""

import asyncio
from collections.abc import Iterable
from pathlib import Path

import yaml

from support.api import Api, RefusedError
from support.resources import CRDS, Json, Resource, resource_of


async def create_crd(api: Api, crd: Json, *, within: float = 20.0) -> Resource:
    """Create a CustomResourceDefinition of a namespaced kind and wait until every served version can be listed.

    ``Established`` alone is not enough: after it the apiserver still answers 404 (the handler is not yet
    installed) and then 429 (its storage is initialising) for a moment. Tests that share a kind all call this:
    one that is there already is waited for, too.
    """
    try:
        await api.create(CRDS.path(), crd)
    except RefusedError as refusal:
        if refusal.status != 409:
            raise
    served = [resource_of(crd, entry["name"]) for entry in crd["spec"]["versions"] if entry["served"]]
    async with asyncio.timeout(within):
        for resource in served:
            while not await _is_served(api, resource):
                await asyncio.sleep(0.05)
    return resource_of(crd)


async def apply_rights(api: Api, files: Iterable[Path]) -> None:
    """Apply roles and bindings of manifests/rbac; the embedded server has no RBAC, and needs none."""
    if not await api.find("/apis/rbac.authorization.k8s.io/v1"):
        return
    for file in files:
        manifest = yaml.safe_load(file.read_text())
        path = f"/apis/{manifest['apiVersion']}/{manifest['kind'].lower()}s/{manifest['metadata']['name']}"
        await api.patch(path, manifest, "apply")


async def _is_served(api: Api, resource: Resource) -> bool:
    try:
        # In one namespace: across all, another test's object may be one that nobody can decode.
        await api.get(resource.path("default"), limit="1")
    except RefusedError as refusal:
        if refusal.status in {404, 429}:
            return False
        raise
    return True
