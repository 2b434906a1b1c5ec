"""The operator as users run it: ``python -m tf_operator run``, a process of its own with the rights of its role.

Its log is read while it runs: ``records`` are what it has logged so far, one JSON object each. At the end of the block
of ``operator`` it gets SIGTERM, has to end with exit code 0, and must not have logged an error that nobody expected.
With a ``probe`` (``probe.Disturbance`` as a dictionary) it also shows its caches, and can be disturbed from within.
"""

import asyncio
import json
import os
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from lab.control_plane.plane import ControlPlane
from support.resources import Json
from support.settle import eventually

ROOT = Path(__file__).resolve().parents[3]
_START_SECONDS = 60.0
_END_SECONDS = 20.0


class OperatorProcess:
    def __init__(self, process: Process) -> None:
        self._process = process
        self.records: list[Json] = []
        self.expected_errors: set[str] = set()
        """The ``message`` of records of level error that the test provokes."""
        self._reader = asyncio.create_task(self._read())

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """What it ended with; ``None`` while it runs."""
        return self._process.returncode

    def records_of(self, message: str, *, since: float = 0.0) -> list[Json]:
        """The records with this message; those that were read after a moment of the monotonic clock."""
        return [record for record in self.records if record.get("message") == message and record["read_at"] >= since]

    async def wait_for(self, event: str, *, since: float = 0.0, within: float = _START_SECONDS) -> Json:
        def check() -> list[Json]:
            assert self.exit_code is None, f"it ended with {self.exit_code}: {self.records[-5:]}"
            records = self.records_of(event, since=since)
            assert records, f"so far it has logged {self.records[-5:]}"
            return records

        return (await eventually(check, within=within, every=0.02))[0]

    async def caches(self) -> Json:
        """What its caches hold now, as ``probe`` prints it."""
        self.records = [record for record in self.records if record.get("message") != "caches"]
        self.signal(signal.SIGUSR1)
        return await self.wait_for("caches")

    async def address(self, which: int = 0) -> str:
        return f"http://{(await self.wait_for('listening'))['addresses'][which]}"

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    async def kill(self) -> None:
        self.signal(signal.SIGKILL)
        await self.wait()

    async def terminate(self) -> int:
        """End it as Kubernetes does, and return its exit code."""
        self.signal(signal.SIGTERM)
        return await self.wait()

    async def wait(self, within: float = _END_SECONDS) -> int:
        async with asyncio.timeout(within):
            code = await self._process.wait()
            await self._reader
        return code

    def unexpected(self) -> list[Json]:
        """Errors in its log that the test did not provoke."""
        return [
            record
            for record in self.records
            if record.get("level") in {"error", "critical"} and record.get("message") not in self.expected_errors
        ]

    async def _read(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            try:
                record = json.loads(line)
            except ValueError:
                record = {"level": "error", "message": line.decode(errors="replace")}
            self.records.append({**record, "read_at": time.monotonic()})


@asynccontextmanager
async def operator(
    plane: ControlPlane,
    *,
    arguments: Iterable[str] = ("--leader-elect=false",),
    until: str = "workers started",
    **options: Any,  # noqa: ANN401 (those of start)
) -> AsyncIterator[OperatorProcess]:
    """Run an operator while the body runs, and have it end well."""
    process = await start(plane, arguments=arguments, **options)
    try:
        if until:
            await process.wait_for(until)
        yield process
    finally:
        code = process.exit_code
        if code is None:
            code = await process.terminate()
            assert code == 0, f"it ended with {code}: {process.records[-5:]}"
    assert not process.unexpected(), process.unexpected()[:3]


async def start(
    plane: ControlPlane,
    *,
    namespaces: Iterable[str] = (),
    arguments: Iterable[str] = (),
    user: str = "operator",
    environment: Mapping[str, str] | None = None,
    kubeconfig: Path | None = None,
    tree: Path = ROOT,
    module: str = "tf_operator",
    probe: Mapping[str, object] | None = None,
    wrapper: Sequence[str] = (),
) -> OperatorProcess:
    """Start an operator, on ports of its own; ``kubeconfig`` replaces the user's own, ``tree`` this version.

    Without a user its environment says where the cluster is.
    ``wrapper`` is a command that runs the one after it, such as one that sets limits.
    """
    program = (module, "run") if probe is None else ("support.operators.probe", json.dumps(probe))
    access = ("--kubeconfig", str(kubeconfig or plane.kubeconfig(user))) if user else ()
    command = [
        *(*wrapper, sys.executable, "-m", *program, *access),
        *("--metrics-bind-address", "127.0.0.1:0", "--health-probe-bind-address", "127.0.0.1:0"),
        *(f"--namespace={namespace}" for namespace in namespaces),
        *arguments,
    ]
    process = await asyncio.create_subprocess_exec(
        *command,
        stdout=PIPE,
        stderr=asyncio.subprocess.STDOUT,
        cwd=tree,
        env={
            **os.environ,
            **({} if probe is None else {"PYTHONPATH": f"{tree}:{ROOT / 'test'}"}),
            **(environment or {}),
        },
        limit=4 * 1024 * 1024,
    )
    return OperatorProcess(process)
