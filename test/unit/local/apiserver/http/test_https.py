"""The embedded API server's HTTPS, with a state machine that answers by script: limits, streams and the end."""

import asyncio
import json
import socket
import ssl
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest

from support.fake_clock import FakeClock
from tf_operator.local.apiserver.http import https
from tf_operator.local.apiserver.http.guard import Guard
from tf_operator.local.apiserver.messages import Response
from tf_operator.machinery.serving import streaming

REQUEST_WITHIN = 5.0

TOKEN = "Authorization: Bearer right"
POD = {
    "metadata": {"name": "p", "namespace": "n"},
    "spec": {"nodeName": "local", "containers": [{"name": "main"}]},
    "status": {"containerStatuses": [{"name": "main", "state": {"running": {}}}]},
}


@pytest.fixture
def few_places(monkeypatch):
    """Before the server starts."""
    monkeypatch.setattr(streaming, "MOST", 3)


class Watch:
    content_type = "application/json"

    def __init__(self, clock):
        self.headers = {"Warning": '299 - "old"'}
        self.wakes_at = clock.monotonic() + 60
        self.is_ended = self.is_closed = False
        self.lines = []
        self.notify = None

    def on_news(self, callback):
        self.notify = callback

    def news(self):
        lines, self.lines = self.lines, []
        return lines

    def say(self, *lines):
        self.lines += lines
        self.notify()

    def close(self):
        self.is_closed = True


class Server:
    """The server, and what its parts have been asked."""

    def __init__(self, authority):
        self.clock = FakeClock()
        self.requests = []
        self.watches = []
        self.logs_asked = []
        self.log_goes_on = asyncio.Event()
        self.authority = authority
        self.port = 0

    def handle(self, request):
        self.requests.append(request)
        if request.path.endswith("/broken"):
            raise LookupError("a defect")
        if request.path.endswith("/long"):
            return self._parts()
        if request.query.get("watch"):
            self.watches.append(Watch(self.clock))
            return self.watches[-1]
        if "/pods/" in request.path:
            return Response.of(POD) if request.path.endswith("/p") else Response(404, b'{"code":404}')
        return Response(200, b"x" * int(request.query.get("size", "2")), headers={"Warning": "299 - yes"})

    def _parts(self):
        turns = 0
        while len(self.requests) < 2 and (turns := turns + 1) < 100_000:
            yield
        return Response(200, b"%d" % len(self.requests))

    async def read(self, *where, **options):
        self.logs_asked.append((where, options))
        yield b"first\n"
        await self.log_goes_on.wait()
        yield b"second\n"

    async def connect(self):
        context = ssl.create_default_context(cadata=self.authority.cert_pem.bytes().decode())
        return await asyncio.open_connection("127.0.0.1", self.port, ssl=context)

    async def send(self, line, *headers, body=b"", host="", token=TOKEN):
        """Send one request on a connection of its own; its streams."""
        reader, writer = await self.connect()
        lines = [f"{line} HTTP/1.1", f"Host: {host or f'127.0.0.1:{self.port}'}", *headers, *([token] if token else [])]
        writer.write("\r\n".join([*lines, "", ""]).encode("utf-8", "surrogateescape") + body)
        return reader, writer

    async def ask(self, line, *headers, **more):
        """Status, headers and body of the answer."""
        reader, writer = await self.send(line, *headers, **more)
        async with asyncio.timeout(20):
            answer = await answered(reader)
        writer.close()
        return answer


async def answered(reader):
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
    code = int(head[0].split()[1])
    if code == 100:
        return await answered(reader)
    body = b"" if "content-length" not in headers else await reader.readexactly(int(headers["content-length"]))
    return SimpleNamespace(code=code, headers=headers, body=body)


async def chunk(reader):
    size = int(await reader.readline(), 16)
    return (await reader.readexactly(size + 2))[:-2]  # behind the last one, too, comes an empty line


@pytest.fixture
async def server(authority, tls):
    async with served(Server(authority), tls) as backend:
        yield backend


@asynccontextmanager
async def served(backend, tls):
    listener = https.listen()
    backend.port = listener.getsockname()[1]
    guard = Guard("right", hosts=("127.0.0.1",), port=backend.port)
    async with https.serving(backend.handle, listener, guard=guard, tls=tls, logs=backend, clock=backend.clock):
        yield backend


async def settled(condition):
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.005)


async def test_a_request_reaches_the_state_machine_as_it_was_sent(server):
    headers = ("Content-Type: application/merge-patch+json", "Accept: application/yaml", "Content-Length: 2")
    answer = await server.ask("PATCH /api/v1/n%2Fx?a=1&a=2&b=%20&c", *headers, body=b"{}")

    (request,) = server.requests
    assert (request.method, request.path, request.body) == ("PATCH", "/api/v1/n%2Fx", b"{}")
    assert (request.query, request.accept) == ({"a": "1", "b": " ", "c": ""}, "application/yaml")
    assert request.content_type == "application/merge-patch+json"
    assert (answer.code, answer.body, answer.headers["warning"]) == (200, b"xx", "299 - yes")


async def test_others_are_answered_while_a_long_answer_is_made(server):
    async with asyncio.TaskGroup() as asking:
        long = asking.create_task(server.ask("GET /long"))
        asking.create_task(server.ask("GET /api"))
    assert long.result().body == b"2"


async def test_a_connection_is_kept_for_the_next_request(server):
    reader, writer = await server.send("GET /first")
    assert (await answered(reader)).code == 200
    writer.write(f"GET /second HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n{TOKEN}\r\n\r\n".encode())
    assert (await answered(reader)).code == 200
    writer.close()


@pytest.mark.parametrize(
    ("line", "headers", "more", "expected"),
    [
        pytest.param("GET /api", (), {"token": ""}, (401, "Unauthorized"), id="no token"),
        pytest.param(
            "GET /healthz", (), {"token": "Authorization: Bearer x"}, (401, "Unauthorized"), id="forged token"
        ),
        pytest.param("GET /api", (), {"host": "evil.example"}, (403, "Forbidden"), id="foreign host"),
        pytest.param("GET /api", ("Origin: https://evil.example",), {}, (403, "Forbidden"), id="browser"),
        pytest.param("POST /a", ("Content-Length: 3145729",), {}, (413, "RequestEntityTooLarge"), id="large body"),
        pytest.param(
            "POST /a",
            ("Transfer-Encoding: chunked",),
            {"body": b"100000\r\n" + b"x" * 2**20 + b"\r\n" + b"200001\r\n" + b"x" * (2**21 + 1) + b"\r\n0\r\n\r\n"},
            (413, "RequestEntityTooLarge"),
            id="large body that does not say so",
        ),
        pytest.param(
            "POST /a", ("Content-Encoding: gzip",), {}, (415, "UnsupportedMediaType"), id="body that may grow"
        ),
        pytest.param("GET /a?" + "&".join("a" * 200), (), {}, (400, "BadRequest"), id="many parameters"),
        pytest.param("GET /" + "a" * 100_000, (), {}, (400, "BadRequest"), id="long line"),
        pytest.param("GET /a", (f"X: {'a' * 40_000}",), {}, (400, "BadRequest"), id="long header"),
        pytest.param("GET /a", tuple(f"X{n}: a" for n in range(100)), {}, (400, "BadRequest"), id="many headers"),
        pytest.param("G\x00T /a", (), {}, (400, "BadRequest"), id="no HTTP"),
        pytest.param("GET /broken", (), {}, (500, "InternalError"), id="defect"),
    ],
)
async def test_each_refusal_is_a_status(server, line, headers, more, expected):
    answer = await server.ask(line, *headers, **more)
    status = json.loads(answer.body)

    assert (answer.code, status["reason"], status["code"], status["kind"]) == (*expected, expected[0], "Status")
    assert (await server.ask("GET /healthz")).body == b"ok"


async def test_a_client_that_asks_first_sends_its_body_then(server):
    reader, writer = await server.send("POST /a", "Expect: 100-continue", "Content-Length: 2")
    assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    writer.write(b"{}")
    assert (await answered(reader)).code == 200
    assert server.requests[0].body == b"{}"
    writer.close()


async def test_a_body_that_does_not_come_ends_in_time(server):
    reader, writer = await server.send("POST /a", "Content-Length: 2", body=b"{")
    await settled(lambda: (server.clock.next_timer_in() or 0) > REQUEST_WITHIN)
    await server.clock.advance(https.BODY_WITHIN + 1)
    assert (await answered(reader)).code == 408
    writer.close()


async def test_a_watch_is_sent_line_by_line_and_closed_with_its_connection(server):
    reader, writer = await server.send("GET /a?watch=1")
    assert (await answered(reader)).headers["transfer-encoding"] == "chunked"
    (watch,) = server.watches
    watch.say(b"one\n")
    assert await chunk(reader) == b"one\n"
    watch.say(b"two\n", b"three\n")
    assert await chunk(reader) == b"two\nthree\n"

    writer.close()
    await settled(lambda: watch.is_closed)


async def test_a_watch_that_has_ended_ends_its_answer(server):
    reader, writer = await server.send("GET /a?watch=1")
    await answered(reader)
    server.watches[0].is_ended = True
    server.watches[0].notify()
    assert await chunk(reader) == b""
    writer.close()


async def test_a_watch_that_nobody_reads_is_ended(server):
    _, writer = await server.send("GET /a?watch=1")
    await settled(lambda: server.watches)
    (watch,) = server.watches
    await settled(lambda: watch.notify)
    watch.say(b"x" * 32 * 2**20)
    await settled(lambda: not watch.lines)
    async with asyncio.timeout(20):
        while not watch.is_closed:  # the system's buffers take a few pieces first
            await asyncio.sleep(0.05)
            await server.clock.advance(streaming.WRITE_WITHIN / 2 + 1)
    writer.transport.abort()


async def test_a_log_is_followed_until_its_reader_goes(server):
    line = "GET /api/v1/namespaces/n/pods/p/log?follow=true&tailLines=5"
    reader, writer = await server.send(line)
    assert (await answered(reader)).headers["content-type"] == "text/plain"
    assert await chunk(reader) == b"first\n"
    server.log_goes_on.set()
    assert await chunk(reader) == b"second\n"
    assert await chunk(reader) == b""
    ((where, options),) = server.logs_asked
    assert where == ("n", "p", "main")
    assert options["follow"]
    assert options["tail_lines"] == 5
    writer.close()


@pytest.mark.parametrize(("line", "code"), [("x/log", 404), ("p/log?tailLines=-1", 422)])
async def test_a_log_that_is_not_there_is_a_status(server, line, code):
    answer = await server.ask(f"GET /api/v1/namespaces/n/pods/{line}")
    assert (answer.code, json.loads(answer.body)["code"]) == (code, code)


async def test_clients_without_a_token_cannot_keep_others_out(few_places, server):
    reader, writer = await server.send("GET /a?watch=1")
    await answered(reader)
    silent = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(6)]

    assert (await server.ask("GET /a")).code == 200
    server.watches[0].say(b"still there\n")
    assert await chunk(reader) == b"still there\n"
    for each in silent:
        each.close()
    writer.close()


async def test_a_connection_that_is_only_kept_gives_way_to_a_new_one_and_a_watch_does_not(few_places, server):
    reader, watching = await server.send("GET /a?watch=1")
    await answered(reader)
    connections = [await server.send("GET /a") for _ in range(2)]
    assert [(await answered(idle)).code for idle, _ in connections] == [200, 200]

    assert (await server.ask("GET /a")).code == 200
    async with asyncio.timeout(20):
        assert await connections[0][0].read() == b""
    server.watches[0].say(b"still there\n")
    assert await chunk(reader) == b"still there\n"
    for writer in (watching, *(writer for _, writer in connections)):
        writer.close()


async def test_a_client_of_http_1_0_gets_a_watch_until_its_connection_ends(server):
    reader, writer = await server.connect()
    writer.write(f"GET /a?watch=1 HTTP/1.0\r\nHost: 127.0.0.1:{server.port}\r\n{TOKEN}\r\n\r\n".encode())
    async with asyncio.timeout(20):
        assert (await answered(reader)).code == 200
        server.watches[0].say(b"one\n")
        assert await reader.readline() == b"one\n"
        server.watches[0].is_ended = True
        server.watches[0].say()
        assert await reader.read() == b""
    writer.close()


async def test_a_client_that_asks_for_the_head_of_a_watch_gets_no_body(server):
    reader, writer = await server.send("HEAD /a?watch=1")
    async with asyncio.timeout(20):
        assert (await answered(reader)).code == 200
        assert await reader.read() == b""
    assert server.watches[0].is_closed
    writer.close()


async def test_a_client_that_sends_nothing_is_closed_in_time(server):
    reader, writer = await server.connect()
    await server.clock.advance(REQUEST_WITHIN + 1)
    async with asyncio.timeout(20):
        assert await reader.read() == b""
    writer.close()


async def test_the_end_ends_watches_and_closes_connections(authority, tls):
    backend = Server(authority)
    async with served(backend, tls):
        reader, writer = await backend.send("GET /a?watch=1")
        await answered(reader)
    async with asyncio.timeout(20):
        assert await chunk(reader) == b""
        assert await reader.read() == b""
    assert backend.watches[0].is_closed
    writer.close()
