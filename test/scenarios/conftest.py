"""Fixtures of the scenarios: an operator for each module, and a namespace of its own for each test.

Everything of a module happens in one event loop: the operator's log is read in it, and the clients belong to it. So
each module says ``pytestmark = ONE_OPERATOR``.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from lab.control_plane.plane import ControlPlane
from support.api import Api
from support.jobs.job_namespace import JobNamespace
from support.operators import previous_version
from support.operators.operator_fixture import OperatorFixture, make_namespaces, make_operator_fixture


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def operator_fixture(
    request: pytest.FixtureRequest, control_plane: ControlPlane
) -> AsyncIterator[OperatorFixture]:
    """The operator of this module, started with the module's ARGUMENTS, after its ``prepare`` if it has one."""
    tests = sum(getattr(item, "module", None) is request.module for item in request.session.items)
    if hasattr(request.module, "prepare"):
        async with Api(control_plane.kubeconfig("admin")) as admin:
            await request.module.prepare(admin)
    purpose = request.module.__name__.rpartition(".")[2].removeprefix("test_")
    async with make_operator_fixture(
        control_plane,
        namespaces=await make_namespaces(control_plane, purpose, tests),
        arguments=getattr(request.module, "ARGUMENTS", ()),
    ) as operator:
        yield operator


@pytest.fixture
def job_namespace(operator_fixture: OperatorFixture) -> JobNamespace:
    """A namespace in which the module's operator works, and where nothing has happened yet."""
    return operator_fixture.job_namespace()


@pytest.fixture(scope="session")
def previous(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the version before is installed."""
    return previous_version.install(tmp_path_factory.mktemp("previous"))
