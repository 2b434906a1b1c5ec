"""Serves the reports of pods: an endpoint with TLS, on an event loop and in a thread of its own.

Every replica serves it, because the Service leads to all of them; one that does not lead asks the leader (``relay``).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from tf_operator.app.http import policies, server
from tf_operator.app.http.certificates import CertificateError, GivenCertificate
from tf_operator.app.http.metrics_auth import DECISION_WITHIN, Decision
from tf_operator.app.http.server import HttpReply
from tf_operator.app.metrics.loop_monitor import LoopMonitor
from tf_operator.app.metrics.registry import Metrics
from tf_operator.app.options.progress import ProgressOptions
from tf_operator.app.progress.answer import ProgressAnswer
from tf_operator.app.progress.pods import PodReviewer, PodTokens
from tf_operator.app.progress.relay import Relay
from tf_operator.app.wiring import ControllerContext
from tf_operator.controller.progress.intake import Outcome, TokenOwner
from tf_operator.job.progress import Progress
from tf_operator.machinery.election.election_thread import ElectionThread
from tf_operator.machinery.log import Logger
from tf_operator.machinery.transport.client import ApiClient
from tf_operator.meta import ObjectKey
from tf_operator.planning.bodies.progress_reporting import ProgressServer
from tf_operator.planning.snapshot import Settings

_log = Logger(__name__)

_Stamp = tuple[int, int, int]
_NOTHING: Final = object()
TAKEN_WITHIN: Final = 2.0
"""Seconds that the operator's loop has for a report."""


def with_server(options: ProgressOptions | None, settings: Callable[[], Settings]) -> Callable[[], Settings]:
    """The settings with where pods report, if they do; ``CertificateError`` when the authority cannot be read."""
    return ServerSettings(options, settings) if options else settings


class ServerSettings:
    """The settings with where pods report: each pod gets the authority that is in the file when it is made.

    While the file cannot be read, they get the last one.
    """

    def __init__(self, options: ProgressOptions, settings: Callable[[], Settings]) -> None:
        self._url, self._file, self._settings = options.url, Path(options.folder, "ca.crt"), settings
        self._stamp = self._stamp_now()  # first: what changes while it is read is read again
        self._failed: object = _NOTHING
        """The state of the file whose failure is in the log."""
        self._server = self._read()
        self._plain = settings()
        self._full = replace(self._plain, progress=self._server)

    def __call__(self) -> Settings:
        """The same object while nothing changes."""
        server = self._server
        if (stamp := self._stamp_now()) != self._stamp:
            self._renew(stamp)
        if (plain := self._settings()) is not self._plain or server is not self._server:
            self._plain, self._full = plain, replace(plain, progress=self._server)
        return self._full

    def _renew(self, stamp: _Stamp | None) -> None:
        """Read the file; again for the next plan if that fails, which may have had a passing cause."""
        try:
            self._server = self._read()
        except CertificateError as error:
            if stamp != self._failed:
                _log.warning("new pods get the authority that was read last", error=str(error))
            self._failed = stamp
        else:
            self._stamp, self._failed = stamp, _NOTHING
            _log.info("the authority of reports of progress was renewed", file=str(self._file))

    def _read(self) -> ProgressServer:
        try:
            return ProgressServer(self._url, authority=self._file.read_text(encoding="ascii"))
        except (OSError, UnicodeDecodeError) as error:
            words = f"the authority of reports of progress: {self._file} cannot be read: {error}"
            raise CertificateError(words) from error

    def _stamp_now(self) -> _Stamp | None:
        """What changes when the file does; ``None`` while it is missing."""
        with suppress(OSError):
            state = self._file.stat()
            return state.st_ino, state.st_mtime_ns, state.st_size
        return None


@contextmanager
def serving(
    context: ControllerContext,
    client: ApiClient,
    election: ElectionThread | None,
    *,
    monitor: LoopMonitor,
    metrics: Metrics,
) -> Iterator[None]:
    """Serve until the block is left, if the options ask for it."""
    options, clock = context.options.progress, context.clock
    if options is None:
        yield
        return
    reviewer, reports = PodReviewer(clock, client), metrics.progress()

    async def identify(token: str) -> TokenOwner | Decision:
        return await monitor.run(partial(reviewer.identify, token), within=DECISION_WITHIN) or Decision.UNAVAILABLE

    async def authenticate(token: str, address: str) -> TokenOwner | HttpReply:
        with suppress(TimeoutError):
            async with clock.timeout(DECISION_WITHIN):
                return await tokens.authenticate(token, address)
        return Decision.UNAVAILABLE.reply

    async def submit(version: str, key: ObjectKey, owner: TokenOwner, report: Progress) -> Outcome | None:
        def take() -> Outcome:
            intake = context.progress_intakes.get(version)
            return intake.take(key, owner, report) if intake else Outcome.NOT_THE_REPORTER

        return await monitor.call(take, within=TAKEN_WITHIN)

    tokens = PodTokens(clock, identify)
    pair = Path(options.folder, "tls.crt"), Path(options.folder, "tls.key")
    certificate = GivenCertificate("reports of progress", *pair)
    relay = Relay(clock, options, lambda: election.lease if election else None)
    answer = ProgressAnswer(clock, authenticate, submit, count=reports.replied, relay=relay)
    endpoint = answer.endpoint(options.address)._replace(
        tls=certificate.context,
        policy=policies.REPORTS,
        on_refused=reports.handshake_refused,
        on_end=relay.close,
    )
    with server.serving(endpoint):
        yield
