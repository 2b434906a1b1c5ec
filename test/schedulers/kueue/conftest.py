"""A control plane with a real Kueue for each release, and an operator: Kueue has code for TFJobs, or the operator."""

from collections.abc import AsyncIterator, Callable, Iterator

import pytest
import pytest_asyncio
import yaml

from lab.control_plane.plane import ControlPlane
from support.operators.operator_fixture import QUICK, OperatorFixture, make_namespaces, make_operator_fixture
from support.partners.kueue_process import KueueManager, kueue_process
from support.partners.kueue_queue import ROLES, QueueNamespace


@pytest.fixture(
    scope="module",
    params=[("0.14", True), ("0.14", False), ("0.19", True), ("0.19", False)],
    ids=["0.14, its own code", "0.14, external", "0.19, its own code", "0.19, external"],
)
def kueue(
    request: pytest.FixtureRequest,
    fresh_plane: Callable[..., ControlPlane],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[KueueManager, bool]]:
    """A Kueue in a plane of its own, and whether the operator makes the Workloads."""
    release, integrates = request.param
    with (
        fresh_plane("audit") as plane,
        kueue_process(
            plane, tmp_path_factory.mktemp("kueue"), release=release, integrates_tfjobs=integrates
        ) as manager,
    ):
        manager.create_class("low", 10)
        manager.create_class("high", 100)
        yield manager, not integrates


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def queue_operator(
    request: pytest.FixtureRequest, kueue: tuple[KueueManager, bool]
) -> AsyncIterator[OperatorFixture]:
    manager, is_external = kueue
    if is_external:
        manager.plane.grant(*(yaml.safe_load(file.read_text()) for file in sorted(ROLES.glob("*.yaml"))))
    tests = sum(getattr(item, "module", None) is request.module for item in request.session.items)
    namespaces = await make_namespaces(manager.plane, "queue", tests)
    arguments = (QUICK, "--kueue=external") if is_external else (QUICK,)
    async with make_operator_fixture(manager.plane, namespaces=namespaces, arguments=arguments) as fixture:
        yield fixture


@pytest.fixture
def queue(kueue: tuple[KueueManager, bool], queue_operator: OperatorFixture) -> QueueNamespace:
    """A namespace with a queue ``team``, for two processors."""
    manager, is_external = kueue
    namespace = QueueNamespace(manager, queue_operator.job_namespace(), is_external=is_external)
    namespace.make_queue()
    return namespace
