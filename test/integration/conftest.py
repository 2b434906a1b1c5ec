"""Fixtures of the tests that speak to a real apiserver: clients and the kubelet of the test's namespace."""

from collections.abc import AsyncIterator

import pytest

from support.api import Api
from support.control_plane import ControlPlane
from support.kubelet import Kubelet


@pytest.fixture
async def admin(control_plane: ControlPlane) -> AsyncIterator[Api]:
    """The session plane's administrator."""
    async with Api(control_plane.kubeconfig("admin")) as api:
        yield api


@pytest.fixture
async def kubelet(control_plane: ControlPlane, namespace: str) -> AsyncIterator[Kubelet]:
    """The kubelet of the test's namespace."""
    async with Api(control_plane.kubeconfig("kubelet")) as api:
        yield Kubelet(api, namespace)
