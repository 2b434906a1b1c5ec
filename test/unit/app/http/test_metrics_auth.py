"""Who may read a page: the apiserver's word, remembered for a while, and never a flood of questions."""

import asyncio
import os

import pytest
from structlog.testing import capture_logs

from support.embedded.embedded_api import refused
from tf_operator.app.http import metrics_auth
from tf_operator.app.http import server as web
from tf_operator.app.http.metrics_auth import CLIENT_BURST, UNKNOWN_BURST, Authorizer, Decision, Reviewer
from tf_operator.machinery.transport import errors


class Apiserver:
    """Knows some tokens, and who may read; counts the questions. ``down`` is what it fails with."""

    def __init__(self, *, tokens=("good", "guest"), allowed=("good",)):
        self.tokens = set(tokens)
        self.allowed = set(allowed)
        self.questions = []
        self.down = None
        self.answer = asyncio.Event()
        self.answer.set()

    async def create(self, resource, _namespace, body):
        self.questions.append(resource.plural)
        await self.answer.wait()
        if self.down:
            raise self.down
        spec = body["spec"]
        if resource.plural == "tokenreviews":
            return {"status": {"authenticated": spec["token"] in self.tokens, "user": {"username": spec["token"]}}}
        return {"status": {"allowed": spec["user"] in self.allowed}}

    @property
    def reviews(self):
        """How many tokens were reviewed."""
        return self.questions.count("tokenreviews")


@pytest.fixture
def server():
    return Apiserver()


@pytest.fixture
def door(clock, server):
    reviewer = Reviewer(clock, "/metrics")
    reviewer.use(server)
    return Authorizer(clock, reviewer.review)


@pytest.mark.parametrize(
    ("token", "decision"),
    [("good", Decision.ALLOWED), ("guest", Decision.FORBIDDEN), ("bad", Decision.UNAUTHENTICATED)],
)
async def test_the_decision_is_the_apiservers(door, token, decision):
    assert await door.authorize(token) is decision


async def test_nobody_is_let_in_before_there_is_anybody_to_ask(clock):
    assert await Reviewer(clock, "/metrics").review("good") is Decision.UNAVAILABLE


async def test_a_yes_is_remembered_for_a_minute(door, server, clock):
    await door.authorize("good")
    await clock.advance(metrics_auth.ALLOWED_FOR - 1)
    assert await door.authorize("good") is Decision.ALLOWED
    assert server.reviews == 1

    server.allowed.clear()
    await clock.advance(2)
    assert await door.authorize("good") is Decision.FORBIDDEN


@pytest.mark.parametrize(("token", "decision"), [("guest", Decision.FORBIDDEN), ("bad", Decision.UNAUTHENTICATED)])
async def test_a_no_is_remembered_for_ten_seconds(door, server, clock, token, decision):
    await door.authorize(token)
    await clock.advance(metrics_auth.DENIED_FOR - 1)
    assert await door.authorize(token) is decision
    assert server.reviews == 1

    server.tokens.add(token)
    server.allowed.add(token)
    await clock.advance(2)
    assert await door.authorize(token) is Decision.ALLOWED


async def test_nobody_is_let_in_while_the_apiserver_does_not_answer_and_that_is_not_remembered(door, server, clock):
    await door.authorize("good")
    server.down = errors.Unreachable("nobody there")
    await clock.advance(metrics_auth.ALLOWED_FOR + 1)
    assert await door.authorize("good") is Decision.UNAVAILABLE

    server.down = None
    assert await door.authorize("good") is Decision.ALLOWED


async def test_why_nobody_is_let_in_is_told_once_a_minute_without_the_token(door, server, clock):
    server.down = refused(403, "Forbidden", "tokenreviews is forbidden")
    with capture_logs() as logs:
        await door.authorize("good")
        await door.authorize("good")
        await clock.advance(metrics_auth.LOG_EVERY)
        await door.authorize("good")

    assert [record["event"] for record in logs] == ["metrics authorization unavailable"] * 2
    assert logs[0]["hint"] == "the ClusterRole for protected metrics is missing"
    assert "good" not in str(logs)


async def flood(door, *clients):
    """As many unknown tokens from each of these addresses as use up its limit."""
    tokens = [(f"{client}-{os.urandom(4).hex()}", client) for client in clients for _ in range(2 * UNKNOWN_BURST)]
    return await asyncio.gather(*(door.authorize(*token) for token in tokens))


async def test_a_flood_of_bad_tokens_makes_a_few_reviews_and_the_rest_is_turned_away(door, server, clock):
    decisions = await flood(door, "10.0.0.1")
    assert server.reviews == CLIENT_BURST
    assert decisions.count(Decision.RATE_LIMITED) == 2 * UNKNOWN_BURST - CLIENT_BURST

    await clock.advance(1 / metrics_auth.CLIENT_PER_SECOND)
    await flood(door, "10.0.0.1")
    assert server.reviews == CLIENT_BURST + 1


async def test_a_flood_from_everywhere_makes_few_reviews_as_well_and_is_forgotten(door, server):
    await flood(door, *map(str, range(metrics_auth.MOST_CLIENTS + 10)))

    assert server.reviews == UNKNOWN_BURST
    assert len(door._budgets) == metrics_auth.MOST_CLIENTS


async def test_a_client_that_is_new_gets_in_during_a_flood_from_another_address(door):
    await flood(door, "10.0.0.1")

    assert await door.authorize("good", "10.0.0.2") is Decision.ALLOWED


async def test_a_scraper_with_a_new_token_gets_in_during_a_flood_from_everywhere(door, server):
    await door.authorize("good", "10.0.0.2")
    await flood(door, *map(str, range(100)))
    server.tokens.add("renewed")
    server.allowed.add("renewed")

    assert await door.authorize("renewed", "10.0.0.2") is Decision.ALLOWED
    assert await door.authorize("good", "10.0.0.3") is Decision.ALLOWED
    assert await door.authorize("guest", "10.0.0.4") is Decision.RATE_LIMITED


async def test_few_reviews_run_at_the_same_time(door, server, clock):
    server.answer.clear()
    asking = [asyncio.ensure_future(door.authorize(f"bad-{number}")) for number in range(5)]
    await clock.idle()

    assert server.reviews == metrics_auth.REVIEWS_AT_ONCE
    server.answer.set()
    await asyncio.gather(*asking)


async def test_who_was_let_in_before_is_let_in_during_a_flood(door, server, clock):
    await door.authorize("good")
    await clock.advance(metrics_auth.ALLOWED_FOR + 1)
    server.answer.clear()
    flood = [asyncio.ensure_future(door.authorize(f"bad-{number}")) for number in range(1000)]
    regular = asyncio.ensure_future(door.authorize("good"))
    await clock.idle()
    server.answer.set()

    assert await regular is Decision.ALLOWED
    await asyncio.gather(*flood)


async def test_one_token_shown_many_times_at_once_is_reviewed_no_more_often_than_there_are_turns(door, server, clock):
    server.answer.clear()
    asking = [asyncio.ensure_future(door.authorize("good")) for _ in range(CLIENT_BURST)]
    await clock.idle()
    server.answer.set()

    assert set(await asyncio.gather(*asking)) == {Decision.ALLOWED}
    assert server.reviews == metrics_auth.REVIEWS_AT_ONCE


async def test_no_more_than_so_many_tokens_are_remembered(door, clock):
    for number in range(metrics_auth.MOST_DENIED + 50):
        await door.authorize(f"bad-{number}", str(number))
        await clock.advance(1)

    assert len(door._denied._entries) == metrics_auth.MOST_DENIED


async def test_tokens_are_not_kept(door):
    await door.authorize("good")
    await door.authorize("guest")

    entries = [*door._allowed._entries, *door._denied._entries]
    assert len(entries) == 2
    assert not {b"good", b"guest"} & set(entries)


def asking(authorization=None):
    return web.PageRequest({} if authorization is None else {"Authorization": authorization}, "10.0.0.1")


async def numbers(_request):
    return web.HttpReply(200, b"numbers")


async def nobody(*_):
    pytest.fail("it was asked")


@pytest.mark.parametrize(
    "authorization",
    [None, "", "good", "Basic good", "Bearer", "Bearer ", "Bearer two words", "Bearer " + "x" * 16385, "Bearer a\x00b"],
)
async def test_what_is_no_bearer_token_is_denied_without_a_review(authorization):
    reply = await metrics_auth.protected(numbers, nobody)(asking(authorization))

    assert (reply.status, reply.headers["WWW-Authenticate"]) == (401, "Bearer")


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER "])
async def test_a_token_that_is_allowed_gets_the_page(scheme):
    tokens = []

    async def authorize(*token):
        tokens.append(token)
        return Decision.ALLOWED

    reply = await metrics_auth.protected(numbers, authorize)(asking(f"{scheme} ey.J-h_b.G=="))

    assert (reply.body, tokens) == (b"numbers", [("ey.J-h_b.G==", "10.0.0.1")])


@pytest.mark.parametrize("decision", [decision for decision in Decision if decision is not Decision.ALLOWED])
async def test_a_token_that_is_not_allowed_gets_the_reason_and_nothing_else(decision):
    async def authorize(*_):
        return decision

    reply = await metrics_auth.protected(nobody, authorize)(asking("Bearer x"))

    assert reply.status == decision.value[0]
    assert reply.body == f"{decision.value[1]}\n".encode()
