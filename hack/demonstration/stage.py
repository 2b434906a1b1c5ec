"""What a demonstration runs on: a control plane, the operator with its own rights.

Everything is in one temporary folder. A normal end, an exception and a signal (which ``command`` makes an
exception) end all of it; if the demo is killed, the kernel and the supervisor of the control plane do.
Programs are started while this process has only one thread: ``die_with`` runs between fork and exec.
"""

import contextlib
import functools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lab.control_plane.plane import ControlPlane
from lab.control_plane.process import die_with
from lab.tools.get import programs
from lab.tools.progress import Progress

FEATURES: Final = frozenset({"controller-manager"})
TOOLS: Final = ("etcd", "kube-apiserver", "kube-controller-manager", "kubectl")
_START_SECONDS: Final = 60.0
_END_SECONDS: Final = 15.0
_SERVICE_ACCOUNT: Final = "/api/v1/namespaces/default/serviceaccounts/default"


class StageFailedError(Exception):
    """A program did not start, or has ended; the message ends with the tail of its log."""


@dataclass(frozen=True, slots=True)
class Program:
    """One program that runs, and where it writes its log."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    def check(self) -> None:
        if (code := self.process.poll()) is not None:
            raise StageFailedError(f"{self.name} has ended with code {code}; the end of its log:\n{self.tail()}")

    def tail(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-20:])

    def end(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@dataclass(frozen=True, slots=True)
class Stage:
    """A cluster in which TFJobs are run, once it has a node (``node``)."""

    plane: ControlPlane
    kubectl: str
    operator: Program
    folder: Path

    @property
    def kubeconfig(self) -> Path:
        return self.plane.kubeconfig("admin")


@contextlib.contextmanager
def built(progress: Progress) -> Iterator[Stage]:
    with contextlib.ExitStack() as stack:
        tools = programs(*TOOLS)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tf-operator-demo-")))
        with progress.step("starting a control plane (etcd, kube-apiserver, controller-manager)"):
            plane = stack.enter_context(ControlPlane.up(folder / "plane", FEATURES))
        operator = stack.enter_context(_running("the operator", _operator_command(plane), folder))
        with progress.step("starting the operator, with the rights of manifests/rbac and no others"):
            _wait_until("the operator works", lambda: '"workers started"' in operator.log.read_text(), operator)
        plane.admin.wait_for(_SERVICE_ACCOUNT)
        yield Stage(plane, tools["kubectl"], operator, folder)


def _operator_command(plane: ControlPlane) -> list[str]:
    access = ("--kubeconfig", str(plane.kubeconfig("operator")))
    pages = ("--metrics-bind-address", "127.0.0.1:0", "--health-probe-bind-address", "127.0.0.1:0")
    return [sys.executable, "-m", "tf_operator", "run", *access, *pages]


@contextlib.contextmanager
def _running(name: str, command: Sequence[str], folder: Path) -> Iterator[Program]:
    """Run a program out of reach of the terminal's Ctrl-C, which is for the demo to hear."""
    log = folder / f"{name.removeprefix('the ')}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            preexec_fn=functools.partial(die_with, os.getpid()),  # noqa: PLW1509 (one thread)
        )
    program = Program(name, process, log)
    try:
        yield program
    finally:
        program.end()


def _wait_until(condition: str, is_so: Callable[[], bool], program: Program) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while not is_so():
        program.check()
        if time.monotonic() > deadline:
            raise StageFailedError(f"after {_START_SECONDS:.0f} s it is not so that {condition}:\n{program.tail()}")
        time.sleep(0.1)
