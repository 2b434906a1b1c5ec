"""The operator of a test module: one process at a time, for namespaces that are the module's alone.

The processes share nothing but the cluster. What the module did is recorded from the first write to the last; at the
end the fixture waits until its namespaces are quiet and holds the history against the invariants. A test that provokes
an error in the operator's log says so in ``process.expected_errors``.
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from lab.control_plane.access import OPERATOR
from lab.control_plane.plane import ControlPlane
from support import invariants
from support.api import Api
from support.audit import AuditLog
from support.history import Recorder
from support.jobs.job_namespace import JobNamespace
from support.operators import operator_process
from support.operators.operator_process import OperatorProcess
from support.pods.kubelet import Kubelet
from support.registry_keys import Place
from support.settle import wait_quiet

ALONE = "--leader-elect=false"
QUICK = "--restart-delay-base=200ms"
"""Replacements of failed replicas wait for this long, then twice as long, instead of for seconds."""
_QUIET_SECONDS = 1.5
ONE_OPERATOR = pytest.mark.asyncio(loop_scope="module")
"""The mark of a module whose tests share an operator: everything of it happens in one event loop."""


@dataclass
class OperatorFixture:
    plane: ControlPlane
    namespaces: tuple[str, ...]
    admin: Api
    nodes: Api
    options: Mapping[str, Any]
    waived: set[str] = field(default_factory=set)
    """Invariants that the module breaks on purpose."""
    _shift: OperatorProcess | None = None
    _past: list[OperatorProcess] = field(default_factory=list)
    _free: list[str] = field(default_factory=list)

    @property
    def process(self) -> OperatorProcess:
        assert self._shift is not None, "no operator runs"
        return self._shift

    def job_namespace(self) -> JobNamespace:
        namespace = self._free.pop(0)
        return JobNamespace(self.plane, self.admin, Kubelet(self.nodes, namespace), namespace)

    async def start(self, *, until: str = "workers started", tree: Path = operator_process.ROOT) -> None:
        """Start this version, or the one in *tree*."""
        self._shift = await operator_process.start(self.plane, namespaces=self.namespaces, tree=tree, **self.options)
        if until:
            await self._shift.wait_for(until, within=60.0)

    async def kill(self) -> None:
        await self.process.kill()
        self._relieve()

    async def terminate(self) -> None:
        code = await self.process.terminate()
        assert code == 0, f"it ended with {code}: {self.process.records[-5:]}"
        self._relieve()

    async def restart(self) -> None:
        """SIGKILL, and a new process that works."""
        await self.kill()
        await self.start()

    async def close(self) -> None:
        """End the process, if one runs; nobody may have logged an error that was not expected."""
        if self._shift is not None:
            assert self._shift.exit_code is None, f"it ended by itself: {self._shift.records[-5:]}"
            await self.terminate()
        unexpected = [record for process in self._past for record in process.unexpected()]
        assert not unexpected, unexpected[:3]

    def _relieve(self) -> None:
        self._past.append(self.process)
        self._shift = None


@asynccontextmanager
async def make_operator_fixture(
    plane: ControlPlane, *, namespaces: Iterable[str], arguments: Iterable[str] = (), kubeconfig: Path | None = None
) -> AsyncIterator[OperatorFixture]:
    """Have an operator work while the body runs; then judge what it did."""
    names = tuple(namespaces)
    async with (
        Api(plane.kubeconfig("admin")) as admin,
        Api(plane.kubeconfig("kubelet")) as nodes,
        Recorder(plane.store()) as recorder,
    ):
        options = {"arguments": (ALONE, *arguments), "kubeconfig": kubeconfig}
        operator_fixture = OperatorFixture(plane, names, admin, nodes, options, _free=[*names])
        start = AuditLog(plane.audit_log).mark()
        await operator_fixture.start()
        failed = True
        try:
            yield operator_fixture
            failed = False
        finally:
            if failed:
                await _end_in_any_case(operator_fixture)
        await _wait_quiet(recorder, operator_fixture)
        await operator_fixture.close()
        history = await recorder.stop()
        sent = AuditLog(plane.audit_log).since(start).by(user=OPERATOR.login)
        invariants.check(history, sent, namespaces=names, waived=operator_fixture.waived)


async def make_namespaces(plane: ControlPlane, purpose: str, count: int) -> list[str]:
    return list(await asyncio.gather(*(asyncio.to_thread(plane.make_namespace, purpose) for _ in range(count))))


async def _wait_quiet(recorder: Recorder, operator_fixture: OperatorFixture) -> None:
    """Wait until nothing is written in its namespaces; what never ends is an error of its."""
    names: Collection[str] = set(operator_fixture.namespaces)

    def counts(place: Place) -> bool:
        return place.namespace in names and place.plural != "events"

    await wait_quiet(recorder, counts, quiet_for=_QUIET_SECONDS, within=45.0)


async def _end_in_any_case(operator_fixture: OperatorFixture) -> None:
    try:
        await operator_fixture.kill()
    except AssertionError:
        return  # none runs
