"""What a registry may answer, and what becomes of it."""

import asyncio
import errno
import io
import json
from collections.abc import AsyncIterator

import pytest

from support.disturbances.loopback import RESET, Answer, Loopback, Seen, reply
from tf_operator.client.images import repository
from tf_operator.client.images.image_name import ImageName
from tf_operator.client.images.repository import Blob, ImageRepository, Transfer, digest_of
from tf_operator.client.job import NotPossible

BLOB = b"0123456789"
OK = reply(200)


@pytest.fixture(autouse=True)
def alone(monkeypatch, tmp_path):
    """No login, and no pauses between attempts."""
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.setattr(repository, "_PAUSES", (0.0, 0.0))


async def pieces() -> AsyncIterator[bytes]:
    yield BLOB[:4]
    yield BLOB[4:]


def blob() -> Blob:
    return Blob(digest_of(BLOB), len(BLOB), pieces)


def scripted(**answers: Answer | list[Answer]):
    """A registry that answers requests by their method, the last answer again and again."""

    def answer(request: Seen) -> Answer:
        if request.target == "/v2/":
            return OK
        its_answers = answers[request.method]
        if isinstance(its_answers, Answer):
            return its_answers
        return its_answers.pop(0) if len(its_answers) > 1 else its_answers[0]

    return answer


def name_at(server: Loopback) -> ImageName:
    return ImageName(f"127.0.0.1:{server.port}", "team/x", "1")


async def test_a_blob_is_sent_in_one_piece_to_where_the_registry_says():
    location = reply(202, Location="/upload/1?state=a%2Fb")
    async with Loopback(scripted(HEAD=reply(404), POST=location, PUT=reply(201))) as server:
        async with ImageRepository(name_at(server), pushes=True) as target:
            assert await target.push_blob(blob()) is Transfer.SENT

        put = server.requests[-1]
    assert put.target == f"/upload/1?state=a%2Fb&digest={digest_of(BLOB)}"
    assert (put.body, put.headers["content-length"]) == (BLOB, "10")


@pytest.mark.parametrize("trouble", [reply(503), reply(429), RESET], ids=["503", "429", "reset"])
async def test_what_a_registry_cannot_do_now_is_tried_again(trouble):
    answers = scripted(HEAD=reply(404), POST=reply(202, Location="/up"), PUT=[trouble, trouble, reply(201)])
    async with Loopback(answers) as server, ImageRepository(name_at(server), pushes=True) as target:
        assert await target.push_blob(blob()) is Transfer.SENT


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (reply(413), "accepts no layer of 0 MB: leave files out"),
        (reply(403), "asks for a login for team/x: docker login 127.0.0.1:"),
        (reply(503), "did not receive sha256:"),
        (
            reply(400, b'{"errors": [{"code": "SIZE_INVALID", "message": "no"}]}'),
            "refused PUT /up: 400 Whatever: SIZE_INVALID: no",
        ),
        (reply(400, b"<html>"), "refused PUT /up: 400 Whatever: <html>"),
    ],
    ids=["413", "403", "503", "400", "html"],
)
async def test_a_refused_blob_is_a_sentence(answer, sentence):
    answers = scripted(HEAD=reply(404), POST=reply(202, Location="/up"), PUT=answer)
    async with Loopback(answers) as server, ImageRepository(name_at(server), pushes=True) as target:
        with pytest.raises(NotPossible) as refusal:
            await target.push_blob(blob())
    assert sentence in str(refusal.value)


async def test_a_layer_that_is_refused_before_it_was_read_is_a_sentence():
    """As proxies in front of registries do."""

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            method = (await reader.readuntil(b"\r\n\r\n")).partition(b" ")[0]
            answers = {b"GET": OK, b"HEAD": reply(404), b"POST": reply(202, Location="/up")}
            writer.write(answers.get(method, reply(413, Connection="close")).data)
            await writer.drain()
            if method == b"PUT":
                writer.close()
                return

    async def large() -> AsyncIterator[bytes]:
        for _ in range(100):
            yield bytes(262_144)

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    async with server:
        name = ImageName(f"127.0.0.1:{server.sockets[0].getsockname()[1]}", "team/x", "1")
        async with ImageRepository(name, pushes=True) as target:
            with pytest.raises(NotPossible, match="accepts no layer of 26 MB: leave files out"):
                await target.push_blob(Blob(digest_of(BLOB), 100 * 262_144, large))


@pytest.mark.parametrize("content", [b"{", b"[]", b"{}"], ids=["damaged", "list", "other"])
async def test_a_manifest_that_is_not_what_its_digest_says_is_refused(content):
    async with Loopback(scripted(GET=reply(200, content))) as server, ImageRepository(name_at(server)) as source:
        with pytest.raises(NotPossible, match=r"did not send 127.* is something else"):
            await source.manifest(digest_of(b"{ }"))


async def test_a_manifest_without_a_type_has_that_of_the_reply():
    answer = reply(200, b'{"layers": []}', Content_Type=repository.MANIFESTS[0])
    async with Loopback(scripted(GET=answer)) as server, ImageRepository(name_at(server)) as source:
        assert (await source.manifest("1")).media_type == repository.MANIFESTS[0]


async def test_a_login_that_ends_in_the_middle_is_renewed():
    tokens = iter("ab")
    good = {"a"}

    def answer(request: Seen) -> Answer:
        if request.target.startswith("/token"):
            return reply(200, json.dumps({"token": next(tokens)}).encode())
        if request.headers.get("authorization", "").removeprefix("Bearer ") not in good:
            realm = f'Bearer realm="http://127.0.0.1:{server.port}/token",service="s"'
            return reply(401, WWW_Authenticate=realm)
        if request.method == "PUT" and good == {"a"}:
            good.clear()
            good.add("b")
            return reply(401, WWW_Authenticate=f'Bearer realm="http://127.0.0.1:{server.port}/token",service="s"')
        return {"HEAD": reply(404), "POST": reply(202, Location="/up"), "PUT": reply(201)}.get(request.method, OK)

    async with Loopback(answer) as server, ImageRepository(name_at(server), pushes=True) as target:
        assert await target.push_blob(blob()) is Transfer.SENT
        assert server.requests[-1].body == BLOB


@pytest.mark.parametrize(
    ("challenge", "sentence"),
    [
        ('Bearer realm="ftp://x"', "asks for a login in a way that is not supported"),
        ("Negotiate", "asks for a login in a way that is not supported"),
        ('Bearer realm="http://registry.example.com/token"', "names an address without TLS, which is not used"),
        (
            "Basic",
            r"has no team/x, or shows it only after a login: docker login 127.0.0.1:\d+ \(without docker: docs/cli.md#",
        ),
    ],
)
async def test_a_challenge_that_cannot_be_met_is_a_sentence(challenge, sentence):
    async with Loopback(reply(401, WWW_Authenticate=challenge)) as server:
        with pytest.raises(NotPossible, match=sentence):
            async with ImageRepository(name_at(server)):
                pass


async def test_a_login_goes_to_the_registry_and_not_to_where_it_points(tmp_path):
    async with Loopback(scripted(PUT=reply(201))) as other:
        location = f"http://127.0.0.1:{other.port}/up"

        def answer(request: Seen) -> Answer:
            if "authorization" not in request.headers:
                return reply(401, WWW_Authenticate="Basic")
            return {"HEAD": reply(404), "POST": reply(202, Location=location)}.get(request.method, OK)

        async with Loopback(answer) as server:
            auths = {f"127.0.0.1:{server.port}": {"username": "ann", "password": "x"}}
            (tmp_path / "config.json").write_text(json.dumps({"auths": auths}))
            async with ImageRepository(name_at(server), pushes=True) as target:
                assert await target.push_blob(blob()) is Transfer.SENT
        assert "authorization" not in other.requests[0].headers


class FullDisk(io.BytesIO):
    def write(self, _content):
        raise OSError(errno.ENOSPC, "No space left on device")


async def test_a_full_disk_is_not_the_registry_s_fault_and_nothing_is_read_again():
    async with Loopback(scripted(GET=reply(200, BLOB))) as server, ImageRepository(name_at(server)) as source:
        with pytest.raises(NotPossible, match="is full; TMPDIR may name a folder with more room"):
            await source.download(digest_of(BLOB), FullDisk())

        assert len([it for it in server.requests if "/blobs/" in it.target]) == 1
