"""The processes that are measured, how they are started, and what they have used.

Each is a Python process of its own with its log in a file, and says ``workers started`` there when it is ready.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from lab.control_plane.plane import ControlPlane

HERE = Path(__file__).parent
OPERATOR, FLOOR, ALL_KINDS = "the operator", "the floor", "the operator with all kinds"
# The image has no rich, which structlog imports where it is installed: 4 MB.
_AS_IN_THE_IMAGE = """
import runpy, sys
sys.modules["rich"] = None
runpy.run_module("tf_operator", run_name="__main__", alter_sys=True)
"""
KINDS = ("TFJob", "TfJob", "TensorFlowTrainingJob")


def command(who: str, plane: ControlPlane, namespace: str) -> list[str]:
    """How a contender is started; both under the operator's name, for which the audit log is kept."""
    if who == FLOOR:
        return [str(HERE / "contender_floor.py"), str(plane.kubeconfig("operator")), namespace]
    kinds = [f"--enable-scheme={kind}" for kind in KINDS] if who == ALL_KINDS else []
    return operator_command(plane, "--leader-elect=false", *kinds)


def operator_command(plane: ControlPlane, *flags: str) -> list[str]:
    """The operator with its default flags, but for these and its ports."""
    ports = ("--metrics-bind-address", "127.0.0.1:0", "--health-probe-bind-address", "127.0.0.1:0")
    return ["-c", _AS_IN_THE_IMAGE, "run", "--kubeconfig", str(plane.kubeconfig("operator")), *ports, *flags]


class running:  # noqa: N801 (reads as what it does)
    """A Python process that has said ``until`` in its log, and ends with the block; if it ended before, loudly."""

    def __init__(self, arguments: Sequence[str], *, until: str = "workers started") -> None:
        self._arguments = arguments
        self._until = until
        self._was_ended = False

    def __enter__(self) -> Self:
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, (HERE.parents[1], HERE.parents[1] / "hack", HERE.parent))),
        }
        self._log = tempfile.NamedTemporaryFile()
        arguments = [sys.executable, *self._arguments]
        self._process = subprocess.Popen(arguments, stdout=self._log, stderr=subprocess.STDOUT, env=environment)
        self.wait_said(self._until)
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._check()
        finally:
            self._process.kill()
            self._process.wait()
            self._log.close()

    def wait_said(self, text: str, *, longest: float = 600.0, every: float = 0.05) -> str:
        """Wait until a line of its log has this text, and return the line."""
        deadline = time.monotonic() + longest
        while not (lines := [line for line in self._output().splitlines() if text in line]):
            self._check()
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self._arguments} has not said {text!r}: {self._output()[-2000:]}")
            time.sleep(every)
        return lines[0]

    def end(self, how: signal.Signals) -> None:
        """Send it the signal that ends it; not waited for."""
        self._was_ended = True
        self._process.send_signal(how)

    @property
    def cpu(self) -> float:
        """Seconds of CPU that it has used."""
        fields = self._file("stat").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def resident(self) -> float:
        """The memory that it has now, in MB."""
        return self._memory("VmRSS")

    @property
    def peak(self) -> float:
        """The most memory that it has had, in MB."""
        return self._memory("VmHWM")

    def _memory(self, field: str) -> float:
        line = next(line for line in self._file("status").splitlines() if line.startswith(field))
        return int(line.split()[1]) / 1000

    def _file(self, name: str) -> str:
        return Path(f"/proc/{self._process.pid}/{name}").read_text()

    def _output(self) -> str:
        return Path(self._log.name).read_text(errors="replace")

    def _check(self) -> None:
        if self._process.poll() is not None and not self._was_ended:
            raise RuntimeError(f"{self._arguments} ended: {self._output()[-2000:]}")
