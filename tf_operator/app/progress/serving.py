"""Serves the reports of pods: an endpoint with TLS, on an event loop and in a thread of its own.

Every replica serves it, because the Service leads to all of them; one that does not lead asks the leader (``relay``).
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
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
from tf_operator.machinery.transport.client import ApiClient
from tf_operator.meta import ObjectKey
from tf_operator.planning.bodies.progress_reporting import ProgressServer

TAKEN_WITHIN: Final = 2.0
"""Seconds that the operator's loop has for a report."""


def make_server(options: ProgressOptions | None) -> ProgressServer | None:
    """Where pods report, if they do; ``CertificateError`` when the authority cannot be read."""
    if options is None:
        return None
    file = Path(options.folder, "ca.crt")
    try:
        authority = file.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise CertificateError(f"the authority of reports of progress: {file} cannot be read: {error}") from error
    return ProgressServer(options.url, authority=authority)


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
