"""Single calls: which are retried and for how long, what each takes of the budget, and what follows a 401."""

import asyncio
import json
import math
from contextlib import asynccontextmanager

import pytest

from support.disturbances.loopback import CLOSED, RESET, SILENT, Answer, Ending, Loopback, reply
from support.fake_clock import FakeClock
from support.operators.config_source import ConfigSource
from tf_operator.machinery.election.fence import NotLeading
from tf_operator.machinery.metrics_hooks import ClientInstruments
from tf_operator.machinery.ratelimit import TokenBucket
from tf_operator.machinery.transport import client, errors, requests, responses
from tf_operator.machinery.transport.client import ApiClient
from tf_operator.machinery.transport.config import ClientConfig, ConfigurationError
from tf_operator.machinery.transport.connection import Connection
from tf_operator.meta import ObjectKey

JOBS = requests.Resource("kubeflow.org", "v1", "tfjobs", "TFJob")
KEY = ObjectKey("ns", "a")
BODY = {"metadata": {"name": "a", "resourceVersion": "7"}}
OK = reply(200, json.dumps(BODY).encode())
HTML = reply(200, b"<html>Please log in to the hotel's network</html>", Content_Type="text/html")
DEEP = reply(200, b'{"x":' + b"[" * 50_000 + b"]" * 50_000 + b"}")
SSH = Answer(b"SSH-2.0-x\r\n\r\n", Ending.CLOSED)
HALF = b"HTTP/1.1 %d Whatever\r\nContent-Length: 9\r\n\r\n{"
HALF_A_HEAD = Answer(b"HTTP/1.1 200 OK\r\n")
HALF_A_BODY = Answer(HALF % 200)
HALF_AN_ERROR = Answer(HALF % 500)
ENDLESS = Answer(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", Ending.SILENT)
WATCH = requests.watch(JOBS, requests.Scope("ns"), resource_version="7", timeout_seconds=9)
CALLS = {
    "get": lambda api: api.get(JOBS, KEY),
    "list": lambda api: api.send(requests.list_page(JOBS, requests.EVERYWHERE, limit=5)),
    "create": lambda api: api.create(JOBS, "ns", BODY),
    "patch": lambda api: api.merge_patch(JOBS, KEY, BODY, subresource="status"),
    "update": lambda api: api.update(JOBS, KEY, BODY),
    "delete": lambda api: api.delete(JOBS, KEY, uid="u", propagation="Background", grace_seconds=0),
}
READS, WRITES = ("get", "list"), ("create", "patch", "update", "delete")


def refusal(code, reason=None, message="m", **headers):
    return reply(
        code, json.dumps({"kind": "Status", "code": code, "reason": reason, "message": message}).encode(), **headers
    )


class HastyClock(FakeClock):
    """Sleeps end at once; their lengths are kept. Time limits never run out by themselves."""

    def __init__(self):
        super().__init__()
        self.slept = []

    async def sleep(self, seconds):
        if seconds > 0:
            self.slept.append(seconds)
            self._monotonic += seconds
        await asyncio.sleep(0)


class Counted(ClientInstruments):
    def __init__(self):
        self.replies, self.repeats, self.waits = [], [], []

    def replied(self, verb, code, seconds):
        self.replies.append((verb, code))

    def retried(self, verb, cause):
        self.repeats.append((verb, cause))

    def throttled(self, verb, seconds):
        self.waits.append((verb, seconds))


def as_config(host, token):
    return ClientConfig(host, f"Bearer {token}") if isinstance(token, str) else token


@asynccontextmanager
async def serving(script, *, clock=None, tokens=("t",), budget=None, **options):
    clock = clock or HastyClock()
    async with Loopback(script) as server:
        source = ConfigSource(*(as_config(server.url, token) for token in tokens))
        async with Connection(source, clock=clock) as connection:
            budget = budget or TokenBucket(clock, qps=math.inf, burst=1)
            api = ApiClient(connection, clock=clock, budget=budget, **options)
            api.server, api.clock, api.source = server, clock, source
            yield api


# What goes out


@pytest.mark.parametrize(
    ("verb", "method", "target", "body"),
    [
        ("get", "GET", "/namespaces/ns/tfjobs/a", None),
        ("list", "GET", "/tfjobs?limit=5", None),
        ("create", "POST", "/namespaces/ns/tfjobs", {"apiVersion": "kubeflow.org/v1", "kind": "TFJob"} | BODY),
        ("patch", "PATCH", "/namespaces/ns/tfjobs/a/status", BODY),
        ("update", "PUT", "/namespaces/ns/tfjobs/a", {"apiVersion": "kubeflow.org/v1", "kind": "TFJob"} | BODY),
        (
            "delete",
            "DELETE",
            "/namespaces/ns/tfjobs/a",
            {"preconditions": {"uid": "u"}, "propagationPolicy": "Background", "gracePeriodSeconds": 0},
        ),
    ],
)
async def test_a_call_sends_its_request_and_returns_what_came_back(verb, method, target, body):
    async with serving(OK) as api:
        answer = await CALLS[verb](api)

    assert answer == (OK.data.partition(b"\r\n\r\n")[2] if verb == "list" else BODY)
    (request,) = api.server.requests
    assert (request.method, request.target) == (method, "/apis/kubeflow.org/v1" + target)
    assert (json.loads(request.body) if request.body else None) == body


# Retries

EVERYTHING = {*READS, *WRITES}
FUTURE = reply(504, b'{"code":504,"reason":"Timeout","details":{"causes":[{"reason":"ResourceVersionTooLarge"}]}}')
SWITCHED = Answer(b"HTTP/1.1 101 Go\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", Ending.CLOSED)


@pytest.mark.parametrize(
    ("answer", "kind", "repeated"),
    [
        pytest.param(refusal(429, "TooManyRequests"), errors.Throttled, EVERYTHING, id="429"),
        pytest.param(refusal(500, "InternalError"), errors.ServerFailed, READS, id="500"),
        pytest.param(reply(502, b"<html>"), errors.ServerFailed, READS, id="502 of a balancer"),
        pytest.param(refusal(503, "ServiceUnavailable"), errors.Unavailable, READS, id="503"),
        pytest.param(refusal(504, "Timeout"), errors.ServerTimeout, READS, id="504"),
        pytest.param(CLOSED, errors.ReplyLost, READS, id="closed"),
        pytest.param(HALF_AN_ERROR.then(Ending.CLOSED), errors.ReplyLost, READS, id="half an error"),
        pytest.param(SSH, errors.Garbled, READS, id="another protocol"),
        pytest.param(SWITCHED, errors.Garbled, READS, id="a switch of protocols"),
        pytest.param(refusal(400, "BadRequest"), errors.Refused, (), id="400"),
        pytest.param(refusal(401, "Unauthorized"), errors.Unauthorized, (), id="401"),
        pytest.param(refusal(403, "Forbidden"), errors.Forbidden, (), id="403"),
        pytest.param(refusal(404, "NotFound"), errors.NotFound, (), id="404"),
        pytest.param(refusal(409, "Conflict"), errors.Conflict, (), id="409"),
        pytest.param(refusal(409, "AlreadyExists"), errors.AlreadyExists, (), id="409 exists"),
        pytest.param(refusal(410, "Expired"), errors.Expired, (), id="410"),
        pytest.param(refusal(422, "Invalid"), errors.Invalid, (), id="422"),
        pytest.param(refusal(500, None, "etcdserver: request is too large"), errors.TooLarge, (), id="too large"),
        pytest.param(FUTURE, errors.ResourceVersionTooLarge, (), id="a future version"),
        pytest.param(reply(307, Location="http://elsewhere"), errors.Redirected, (), id="redirect"),
    ],
)
async def test_a_failed_call_is_repeated_only_if_that_helps_and_carries_out_nothing_twice(answer, kind, repeated):
    instruments = Counted()
    async with serving(answer, instruments=instruments) as api:
        for verb, call in CALLS.items():
            with pytest.raises(kind) as failure:
                await call(api)

            is_repeated = verb in repeated
            assert type(failure.value) is kind, verb
            assert len(api.server.requests) == (client.ATTEMPTS if is_repeated else 1), verb
            assert instruments.repeats == [(verb, kind.__name__)] * (client.ATTEMPTS - 1 if is_repeated else 0)
            assert len(api.clock.slept) == len(instruments.repeats), verb
            for counted in (api.server.requests, instruments.repeats, api.clock.slept):
                counted.clear()


@pytest.mark.parametrize("verb", CALLS)
async def test_every_call_is_repeated_when_the_server_is_unreachable(verb):
    instruments = Counted()
    async with serving(OK, instruments=instruments) as api:
        api._transport._config._config = ClientConfig("http://127.0.0.1:1")
        with pytest.raises(errors.Unreachable):
            await CALLS[verb](api)

    assert instruments.repeats == [(verb, "Unreachable")] * 4
    assert instruments.replies == [(verb, "<error>")] * 5


@pytest.mark.parametrize(
    ("answer", "kind", "is_repeated"),
    [
        pytest.param(HTML, errors.Garbled, True, id="HTML with 200"),
        pytest.param(reply(204), errors.Garbled, True, id="204"),
        pytest.param(DEEP, errors.Unreadable, False, id="nested too deep"),
    ],
)
async def test_a_success_without_an_object_is_an_error(answer, kind, is_repeated):
    async with serving(answer) as api:
        for verb in ("get", *WRITES):
            api.server.requests.clear()
            with pytest.raises(kind) as failure:
                await CALLS[verb](api)

            assert type(failure.value) is kind
            assert failure.value.outcome_unknown
            assert len(api.server.requests) == (5 if is_repeated and verb == "get" else 1), verb


async def test_the_waits_grow_and_are_jittered():
    waits = []
    for _ in range(5):
        async with serving(reply(503)) as api:
            with pytest.raises(errors.Unavailable):
                await CALLS["get"](api)
        waits.append(api.clock.slept)

    for number, seconds in enumerate(zip(*waits, strict=True)):
        assert all(0.2 * 2**number <= wait <= 0.2 * 2**number + 0.2 for wait in seconds)
        assert len(set(seconds)) == 5


@pytest.mark.parametrize(
    ("header", "least", "most"),
    [
        pytest.param({"Retry_After": "1"}, 1, 1, id="a second"),
        pytest.param({"Retry_After": "Thu, 01 Jan 2026 00:00:20 GMT"}, 20, 20, id="a date"),
        pytest.param({"Retry_After": "0"}, 0.2, 0.4, id="less than our own wait"),
        pytest.param({}, 0.2, 0.4, id="none"),
    ],
)
@pytest.mark.parametrize("verb", ["get", "create"])
async def test_a_call_is_not_repeated_before_the_time_that_the_server_named(verb, header, least, most):
    async with serving([refusal(429, **header), OK]) as api:
        await CALLS[verb](api)

    assert len(api.clock.slept) == 1
    assert least <= api.clock.slept[0] <= most


async def test_a_call_is_given_up_after_half_a_minute_even_if_the_server_asks_for_more():
    async with serving(refusal(429, Retry_After="20")) as api:
        with pytest.raises(errors.Throttled) as failure:
            await CALLS["create"](api)

    assert api.clock.slept == [20, 20]
    assert failure.value.retry_after == 20


@pytest.mark.parametrize("answer", [CLOSED, refusal(429)], ids=["closed", "429"])
async def test_a_call_that_is_to_be_sent_once_is_not_repeated(answer):
    async with serving(answer) as api:
        with pytest.raises(errors.ApiError):
            responses.read_page(await api.send_once(requests.list_page(JOBS, requests.EVERYWHERE, limit=5)))

        assert len(api.server.requests) == 1


async def test_a_cancelled_call_is_not_repeated():
    async with serving(SILENT) as api:
        call = asyncio.ensure_future(CALLS["get"](api))
        await api.server.wait_seen(1)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    assert len(api.server.requests) == 1


# Time


SILENCES = {
    "silence": (b"", "<error>"),
    "half a head": (HALF_A_HEAD.data, "<error>"),
    "half a body": (HALF_A_BODY.data, "200"),
    "half an error": (HALF_AN_ERROR.data, "500"),
}


async def run_out(clock, server, call, *, seconds=40.0, is_under_way=lambda: True):
    """Let the time limit run out once the request has been sent, and as much of the answer has come as will."""
    task = asyncio.ensure_future(call)
    await server.wait_seen(1)
    while not is_under_way():
        await asyncio.sleep(0.001)
    await clock.advance(seconds - 0.1)
    assert not task.done()
    await clock.advance(0.1)
    return await task


@pytest.mark.parametrize(("begun", "code"), SILENCES.values(), ids=SILENCES.keys())
@pytest.mark.parametrize("verb", CALLS)
async def test_every_call_has_a_time_limit(verb, begun, code):
    instruments = Counted()
    async with serving(Answer(begun, Ending.SILENT), clock=FakeClock(), instruments=instruments) as api:
        with pytest.raises(errors.ReplyLost, match="no reply within 40 s") as failure:
            await run_out(
                api.clock, api.server, CALLS[verb](api), is_under_way=lambda: code == "<error>" or instruments.replies
            )

    assert failure.value.outcome_unknown
    assert len(api.server.requests) == 1, "40 s are more than the time after which a call is given up"
    assert instruments.replies == [(verb, code)]
    assert api.clock.pending == 0


SAID = b'{"code":413,"reason":"RequestEntityTooLarge","message":"200 kB are too much"}'


@pytest.mark.parametrize("words", [SAID, SAID[:40], b""], ids=["all", "half", "nothing"])
@pytest.mark.parametrize("size", [100, 200_000, 3_000_000])
async def test_a_refusal_counts_although_the_server_neither_reads_the_request_nor_ends_its_reply(clock, size, words):
    async def refuse(reader, writer):
        """The head and what is said come in one segment."""
        await reader.readuntil(b"\r\n\r\n")
        writer.transport.pause_reading()
        writer.write(b"HTTP/1.1 413 Whatever\r\nConnection: close\r\n\r\n" + words)
        replied.set()
        await ended.wait()
        writer.transport.abort()

    replied, ended = asyncio.Event(), asyncio.Event()
    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        source = ConfigSource(as_config(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", "t"))
        async with Connection(source, clock=clock) as connection:
            budget = TokenBucket(clock, qps=math.inf, burst=1)
            api = ApiClient(connection, clock=clock, budget=budget)
            task = asyncio.ensure_future(api.create(JOBS, "ns", {"notes": "x" * size}))
            await replied.wait()
            while clock.next_timer_in() != client.WORDS_WITHIN:
                await asyncio.sleep(0.001)
            await clock.advance(client.WORDS_WITHIN)
            with pytest.raises(errors.TooLarge, match="too much" if words == SAID else "HTTP 413") as failure:
                await task
        ended.set()

    assert not failure.value.outcome_unknown


async def test_waiting_for_the_budget_is_not_part_of_the_time_limit(clock):
    instruments, budget = Counted(), TokenBucket(clock, qps=0.01, burst=1)
    async with serving(OK, clock=clock, budget=budget, instruments=instruments) as api:
        await CALLS["create"](api)
        call = asyncio.ensure_future(CALLS["create"](api))
        await clock.advance(99)
        assert not call.done()
        assert len(api.server.requests) == 1
        await clock.advance(1)
        assert await call == BODY
    assert instruments.waits == [("create", 0), ("create", 100)]


# Credentials


def only(*tokens):
    """A script that lets in who has one of these tokens."""

    def answer(request):
        return OK if request.headers["authorization"] in {f"Bearer {token}" for token in tokens} else refusal(401)

    return answer


@pytest.mark.parametrize("verb", CALLS)
async def test_a_401_leads_to_one_read_of_the_credentials_and_one_more_attempt(verb):
    async with serving(only("new"), tokens=("old", "new")) as api:
        await CALLS[verb](api)

    assert [request.headers["authorization"] for request in api.server.requests] == ["Bearer old", "Bearer new"]
    assert api.source.refusals == [False, True]
    assert api.clock.slept == []


@pytest.mark.parametrize(
    ("tokens", "attempts", "text"),
    [
        pytest.param(("old", "new"), 2, r"^m$", id="the new token is refused, too"),
        pytest.param(("old",), 1, r"^m$", id="no new token"),
        pytest.param(
            ("old", ConfigurationError("exec: aws: log in")),
            1,
            r"m \(and reading the credentials again failed: exec: aws: log in\)",
            id="the read fails",
        ),
    ],
)
async def test_a_401_is_final_when_there_is_no_better_token(tokens, attempts, text):
    async with serving(only("other"), tokens=tokens) as api:
        with pytest.raises(errors.Unauthorized, match=text):
            await CALLS["get"](api)

    assert len(api.server.requests) == attempts


async def test_a_stream_is_opened_with_a_fresh_token_after_a_401():
    async with serving(only("new"), tokens=("old", "new")) as api, api.stream(WATCH) as chunks:
        assert b"".join([chunk async for chunk in chunks]) == OK.data.partition(b"\r\n\r\n")[2]

    assert len(api.server.requests) == 2


async def test_no_error_shows_the_token():
    texts = []
    echo = reply(502, b"sent: Bearer s3cr3t-t0k3n")
    for answer in (CLOSED, RESET, refusal(401), refusal(500), echo, SSH, HTML, SILENT):
        async with serving(answer, tokens=("s3cr3t-t0k3n",), clock=FakeClock(), attempts=1) as api:
            call = CALLS["create"](api)
            with pytest.raises(errors.ApiError) as failure:
                await (run_out(api.clock, api.server, call) if answer is SILENT else call)
        error = failure.value
        while error is not None:
            texts.append(str(error) + repr(error) + repr(error.args))
            error = error.__cause__ or error.__context__
    assert "s3cr3t" not in "".join(texts)


# Streams


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        pytest.param(refusal(429, Retry_After="1"), errors.Throttled, id="429"),
        pytest.param(reply(302), errors.Redirected, id="302"),
        pytest.param(CLOSED, errors.ReplyLost, id="closed"),
    ],
)
async def test_a_stream_that_cannot_be_opened_raises_at_once_and_is_not_repeated(answer, kind):
    async with serving(answer) as api:
        with pytest.raises(kind):
            async with api.stream(WATCH):
                pytest.fail("opened")

    assert len(api.server.requests) == 1


async def test_a_list_that_cannot_be_opened_is_asked_for_again():
    answers = iter((refusal(503), CLOSED, ENDLESS))
    async with serving(lambda _: next(answers)) as api, api.stream_repeated(WATCH) as chunks:
        assert await anext(chunks) == b"abc"

    assert len(api.server.requests) == 3


@pytest.mark.parametrize("begun", [b"", HALF_A_HEAD.data, HALF_AN_ERROR.data], ids=["silence", "half a head", "error"])
async def test_the_head_of_a_stream_has_a_time_limit(begun):
    async def opened(api):
        async with api.stream(WATCH):
            pytest.fail("opened")

    async with serving(Answer(begun, Ending.SILENT), clock=FakeClock()) as api:
        with pytest.raises(errors.ReplyLost, match="no reply within 40 s"):
            await run_out(api.clock, api.server, opened(api))


async def test_the_body_of_a_stream_has_none():
    async with serving(ENDLESS, clock=FakeClock()) as api, api.stream(WATCH) as chunks:
        assert await anext(chunks) == b"abc"
        waiting = asyncio.ensure_future(anext(chunks))
        await api.clock.advance(86_400)
        assert not waiting.done()
        api.server.hang_up(Ending.CLOSED)
        with pytest.raises(errors.ReplyLost):
            await waiting


# Guards


class Open:
    """A guard that allows so many calls, and refuses from then on."""

    def __init__(self, answers):
        self.left = answers

    def __call__(self):
        self.left -= 1
        if self.left < 0:
            raise NotLeading("no longer")


class Granted:
    """A budget that counts what it has given."""

    granted = 0

    async def wait(self):
        self.granted += 1


@pytest.mark.parametrize(
    ("yes", "granted"),
    [(0, 0), (1, 1), (2, 1)],
    ids=["before the budget", "after the budget", "once connected"],
)
@pytest.mark.parametrize("verb", WRITES)
async def test_nothing_is_sent_or_counted_when_the_guard_refuses_at_any_moment(verb, yes, granted):
    budget, instruments = Granted(), Counted()
    async with serving(OK, budget=budget, guard=Open(yes), instruments=instruments) as api:
        with pytest.raises(NotLeading):
            await CALLS[verb](api)

        assert api.server.requests == []
        assert budget.granted == granted
        assert (instruments.replies, instruments.repeats) == ([], [])


async def test_the_connection_of_a_request_that_was_not_sent_serves_the_next_one():
    guard = Open(2)
    async with serving(OK, guard=guard) as api:
        with pytest.raises(NotLeading):
            await api.get(JOBS, KEY)
        guard.left = 3
        await api.get(JOBS, KEY)

        assert [request.connection for request in api.server.requests] == [1]
