"""New kinds are served once they have been created."""

import pytest

from support.api import RefusedError
from support.crds import create_crd


def a_crd(namespace: str, **schema: object) -> dict:
    """A CRD that no other test has: its group is named after the test's namespace."""
    group = f"{namespace}.test"
    version = {"served": True, "schema": {"openAPIV3Schema": {"type": "object", **schema}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"things.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": [
                {"name": "v1", "storage": False, **version},
                {"name": "v2", "storage": True, "subresources": {"status": {}}, **version},
            ],
        },
    }


async def test_a_new_kind_is_served_in_every_version_when_create_crd_returns(admin, namespace):
    things = await create_crd(admin, a_crd(namespace))

    assert things.version == "v2"
    thing = {"apiVersion": things.api_version, "kind": "Thing", "metadata": {"name": "t"}}
    created = await admin.create(things.path(namespace), thing)
    older = f"/apis/{things.group}/v1/namespaces/{namespace}/things/t"
    assert (await admin.get(older))["metadata"]["uid"] == created["metadata"]["uid"]


async def test_a_crd_that_is_refused_is_not_waited_for(admin, namespace):
    with pytest.raises(RefusedError, match="Unsupported value"):
        await create_crd(admin, a_crd(namespace, properties={"a": {"type": "nonsense"}}))
