"""The play: jobs are applied, followed to their ends, and the one that waits is resumed on the way.

Everything is done by kubectl, as its audience would do it, and every command is shown before it runs.
"""

import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from demonstration import picture
from demonstration.picture import Row
from demonstration.screen import Screen
from demonstration.stage import Stage

JOBS: Final = "hack/demonstration/jobs"
ROOT: Final = Path(__file__).resolve().parents[2]
_LOOK_SECONDS: Final = 0.3
_PATIENCE_SECONDS: Final = 120.0
_RESUME: Final = '{"spec":{"runPolicy":{"suspend":false}}}'
_WHY: Final = 'jsonpath={.status.conditions[-1:].message}{"\\n"}'


class NoEndError(Exception):
    """The jobs did not come to their ends in time, or a command failed; the message says what there was."""


class Play:
    """One performance."""

    def __init__(self, stage: Stage, screen: Screen) -> None:
        self._stage = stage
        self._screen = screen
        self._began = time.monotonic()

    def perform(self) -> None:
        """From the first command to the last job's end; raises NoEndError or StageFailedError."""
        self.kubectl("apply", "-f", JOBS)
        self._began = time.monotonic()
        while not _has_ended("steady", self._look()):
            self._pause()
        self.kubectl("patch", "tfjob/patient", "--type=merge", "-p", _RESUME)
        while not all(row.has_ended for row in self._look()):
            self._pause()

    def conclude(self) -> None:
        """What has become of them."""
        self.kubectl("get", "tfjobs")
        self.kubectl("get", "tfjob/unlucky", "-o", _WHY)

    def kubectl(self, *arguments: str) -> None:
        """Show a command, run it and show what it says."""
        self._screen.say(f"\n$ kubectl {_shown(arguments)}")
        command = [self._stage.kubectl, f"--kubeconfig={self._stage.kubeconfig}", *arguments]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise NoEndError(f"kubectl {_shown(arguments)}: {done.stderr.strip()}")
        self._screen.say(done.stdout.rstrip())

    def _look(self) -> list[Row]:
        """Show how things are, and return it."""
        jobs, pods, events = (
            self._list(path)
            for path in (
                "/apis/kubeflow.org/v1/namespaces/default/tfjobs",
                "/api/v1/namespaces/default/pods",
                "/api/v1/namespaces/default/events",
            )
        )
        rows = picture.rows(jobs, pods)
        self._screen.show(rows, picture.notes(events), seconds=time.monotonic() - self._began)
        return rows

    def _list(self, path: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = self._stage.plane.admin.get(path)["items"]
        return items

    def _pause(self) -> None:
        self._stage.check()
        if time.monotonic() - self._began > _PATIENCE_SECONDS:
            log = self._stage.operator.tail()
            raise NoEndError(
                f"after {_PATIENCE_SECONDS:.0f} s not all jobs have ended; the operator's log says:\n{log}"
            )
        time.sleep(_LOOK_SECONDS)


def _has_ended(name: str, rows: Sequence[Row]) -> bool:
    return any(row.name == name and row.has_ended for row in rows)


def _shown(arguments: Sequence[str]) -> str:
    """As one would type it."""
    return " ".join(f"'{text}'" if set(text) & set('{}" ') else text for text in arguments)
