"""Whose tokens are: what is asked, for how long it is remembered, and that nothing else is believed."""

import base64
import json

import pytest

from tf_operator.app.http.metrics_auth import Decision
from tf_operator.app.progress.pods import PodTokens
from tf_operator.controller.progress.intake import TokenOwner

OWNER = TokenOwner(pod_uid="pod-uid", namespace="team")


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
