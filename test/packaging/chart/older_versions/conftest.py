"""Older versions as they are deployed: the API server reaches the webhook through its Service, which heeds readiness.

With real controllers of Deployments and EndpointSlices; pods are processes.
"""

import pytest

from lab.control_plane.plane import ControlPlane
from support.operators import deployed as ways
from support.operators import operator_image
from support.pods.light_node.node import LightNode


@pytest.fixture(scope="package")
def plane(plane_programs, tmp_path_factory):
    """A plane whose API server reaches Services."""
    root = tmp_path_factory.mktemp("deployed") / "plane"
    with ControlPlane.up(root, frozenset({"controller-manager", "services"})) as plane:
        yield plane


@pytest.fixture
def node(plane, tmp_path):
    with LightNode.up(plane, tmp_path / "node", {operator_image.IMAGE: operator_image.COMMAND}) as node:
        yield node


@pytest.fixture
def namespace(plane):
    return plane.make_namespace("older-versions")


@pytest.fixture(params=[ways.Chart], ids=["helm-3"])
async def deployed(request, plane, node, tmp_path):
    """A way to deploy the operator, to a cluster without TFJobs."""
    await ways.delete_crd(plane.admin)
    installation = request.param(plane, tmp_path)
    yield installation
    print(node.logs())  # noqa: T201
    installation.remove()
    await ways.delete_crd(plane.admin)
