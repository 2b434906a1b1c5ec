"""A place of its own for ``tfjob`` and ``hack/demo`` as people type them: what is left there, was left by them."""

import asyncio
import contextlib
import json
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from pathlib import Path

from support.resources import Json
from support.settle import eventually
from tf_operator.local import short_paths

TFJOB = (sys.executable, "-m", "tf_operator.cli")


class LocalMachine:
    """Folders for temporary files, state and a home, which name it in the environment of all that runs there."""

    def __init__(self, folder: Path, wrapper: tuple[str, ...] = ()) -> None:
        """``wrapper``: the beginning of each command."""
        self._wrapper = wrapper
        self._files = {name: folder / name for name in ("tmp", "state", "home")}
        for path in self._files.values():
            path.mkdir()

    async def start(
        self, *arguments: str, manifest: str = "", command: tuple[str, ...] = TFJOB, **variables: str
    ) -> Process:
        """Begin a command, in a process group as from a terminal; its manifest comes from standard input."""
        tmp, state, home = (str(path) for path in self._files.values())
        environment = {name: value for name, value in os.environ.items() if name not in {"KUBECONFIG", "VIRTUAL_ENV"}}
        environment |= {"TMPDIR": tmp, "XDG_STATE_HOME": state, "HOME": home, **variables}
        process = await asyncio.create_subprocess_exec(
            *self._wrapper, *command, *arguments, stdin=PIPE, stdout=PIPE, stderr=PIPE, env=environment, process_group=0
        )
        assert process.stdin is not None
        process.stdin.write(manifest.encode())
        process.stdin.close()
        return process

    async def run(
        self, *arguments: str, manifest: str = "", command: tuple[str, ...] = TFJOB, **variables: str
    ) -> tuple[int, str, str]:
        """The exit code of ``tfjob``, its output and its errors."""
        process = await self.start(*arguments, manifest=manifest, command=command, **variables)
        output, errors = await process.communicate()
        assert process.returncode is not None
        return process.returncode, output.decode(), errors.decode()

    @contextlib.asynccontextmanager
    async def with_job(self, pod: Json) -> AsyncIterator[None]:
        """On a server of its own, while a job ``j`` of two such pods runs."""
        worker = {"replicas": 2, "template": {"spec": pod}}
        body = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": "j"}}
        manifest = json.dumps({**body, "spec": {"tfReplicaSpecs": {"Worker": worker}}})
        assert (await self.run("local", "up"))[0] == 0
        try:
            code, _, errors = await self.run("submit", "-", manifest=manifest)
            assert code == 0, errors

            async def are_both_running() -> bool:
                return "2/2" in (await self.run("get", "j"))[1]

            await eventually(are_both_running, within=120)
            yield
        finally:
            await self.run("local", "down", "--purge")

    def files(self) -> list[Path]:
        """What is left of files, and of links that lead here."""
        here, links = str(self._files["tmp"].parent), list[Path]()
        for link in short_paths.PLACE.glob("tfjob-*"):
            with contextlib.suppress(OSError):  # no link, or another test's that has just gone
                if here in str(link.readlink()):
                    links.append(link)
        return [*links, *self._files["tmp"].iterdir(), *filter(Path.is_file, self._files["state"].rglob("*"))]

    def processes(self, having: str = "") -> dict[int, str]:
        """The command lines of the processes that run here, and have a text in their environment."""
        marks, commands = {f"XDG_STATE_HOME={self._files['state']}".encode(), having.encode()}, {}
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # it has just ended
                environment = (process / "environ").read_bytes()
                if all(mark in environment for mark in marks):
                    commands[int(process.name)] = (process / "cmdline").read_text().replace("\0", " ")
        return commands

    def remains(self) -> list[object]:
        """Files, and processes that have this place in their environment."""
        return [*self.files(), *self.processes().values()]
