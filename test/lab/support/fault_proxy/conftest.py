"""A proxy that injects faults, a client behind it, and what it is shown. ``admin`` and ``kubectl`` go past it."""

import pytest

from support.api import Api
from support.disturbances.fault_proxy.proxy import FaultProxy
from support.resources import LEASES


@pytest.fixture
def proxy(control_plane):
    with FaultProxy(control_plane.kubeconfig("admin")) as proxy:
        yield proxy


@pytest.fixture
async def client(proxy, tmp_path):
    """The client that suffers."""
    async with Api(proxy.kubeconfig(tmp_path / "client.kubeconfig"), user_agent="client/1") as api:
        yield api


@pytest.fixture
def path(namespace):
    """Leases of the test's namespace."""
    return LEASES.path(namespace)


@pytest.fixture
def token(control_plane):
    return control_plane.token("admin")
