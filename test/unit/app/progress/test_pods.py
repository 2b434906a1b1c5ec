"""Whose tokens are: what is asked, for how long it is remembered, and that nothing else is believed."""

import base64
import json

import pytest
from structlog.testing import capture_logs

from tf_operator.app.http.metrics_auth import ALLOWED_FOR, LOG_EVERY, Decision
from tf_operator.app.progress import pods
from tf_operator.app.progress.pods import PodReviewer, PodTokens
from tf_operator.controller.progress.intake import TokenOwner
from tf_operator.machinery.transport import errors
from tf_operator.planning.bodies.progress_reporting import AUDIENCE

OWNER = TokenOwner(pod_uid="pod-uid", namespace="team")
POD_UID = "authentication.kubernetes.io/pod-uid"


def token(clock, *, seconds, claims=None):
    claims = claims or {"exp": clock.now().timestamp() + seconds}
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"head.{body}.signature"


class Server:
    """An API server that knows all tokens, until a test says otherwise."""

    answer = OWNER

    def __init__(self):
        self.asked = []

    async def identify(self, sent):
        self.asked.append(sent)
        return self.answer


@pytest.fixture
def server():
    return Server()


@pytest.fixture
def tokens(clock, server):
    return PodTokens(clock, server.identify)


async def test_a_token_is_asked_about_once_until_it_expires(tokens, server, clock):
    bearer = token(clock, seconds=3600)
    for _ in range(3):
        assert await tokens.authenticate(bearer, "10.0.0.1") == OWNER
    assert server.asked == [bearer]

    await clock.advance(3600)
    server.answer = Decision.UNAUTHENTICATED
    assert (await tokens.authenticate(bearer, "10.0.0.1")).status == 401


async def test_a_token_that_expires_within_the_minute_is_refused_then(tokens, clock):
    bearer = token(clock, seconds=10)
    assert await tokens.authenticate(bearer, "10.0.0.1") == OWNER

    await clock.advance(11)
    assert (await tokens.authenticate(bearer, "10.0.0.1")).status == 401


@pytest.mark.parametrize("bearer", ["opaque", "a.b.c", "a.bm90IGpzb24.c", "a.e30.c"])
async def test_a_token_that_does_not_say_when_it_expires_is_refused(tokens, bearer):
    assert (await tokens.authenticate(bearer, "10.0.0.1")).status == 401


async def test_unknown_tokens_of_one_address_are_soon_not_asked_about_any_more(tokens, server, clock):
    server.answer = Decision.UNAUTHENTICATED
    statuses = [(await tokens.authenticate(f"forged-{number}", "10.0.0.1")).status for number in range(1000)]

    assert set(statuses) == {401, 429}
    assert len(server.asked) == 5


async def test_while_the_api_server_does_not_answer_nobody_is_let_in_and_nothing_is_remembered(tokens, server, clock):
    server.answer = Decision.UNAVAILABLE
    bearer = token(clock, seconds=3600)
    assert (await tokens.authenticate(bearer, "10.0.0.1")).status == 503

    server.answer = OWNER
    assert await tokens.authenticate(bearer, "10.0.0.1") == OWNER


async def test_of_very_many_tokens_the_oldest_is_asked_about_again(tokens, server, clock, monkeypatch):
    monkeypatch.setattr(pods, "MOST_TOKENS", 2)
    first, second, third = (token(clock, seconds=seconds) for seconds in (3600, 3601, 3602))
    for number, bearer in enumerate((first, second, third, second, first)):
        assert await tokens.authenticate(bearer, f"10.0.0.{number}") == OWNER
        await clock.advance(ALLOWED_FOR)

    assert server.asked == [first, second, third, first]


class Reviews:
    """An API server that says whose the token is, or fails."""

    def __init__(self, username="system:serviceaccount:team:train", **extra):
        self.user = {"username": username, "extra": {POD_UID: ["pod-uid"], **extra}}
        self.asked, self.error = [], None

    async def create(self, _resource, _namespace, body):
        self.asked.append(body["spec"])
        if self.error:
            raise self.error
        return {"status": {"authenticated": True, "audiences": [AUDIENCE], "user": self.user}}


async def test_a_token_is_that_of_the_pod_and_the_namespace_that_the_api_server_names(clock):
    server = Reviews()

    assert await PodReviewer(clock, server).identify("secret") == OWNER
    assert server.asked == [{"token": "secret", "audiences": [AUDIENCE]}]


@pytest.mark.parametrize(
    "server",
    [
        Reviews("system:node:team"),
        Reviews(**{POD_UID: []}),
        Reviews(**{POD_UID: ["pod-uid", "another"]}),
        Reviews(**{POD_UID: "pod-uid"}),
    ],
    ids=["of no service account", "of no pod", "of two pods", "of something else"],
)
async def test_a_token_that_is_not_bound_to_one_pod_is_refused(clock, server):
    assert await PodReviewer(clock, server).identify("secret") is Decision.UNAUTHENTICATED


async def test_that_nobody_can_be_authenticated_is_logged_once_a_minute(clock):
    server = Reviews()
    reviewer, server.error = PodReviewer(clock, server), errors.Unavailable(503, errors.Status())
    with capture_logs() as records:
        for _ in range(3):
            assert await reviewer.identify("secret") is Decision.UNAVAILABLE
        await clock.advance(LOG_EVERY)
        await reviewer.identify("secret")

    assert len(records) == 2
