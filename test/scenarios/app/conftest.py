"""A control plane for the tests of the process: its role allows one Lease, and these tests hold and release it."""

import contextlib
from collections.abc import Callable, Iterator

import pytest

from lab.control_plane.api import ApiRefusedError
from lab.control_plane.plane import ControlPlane
from support.resources import LEASES


@pytest.fixture(scope="package")
def shared_plane(fresh_plane: Callable[..., ControlPlane]) -> Iterator[ControlPlane]:
    """Nobody but these tests stands for election in it."""
    with fresh_plane() as plane:
        yield plane


@pytest.fixture
def plane(shared_plane: ControlPlane) -> ControlPlane:
    """The plane, without what an earlier test has left of the Lease."""
    with contextlib.suppress(ApiRefusedError):  # there is none
        shared_plane.admin.delete(LEASES.path("tf-operator", "tf-operator"))
    return shared_plane
