"""Listens on this machine for the reports of programs about jobs that run without a cluster.

The socket is there from the beginning, because pods know its port. Whoever serves it comes with the first connection:
a training that reports nothing waits for no import. Port and secret are kept in the state folder: the pods of an
earlier server, which go on under this one, have them in their environment.
"""

import asyncio
import json
import secrets
import socket
from contextlib import suppress
from typing import Final

from tf_operator.app.local_kinds.job_curves import JobCurves
from tf_operator.controller.progress.intake import Outcome, ProgressIntake, TokenOwner
from tf_operator.controller.progress.reports import Pace
from tf_operator.job.progress import Progress
from tf_operator.local.state import StateFolder
from tf_operator.machinery import sockets
from tf_operator.machinery.clock import Clock
from tf_operator.meta import ObjectKey
from tf_operator.planning.bodies.progress_reporting import ProgressServer

PACE: Final = Pace(every=1.0, unchanged=1.0, per_second=100.0)
"""Nobody else uses this API server."""
EVERY: Final = 1.0
_HOST: Final = "127.0.0.1"
_BACKLOG: Final = 16
_HIGHEST: Final = 65535
_FILE: Final = "progress.json"


class LocalProgress:
    """Serves one process."""

    def __init__(self, clock: Clock, folder: StateFolder) -> None:
        self._clock = clock
        self.curves = JobCurves()
        self.intakes: dict[str, ProgressIntake] = {}
        """By the API version of their jobs; filled by who makes the controllers."""
        port, secret = _last_port_and_secret(folder)
        self._listener = _listener(port)
        self.port: int = self._listener.getsockname()[1]
        self.server = ProgressServer(f"http://{_HOST}:{self.port}", secret)
        folder.write(_FILE, json.dumps([self.port, secret]).encode())

    async def run(self) -> None:
        """Serve until cancelled."""
        with self._listener:
            await sockets.wait_readable(self._listener)
            await self._serve()

    async def _serve(self) -> None:
        from tf_operator.app.http import server  # noqa: PLC0415 (takes as long as everything else together)
        from tf_operator.app.options.flag_types import Address  # noqa: PLC0415 (as above)
        from tf_operator.app.progress import answer  # noqa: PLC0415 (as above)

        loop = asyncio.get_running_loop()

        async def authenticate(token: str, _client: str) -> TokenOwner | server.HttpReply:
            uid = self.server.job_of(token)
            return TokenOwner(uid) if uid else server.HttpReply(401, b"This token is that of no job.\n")

        async def submit(version: str, key: ObjectKey, reporter: TokenOwner, report: Progress) -> Outcome | None:
            async def take() -> Outcome:
                intake = self.intakes.get(version)
                outcome = intake.take(key, reporter, report) if intake else Outcome.NOT_THE_REPORTER
                if outcome is Outcome.TAKEN:
                    self.curves.add(key, reporter.job_uid, report)
                return outcome

            return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(take(), loop))

        reports = answer.ProgressAnswer(self._clock, authenticate, submit, every=EVERY)
        endpoint = reports.endpoint(Address(*self._listener.getsockname()))._replace(listener=self._listener)
        with server.serving(endpoint):
            await loop.create_future()


def _last_port_and_secret(folder: StateFolder) -> tuple[int, str]:
    """Port and secret of the server before this one; 0, and a new secret, if there was none."""
    with suppress(ValueError, TypeError):
        port, secret = json.loads(folder.read(_FILE))
        if secret and port in range(_HIGHEST + 1):
            return int(port), str(secret)
    return 0, secrets.token_hex(32)


def _listener(port: int) -> socket.socket:
    """A socket that listens at this port; at another one where somebody else has it by now."""
    try:
        listener = socket.create_server((_HOST, port), backlog=_BACKLOG)
    except OSError:
        listener = socket.create_server((_HOST, 0), backlog=_BACKLOG)
    listener.settimeout(0)
    return listener
