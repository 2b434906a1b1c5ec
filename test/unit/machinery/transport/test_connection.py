"""One session to the apiserver: fresh credentials, and every way in which a reply can fail to come has its error."""

import asyncio
import base64
import gc
import json
import logging
import socket
import ssl
from contextlib import asynccontextmanager, suppress

import pytest
import trustme

from support.disturbances.loopback import CLOSED, RESET, SILENT, Answer, Ending, Loopback, reply
from support.fake_clock import FakeClock
from support.open_sockets import open_sockets
from support.operators.config_source import ConfigSource
from tf_operator.machinery.transport import errors, requests
from tf_operator.machinery.transport.config import ClientConfig, ConfigurationError, make_tls
from tf_operator.machinery.transport.connection import Connection
from tf_operator.machinery.transport.http.wire import LARGE
from tf_operator.machinery.transport.kubeconfig import KubeConfig
from tf_operator.meta import ObjectKey

PODS = requests.Resource("", "v1", "pods", "Pod")
GET = requests.get(PODS, ObjectKey("ns", "a"))
POST = requests.create(PODS, "ns", {"metadata": {"name": "a"}})
PUT = requests.update(PODS, ObjectKey("ns", "a"), {})
PATCH = requests.merge_patch(PODS, ObjectKey("ns", "a"), {})
DELETE = requests.delete(PODS, ObjectKey("ns", "a"), uid="u")
TOKEN = "s3cr3t-t0k3n"


ENDLESS = Answer(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", Ending.SILENT)
OK = reply(200, b"{}")


@asynccontextmanager
async def connected(server, *, token=TOKEN, pool_size=100, **options):
    """A connection to a server or an address."""
    config = ClientConfig(getattr(server, "url", server), f"Bearer {token}" if token else "", **options)
    async with Connection(ConfigSource(config), clock=FakeClock(), pool_size=pool_size) as connection:
        yield connection


async def exchange(connection, request=GET):
    """Send with the connection's own credentials and read the whole reply."""
    async with connection.send(request) as response:
        return response.status, await response.read()


def serving(authority, *names):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*(names or ("127.0.0.1",))).configure_cert(context)
    return context


def trusting(*authorities):
    return make_tls("\n".join(authority.cert_pem.bytes().decode() for authority in authorities))


# What is sent


async def test_a_request_goes_out_as_it_was_built():
    async with Loopback(reply(200, b"{}", X_Some="header")) as server, connected(server) as connection:
        scope = requests.Scope("ns", label_selector="a in (b,c),!d,e=f&g")
        async with connection.send(requests.list_page(PODS, scope, limit=5)) as response:
            assert (response.status, response.header("x-some"), response.header("nope")) == (200, "header", None)
        await exchange(connection, PATCH)

    listed, patched = server.requests
    assert listed.target == (
        "/api/v1/namespaces/ns/pods?labelSelector=a%20in%20(b,c),!d,e%3Df%26g&limit=5".replace("%20", "+")
    )
    assert listed.headers["authorization"] == f"Bearer {TOKEN}"
    assert (listed.headers["accept"], listed.headers["accept-encoding"]) == ("application/json", "identity")
    assert listed.headers["user-agent"] == "tf-operator"
    assert listed.body == b""
    assert (patched.method, patched.headers["content-type"], patched.body) == (
        "PATCH",
        "application/merge-patch+json",
        b"{}",
    )


async def test_an_odd_name_is_not_unquoted_on_its_way():
    async with Loopback(OK) as server, connected(server) as connection:
        await exchange(connection, requests.get(PODS, ObjectKey("ns", "a b+c?d&e=é~..")))

    assert server.requests[0].target == "/api/v1/namespaces/ns/pods/a%20b%2Bc%3Fd%26e%3D%C3%A9~.."


async def test_a_path_below_the_host_is_kept():
    async with Loopback(OK) as server:
        config = ClientConfig(f"{server.url}/k8s/clusters/c-1")
        async with Connection(ConfigSource(config), clock=FakeClock(), user_agent="tfjob/1") as connection:
            assert connection.host == config.host
            await exchange(connection)

    assert server.requests[0].target == "/k8s/clusters/c-1/api/v1/namespaces/ns/pods/a"
    assert server.requests[0].headers["user-agent"] == "tfjob/1"
    assert "authorization" not in server.requests[0].headers


@pytest.mark.parametrize("size", [100, LARGE, LARGE + 1, 3 * 1024 * 1024])
async def test_a_body_of_any_size_arrives_whole(size):
    request = requests.create(PODS, "ns", {"metadata": {"name": "a" * size}})
    async with Loopback(reply(201, b"{}")) as server, connected(server) as connection:
        await exchange(connection, request)

    assert server.requests[0].body == request.body
    assert server.requests[0].headers["content-length"] == str(len(request.body))


@pytest.mark.parametrize("size", [100, LARGE + 1])
async def test_a_guard_that_refuses_keeps_a_request_with_a_body_from_being_sent(size):
    request = requests.create(PODS, "ns", {"metadata": {"name": "a" * size}})

    def no_longer():
        raise LookupError("no longer")

    async with Loopback(reply(201, b"{}")) as server, connected(server) as connection:
        with pytest.raises(LookupError, match="no longer"):
            async with connection.send(request, before_send=no_longer):
                pytest.fail("sent")
        assert server.requests == []

        await exchange(connection, request)
        assert len(server.requests) == 1


async def test_a_connection_can_only_be_used_while_it_is_open():
    async with Loopback(OK) as server:
        connection = Connection(ConfigSource(ClientConfig(server.url)), clock=FakeClock())
        await connection.__aexit__(None, None, None)
        async with connection:
            await exchange(connection)
        with pytest.raises(RuntimeError, match="outside of its 'async with'"):
            await exchange(connection)


# What comes back


def cut(data):
    return Answer(data, Ending.CLOSED)


HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"

BAD_REPLIES = {
    "closed without a reply": (CLOSED, errors.ReplyLost),
    "reset without a reply": (RESET, errors.ReplyLost),
    "half a head": (cut(b"HTTP/1.1 200 OK\r\nConte"), errors.ReplyLost),
    "half a body": (cut(HEAD + b"Content-Length: 50\r\n\r\n{"), errors.ReplyLost),
    "half a body, reset": (Answer(HEAD + b"Content-Length: 50\r\n\r\n{", Ending.RESET), errors.ReplyLost),
    "half a chunk": (cut(CHUNKED + b"5\r\nhel"), errors.ReplyLost),
    "chunks without an end": (cut(CHUNKED + b"5\r\nhello\r\n"), errors.ReplyLost),
    "a chunk without a size": (cut(CHUNKED + b"zz\r\nhello\r\n"), errors.Garbled),
    "invalid gzip": (cut(HEAD + b"Content-Encoding: gzip\r\nContent-Length: 9\r\n\r\nnot gzip!"), errors.Garbled),
    "an unknown coding": (cut(HEAD + b"Content-Encoding: br\r\nContent-Length: 1\r\n\r\nx"), errors.Garbled),
    "another protocol": (cut(b"SSH-2.0-OpenSSH_9.9\r\n\r\n"), errors.Garbled),
    "an invalid status": (cut(b"HTTP/1.1 abc OK\r\n\r\n"), errors.Garbled),
    "a header without an end": (cut(HEAD + b"X: " + b"a" * 20_000 + b"\r\n\r\n"), errors.Garbled),
    "two lengths": (cut(HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}"), errors.Garbled),
}


@pytest.mark.parametrize(("answer", "kind"), BAD_REPLIES.values(), ids=BAD_REPLIES.keys())
async def test_an_incomplete_reply_is_an_error_of_unknown_outcome(answer, kind):
    async with Loopback(answer) as server, connected(server) as connection:
        for request in (GET, POST):
            with pytest.raises(kind) as failure:
                await exchange(connection, request)

            assert type(failure.value) is kind
            assert failure.value.outcome_unknown
            assert str(failure.value)
            assert "\n" not in str(failure.value)

    assert [sent.method for sent in server.requests] == ["GET", "POST"]


@pytest.mark.parametrize(
    ("host", "text"),
    [
        pytest.param("http://127.0.0.1:{port}", "127.0.0.1:{port}", id="refused"),
        pytest.param("https://127.0.0.1:{port}", "127.0.0.1:{port}", id="refused, with TLS"),
        pytest.param("http://no-such-host.invalid", "no-such-host.invalid:80", id="unknown host"),
        pytest.param("http://", "http:///api", id="no host"),
        pytest.param("ftp://h", "ftp://h/api", id="another scheme"),
        pytest.param("http://h:99999999", "", id="no port"),
    ],
)
async def test_a_request_to_an_unreachable_server_was_certainly_not_sent(host, text):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = str(taken.getsockname()[1])
        async with connected(host.replace("{port}", port), tls=make_tls(None)) as connection:
            with pytest.raises(errors.Unreachable) as failure:
                await exchange(connection, POST)

    assert text.replace("{port}", port) in str(failure.value)
    assert "SSLContext" not in str(failure.value)
    assert not failure.value.outcome_unknown


@pytest.mark.parametrize(
    ("status", "port", "text"),
    [
        pytest.param(403, None, r"403 Whatever$", id="refused"),
        pytest.param(407, None, r"407 Whatever$", id="password refused"),
        pytest.param(502, None, r"502 Whatever$", id="apiserver unreachable"),
        pytest.param(None, 1, "Connect call failed", id="proxy unreachable"),
    ],
)
async def test_a_failure_of_a_proxy_is_not_one_of_the_apiserver_and_shows_no_credentials(status, port, text):
    async with Loopback(reply(status)) as proxy:
        through = f"http://me:s3cr3t@127.0.0.1:{port or proxy.port}"
        async with connected("https://apiserver.invalid", proxy=through) as connection:
            with pytest.raises(errors.Unreachable, match=text) as failure:
                await exchange(connection, POST)

    assert [(request.method, request.target) for request in proxy.requests] == (
        [("CONNECT", "apiserver.invalid:443")] if status else []
    )
    texts, error = [str(proxy.requests)], failure.value
    while error is not None:
        texts.append(f"{error} {error!r} {error.args}")
        error = error.__cause__ or error.__context__
    secrets = ("s3cr3t", base64.b64encode(b"me:s3cr3t").decode())
    assert not any(secret in text for text in texts[1:] for secret in secrets)
    assert TOKEN not in "".join(texts)


@pytest.mark.parametrize("is_proxy_encrypted", [False, True])
async def test_a_proxy_passes_tls_through_and_never_sees_the_token(authority, is_proxy_encrypted):
    async def pump(reader, writer):
        with suppress(OSError):
            while data := await reader.read(65536):
                passed.append(data)
                writer.write(data)
        writer.close()

    async def proxy(reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        passed.append(head)
        upstream = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
        await asyncio.gather(pump(reader, upstream[1]), pump(upstream[0], writer))
        ended.set()

    passed, ended = [], asyncio.Event()
    async with Loopback(OK, tls=serving(authority, "api.example.org")) as server:
        tls = serving(authority) if is_proxy_encrypted else None
        listener = await asyncio.start_server(proxy, "127.0.0.1", 0, ssl=tls)
        through = f"http{'s' if tls else ''}://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
        async with connected("https://api.example.org", tls=trusting(authority), proxy=through) as connection:
            assert await exchange(connection) == (200, b"{}")
        listener.close()
        await ended.wait()

    assert passed[0].startswith(b"CONNECT api.example.org:443 ")
    assert TOKEN.encode() not in b"".join(passed)
    assert server.requests[0].headers["authorization"] == f"Bearer {TOKEN}"


async def test_the_apiserver_of_a_kubeconfig_is_reached_by_the_proxy_of_the_environment(tmp_path):
    kubeconfig = {
        "clusters": [{"name": "c", "cluster": {"server": "https://apiserver.invalid:6443"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c"}}],
        "current-context": "x",
    }
    (tmp_path / "config").write_text(json.dumps(kubeconfig))
    async with Loopback(reply(502)) as proxy:
        source = KubeConfig(str(tmp_path / "config"), environment={"https_proxy": proxy.url})
        async with Connection(source, clock=FakeClock()) as connection:
            with pytest.raises(errors.Unreachable, match="502"):
                await exchange(connection)

    assert [(request.method, request.target) for request in proxy.requests] == [("CONNECT", "apiserver.invalid:6443")]


async def test_time_to_connect_is_limited_even_if_the_server_only_accepts(monkeypatch, authority):
    monkeypatch.setattr("tf_operator.machinery.transport.http.pool.CONNECT_WITHIN", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        host = f"https://127.0.0.1:{listener.getsockname()[1]}"
        async with connected(host, tls=trusting(authority)) as connection, asyncio.timeout(30):
            with pytest.raises(errors.Unreachable, match=r"[Tt]imeout"):
                await exchange(connection, POST)


async def test_a_request_that_gets_no_place_in_the_pool_was_not_sent(monkeypatch):
    async with Loopback(ENDLESS) as server, connected(server, pool_size=1) as connection:
        async with connection.send(GET):
            with monkeypatch.context() as patch:
                patch.setattr("tf_operator.machinery.transport.http.pool.PLACE_WITHIN", 0.05)
                with pytest.raises(errors.Unreachable):
                    await exchange(connection, POST)
        server.script = reply(201)
        assert (await exchange(connection, POST))[0] == 201

    assert len(server.requests) == 2


# TLS


@pytest.mark.parametrize(
    ("names", "trusted", "text"),
    [
        pytest.param(("127.0.0.1",), trustme.CA(), "unable to get local issuer certificate", id="another authority"),
        pytest.param(("other.example.org",), None, "certificate is not valid for '127.0.0.1'", id="another name"),
    ],
)
async def test_nothing_is_sent_to_a_server_with_a_certificate_of_another(authority, names, trusted, text):
    server = Loopback(OK, tls=serving(authority, *names))
    async with server, connected(server, tls=trusting(trusted or authority)) as connection:
        with pytest.raises(errors.Unreachable, match=text) as failure:
            await exchange(connection, POST)

    assert server.requests == []
    assert "SSLContext" not in str(failure.value)
    assert str(server.port) in str(failure.value)


async def test_another_name_can_be_expected_of_the_server(authority):
    name = "kubernetes.default.svc"
    server = Loopback(OK, tls=serving(authority, name))
    async with server, connected(server, tls=trusting(authority), server_name=name) as connection:
        assert await exchange(connection) == (200, b"{}")


async def test_a_client_certificate_is_presented(authority):
    server_side = serving(authority)
    server_side.verify_mode = ssl.CERT_REQUIRED
    authority.configure_trust(server_side)
    client_side = trusting(authority)
    authority.issue_cert("operator@example.org").configure_cert(client_side)
    async with Loopback(OK, tls=server_side) as server:
        async with connected(server, token="", tls=client_side) as connection:
            assert await exchange(connection) == (200, b"{}")
        async with connected(server, token="", tls=trusting(authority)) as connection:
            with pytest.raises(errors.ApiError):
                await exchange(connection)


# What is sent only once, and only to the apiserver


@pytest.mark.parametrize("ending", [CLOSED, RESET], ids=["closed", "reset"])
@pytest.mark.parametrize("request_", [GET, POST, PUT, PATCH, DELETE], ids=lambda request: request.verb)
async def test_nothing_is_sent_again_when_the_reply_is_lost_on_a_connection_that_was_kept(request_, ending):
    async with Loopback([OK, ending]) as server, connected(server) as connection:
        await exchange(connection)
        with pytest.raises(errors.ReplyLost):
            await exchange(connection, request_)

    assert [request.connection for request in server.requests] == [1, 1]


async def test_no_redirect_is_followed_so_no_other_server_sees_the_token():
    async with (
        Loopback(OK) as other,
        Loopback(reply(307, Location=f"{other.url}/api")) as server,
        connected(server) as connection,
    ):
        for request in (GET, POST, PUT, PATCH, DELETE):
            assert (await exchange(connection, request))[0] == 307

    assert len(server.requests) == 5
    assert other.requests == []


async def test_cookies_are_not_kept():
    async with Loopback(reply(200, b"{}", Set_Cookie="a=b")) as server, connected(server) as connection:
        await exchange(connection)
        await exchange(connection)

    assert not any("cookie" in request.headers for request in server.requests)


async def test_a_connection_reads_neither_netrc_nor_the_variables_of_a_proxy(monkeypatch, tmp_path):
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login me password secret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    async with Loopback(OK) as server, Loopback(reply(502)) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        async with connected(server, token="") as connection:
            assert (await exchange(connection))[0] == 200

    assert "authorization" not in server.requests[0].headers
    assert proxy.requests == []


# Chunks


@pytest.mark.parametrize("ending", [Ending.CLOSED, Ending.RESET])
async def test_chunks_that_end_too_early_are_an_error_after_the_last_one(ending):
    async with Loopback(ENDLESS) as server, connected(server) as connection, connection.send(GET) as response:
        assert await anext(response) == b"abc"
        server.hang_up(ending)
        with pytest.raises(errors.ReplyLost):
            await anext(response)


async def test_errors_of_the_reader_of_a_stream_stay_what_they_are():
    async with Loopback(OK) as server, connected(server) as connection:
        for error in (TimeoutError("mine"), OSError("mine"), ValueError("mine")):
            with pytest.raises(type(error), match="mine"):
                async with connection.send(GET):
                    raise error


@pytest.mark.parametrize("is_encrypted", [False, True])
async def test_a_connection_that_is_cancelled_while_it_is_opened_leaves_none(authority, is_encrypted):
    """At any moment: asyncio may still be about to begin with TLS."""
    old_sockets = open_sockets()
    async with Loopback(OK, tls=serving(authority) if is_encrypted else None) as server:
        for turns in range(30):
            async with connected(server, tls=trusting(authority)) as connection:
                opening = asyncio.ensure_future(exchange(connection))
                for _ in range(turns):
                    await asyncio.sleep(0)
                opening.cancel()
                await asyncio.wait([opening])
                assert await exchange(connection) == (200, b"{}")
    await _only_opened_since(old_sockets, 0)


@pytest.mark.parametrize("answer", [ENDLESS, SILENT], ids=["a stream", "a request"])
async def test_a_cancelled_exchange_is_cut_off_at_once_even_if_the_other_side_is_dead(authority, answer):
    server = Loopback(answer, tls=serving(authority))
    async with server, connected(server, tls=trusting(authority)) as connection:
        old_sockets = open_sockets()
        call = asyncio.ensure_future(exchange(connection))
        await server.wait_seen(1)
        await asyncio.sleep(0.01)
        server.freeze()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

        await _only_opened_since(old_sockets, 1)  # the frozen server still has its end


async def test_nothing_is_left_open_at_the_end(authority):
    old_sockets = open_sockets()
    async with Loopback(OK, tls=serving(authority)) as server:
        for _ in range(3):
            async with connected(server, tls=trusting(authority)) as connection:
                await asyncio.gather(*(exchange(connection) for _ in range(5)))
                assert server.open_connections == 5

    await _only_opened_since(old_sockets, 0)
    assert len(asyncio.all_tasks()) == 1


async def _only_opened_since(old_sockets, count):
    """Wait until so many sockets are left of the new ones: what a test has closed, the loop closes soon."""
    async with asyncio.timeout(30):
        while len(open_sockets() - old_sockets) != count:
            gc.collect()
            await asyncio.sleep(0.001)


async def test_no_log_shows_credentials(capsys, caplog):
    caplog.set_level(logging.DEBUG)
    clock = FakeClock()
    async with Loopback([OK, RESET, reply(500, b"you sent Bearer " + TOKEN.encode())]) as server:
        source = ConfigSource(ClientConfig(server.url, f"Bearer {TOKEN}"), ConfigurationError("gone"))
        async with Connection(source, clock=clock) as connection:
            await exchange(connection)
            with pytest.raises(errors.ReplyLost) as lost:
                await exchange(connection)
            await clock.advance(60)
            await connection._config.get()
            reprs = repr(connection) + repr(await connection._config.get()) + repr(lost.value) + repr(vars(lost.value))

    output = capsys.readouterr()
    assert "the credentials could not be read" in output.out + output.err + caplog.text
    assert TOKEN not in reprs + output.out + output.err + caplog.text
