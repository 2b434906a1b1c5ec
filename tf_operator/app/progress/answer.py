"""What replies to the reports of programs: it reads them, bounds them, and hands on one small value.

On the loop of the HTTP server; of what anybody sends, only a report that is complete, valid and from somebody with a
token reaches the operator's loop. Programs never notice a refusal: their clients ignore it, and report again.
"""

import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

import msgspec

from tf_operator.app.http.metrics_auth import BEARER
from tf_operator.app.http.server import Endpoint, HttpReply, PageRequest
from tf_operator.app.options.flag_types import Address
from tf_operator.app.progress.relay import Relay
from tf_operator.controller.progress.intake import Outcome, TokenOwner
from tf_operator.dialects import trainer_status
from tf_operator.job.progress import Progress
from tf_operator.job.training_job import FieldError
from tf_operator.machinery.clock import Clock
from tf_operator.machinery.ratelimit import TokenBucket
from tf_operator.meta import ObjectKey

PATH: Final = "/apis/"
EVERY: Final = 5.0
"""Seconds between two reports of a job, as the clients of Kubeflow Trainer have it."""
BURST: Final = 3
"""The first report and the last one come out of turn."""
MOST_REPORTERS: Final = 10_000
_JOB: Final = re.compile(r"/apis/([^/]+/[^/]+)/namespaces/([^/]+)/[^/]+/([^/]+)/status")

Authenticate = Callable[[str, str], Awaitable[TokenOwner | HttpReply]]
"""Who has this token, which comes from this address; or the refusal."""
Submit = Callable[[str, ObjectKey, TokenOwner, Progress], Awaitable[Outcome | None]]
"""Hands a report about a job of an API version to the operator; ``None`` when that does not reply."""


class ProgressAnswer:
    """Answers reports. All of it on one event loop."""

    def __init__(
        self,
        clock: Clock,
        authenticate: Authenticate,
        submit: Submit,
        *,
        every: float = EVERY,
        count: Callable[[int], object] = lambda _: None,
        relay: Relay | None = None,
    ) -> None:
        """``count`` gets the status of each reply that is not another replica's."""
        self._clock = clock
        self._authenticate = authenticate
        self._submit = submit
        self._every = every
        self._count = count
        self._relay = relay
        self._budgets: OrderedDict[TokenOwner, TokenBucket] = OrderedDict()

    def endpoint(self, address: Address) -> Endpoint:
        return Endpoint(address, {}, answers={PATH: self.answer}, longest=trainer_status.LONGEST_REPORT)

    async def answer(self, request: PageRequest, body: bytes) -> HttpReply:
        origin = self._relay.origin_of(request) if self._relay else None
        reply = await self._answer(request, body, origin or request.client)
        if self._relay and reply is _REPLIES[Outcome.NOT_LEADING]:
            reply_of_leader = await self._relay.forward(request, body)
            if reply_of_leader:
                return reply_of_leader
        self._count(reply.status)
        return replace(reply, is_shared=True) if origin else reply

    async def _answer(self, request: PageRequest, body: bytes, client: str) -> HttpReply:
        match = _JOB.fullmatch(request.path)
        if match is None:
            return _reply(404, "There is no such job here.")
        token = BEARER.fullmatch(request.headers.get("Authorization", ""))
        if token is None:
            return _reply(401, "A bearer token is needed.", {"WWW-Authenticate": "Bearer"})
        reporter = await self._authenticate(token[1], client)
        if isinstance(reporter, HttpReply):
            return reporter
        if not self._budget_of(reporter).try_acquire():
            return _reply(429, "Too many reports of one job.", {"Retry-After": f"{self._every:.0f}"})
        report = trainer_status.read_report(body, self._clock.now())
        if isinstance(report, FieldError):
            return _reply(422, str(report))
        outcome = await self._submit(match[1], ObjectKey(match[2], match[3]), reporter, report)
        return _REPLIES[outcome]

    def _budget_of(self, reporter: TokenOwner) -> TokenBucket:
        if reporter not in self._budgets:
            self._budgets[reporter] = TokenBucket(self._clock, qps=1 / self._every, burst=BURST)
            if len(self._budgets) > MOST_REPORTERS:
                self._budgets.popitem(last=False)
        self._budgets.move_to_end(reporter)
        return self._budgets[reporter]


def _reply(status: int, message: str, headers: dict[str, str] | None = None) -> HttpReply:
    body = msgspec.json.encode({"message": message} if message else {})
    return HttpReply(status, body, {"Content-Type": "application/json", **(headers or {})})


_AGAIN: Final = {"Retry-After": "5"}
_REPLIES: Final = {
    Outcome.TAKEN: replace(_reply(200, ""), is_admitted=True),
    Outcome.NOT_THE_REPORTER: _reply(403, "This token is not that of the pod that reports for this job."),
    Outcome.ENDED: _reply(410, "The job has ended."),
    Outcome.NOT_LEADING: _reply(503, "Another replica of the operator leads.", _AGAIN),
    None: _reply(503, "The operator does not reply.", _AGAIN),
}
