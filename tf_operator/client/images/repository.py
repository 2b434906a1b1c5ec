"""One repository of a registry: what is read from it and written into it, by OCI's distribution protocol over HTTP.

Whatever is sent is named by its digest, so each operation can be done again after a connection broke, and is, a few
times: a blob that has arrived is not sent twice, and one that has not is not there. Logins are in ``tokens``. Plain
HTTP is for registries on this machine only.
"""

import hashlib
import json
import os
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from types import TracebackType
from typing import IO, Any, Final, Self, TypeVar

import aiohttp
from yarl import URL

from tf_operator.client.images import docker_config, layer, tokens
from tf_operator.client.images.image_name import DOCKER_HUB, ImageName, is_loopback
from tf_operator.client.job import NotPossible
from tf_operator.machinery.clock import Clock, SystemClock
from tf_operator.machinery.transport import proxies
from tf_operator.text import one_line

INDEXES: Final = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
MANIFESTS: Final = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
_LARGEST_DOCUMENT: Final = 4 * 1024 * 1024
"""Of a manifest, as registries have it."""
_PIECE: Final = 256 * 1024
_PAUSES: Final = (1.0, 3.0, 10.0)
"""Seconds before each further attempt."""
_CONNECT_WITHIN: Final = 20.0
_SILENT_FOR: Final = 300.0
"""A registry that has received a large blob reads it again before it answers."""

Json = dict[str, Any]
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Blob:
    """Bytes to be pushed; ``open`` begins from the start each time."""

    digest: str
    size: int
    open: Callable[[], AsyncIterator[bytes]]


@dataclass(frozen=True, slots=True)
class ImageManifest:
    media_type: str
    digest: str
    body: Json


class Transfer(Enum):
    """How a blob came into the repository."""

    EXISTED = auto()
    MOUNTED = auto()
    """From another repository of the same registry, which sends nothing."""
    SENT = auto()


class _Broken(Exception):
    """The registry cannot do it now, but perhaps in a moment."""


class ImageRepository:
    """The repository of an image; an async context manager."""

    def __init__(
        self,
        name: ImageName,
        *,
        pushes: bool = False,
        mounts_from: str = "",
        tls: ssl.SSLContext | None = None,
        environment: Mapping[str, str] = os.environ,
        clock: Clock | None = None,
    ) -> None:
        """``mounts_from``: another repository, of which blobs are mounted."""
        self.name = name
        self._pushes = pushes
        self._scopes = [f"repository:{name.repository}:pull{',push' if pushes else ''}"]
        if mounts_from:
            self._scopes.append(f"repository:{mounts_from}:pull")
        self._tls = tls or True
        self._environment = environment
        self._clock = clock or SystemClock()
        host = "registry-1.docker.io" if name.registry == DOCKER_HUB else name.registry
        self._base = URL(f"https://{host}")
        if is_loopback(self._base.host or ""):
            self._base = self._base.with_scheme("http")
        self._login: docker_config.Login | None = None
        self._authorization = ""

    async def __aenter__(self) -> Self:
        self._login = await docker_config.login(self.name.registry, self._environment)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_WITHIN, sock_read=_SILENT_FOR)
        self._session = aiohttp.ClientSession(timeout=timeout, auto_decompress=False)
        try:
            await self._attempt(self._greet, "cannot be reached", pauses=())
        except BaseException:
            await self._session.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    async def manifest(self, version: str) -> ImageManifest:
        """The manifest or index with a tag or digest."""

        async def fetch() -> ImageManifest:
            accepted = ", ".join((*INDEXES, *MANIFESTS))
            async with await self._send("GET", self._path("manifests", version), {"Accept": accepted}) as reply:
                if reply.status == 404:
                    raise NotPossible(f"there is no image {self._image_name(version)}")
                await self._expect(reply, 200)
                content = await _read(reply)
            digest = digest_of(content)
            if ":" in version and digest != version:
                raise _Broken(f"what it sent as {version} is something else")
            body = _parse_json(content)
            return ImageManifest(str(body.get("mediaType") or reply.content_type), digest, body)

        return await self._attempt(fetch, f"did not send {self._image_name(version)}")

    async def document(self, digest: str) -> Json:
        """A small blob of JSON."""

        async def fetch() -> Json:
            content = b"".join([piece async for piece in self.stream(digest)])
            if digest_of(content) != digest:
                raise _Broken(f"what it sent as {digest} is something else")
            return _parse_json(content)

        return await self._attempt(fetch, f"did not send {self._image_name(digest)}")

    async def stream(self, digest: str) -> AsyncIterator[bytes]:
        """A blob, piece by piece; whoever keeps it checks its digest."""
        async with await self._send("GET", self._path("blobs", digest)) as reply:
            await self._expect(reply, 200)
            async for piece in reply.content.iter_chunked(_PIECE):
                yield piece

    async def download(self, digest: str, file: IO[bytes]) -> None:
        """A blob of any size, into a file."""

        async def fetch() -> None:
            file.seek(0)
            file.truncate()
            received = hashlib.sha256()
            async for piece in self.stream(digest):
                received.update(piece)
                with layer.room_for_temporary_files():
                    file.write(piece)
                    file.flush()
            if f"sha256:{received.hexdigest()}" != digest:
                raise _Broken(f"what it sent as {digest} is something else")

        await self._attempt(fetch, f"did not send {self._image_name(digest)}")

    async def push_blob(self, blob: Blob, *, mount_from: str = "") -> Transfer:
        async def push() -> Transfer:
            async with await self._send("HEAD", self._path("blobs", blob.digest)) as reply:
                if reply.status == 200:
                    return Transfer.EXISTED
                if reply.status != 404:
                    await self._expect(reply, 200)
            mount = {"mount": blob.digest, "from": mount_from} if mount_from else {}
            async with await self._send("POST", self._path("blobs", "uploads/").with_query(mount)) as reply:
                if reply.status == 201 and mount:
                    return Transfer.MOUNTED
                await self._expect(reply, 202)
                location = self._base.join(URL(reply.headers.get("Location", ""), encoded=True))
            # The rest of the address belongs to the registry, and may be signed: nothing in it is written differently.
            address = URL(f"{location}{'&' if location.query_string else '?'}digest={blob.digest}", encoded=True)
            headers = {"Content-Length": str(blob.size), "Content-Type": "application/octet-stream"}
            async with await self._send("PUT", address, headers, blob.open()) as reply:
                if reply.status == 413:
                    size = blob.size / 1e6
                    raise NotPossible(f"{self.name.registry} accepts no layer of {size:.0f} MB: leave files out")
                await self._expect(reply, 201)
            return Transfer.SENT

        return await self._attempt(push, f"did not receive {blob.digest}")

    async def push_manifest(self, content: bytes, media_type: str, *, version: str = "") -> str:
        """Write a manifest or index, under a tag or by its digest, which is returned."""
        digest = digest_of(content)

        async def push() -> str:
            path = self._path("manifests", version or digest)
            async with await self._send("PUT", path, {"Content-Type": media_type}, content) as reply:
                await self._expect(reply, 201)
            return digest

        return await self._attempt(push, f"did not accept {self._image_name(version or digest)}")

    async def _attempt(
        self, work: Callable[[], Awaitable[_T]], failure: str, *, pauses: Sequence[float] | None = None
    ) -> _T:
        """Do the work, again after a pause where the connection broke, and with a login where one is asked for."""
        for pause in (*(_PAUSES if pauses is None else pauses), None):
            try:
                try:
                    return await work()
                except tokens.Challenge as challenge:
                    self._authorization = await self._renewed(challenge)
                    return await work()
            except tokens.Challenge:
                raise NotPossible(self._refusal()) from None
            except aiohttp.ClientConnectorCertificateError as error:
                cause = one_line(str(error.certificate_error))
                raise NotPossible(
                    f"the certificate of {self.name.registry} is not trusted: {cause}; --ca names its authority"
                ) from None
            except (aiohttp.ClientError, OSError, _Broken) as error:
                if pause is None:
                    cause = one_line(str(error) or type(error).__name__)
                    raise NotPossible(f"{self.name.registry} {failure}: {cause}") from error
                await self._clock.sleep(pause)
        raise AssertionError("the last attempt has no pause")

    async def _greet(self) -> None:
        """Ask for the login at once, and find out whether a registry on this machine speaks HTTP."""
        try:
            async with await self._send("GET", URL("/v2/")) as reply:
                if reply.status != 400 or self._base.scheme == "https":
                    await self._expect(reply, 200)
                    return
        except aiohttp.ClientError:
            if self._base.scheme == "https":
                raise
        # Whoever speaks TLS refuses what is not, or hangs up.
        self._base = self._base.with_scheme("https")
        await self._greet()

    async def _renewed(self, challenge: tokens.Challenge) -> str:
        return await tokens.authorization(
            challenge, self._login, self._scopes, send=self._fetch_token, registry=self.name.registry
        )

    async def _fetch_token(
        self, method: str, address: URL, headers: Mapping[str, str], form: Mapping[str, str]
    ) -> Json:
        async with await self._request(method, address, headers, form or None) as reply:
            if reply.status in {400, 401, 403}:
                raise NotPossible(self._refusal())
            await self._expect(reply, 200)
            return _parse_json(await _read(reply))

    async def _send(
        self,
        method: str,
        path: URL,
        headers: Mapping[str, str] | None = None,
        body: bytes | AsyncIterator[bytes] | None = None,
    ) -> aiohttp.ClientResponse:
        """One request; raises ``tokens.Challenge`` when the registry wants to know who asks."""
        address = self._base.join(path)
        headers = dict(headers or {})
        if self._authorization and address.origin() == self._base.origin():
            headers["Authorization"] = self._authorization
        reply = await self._request(method, address, headers, body)
        if reply.status == 401:
            reply.close()
            raise tokens.Challenge(reply.headers.getall("WWW-Authenticate", []))
        return reply

    async def _request(
        self, method: str, address: URL, headers: Mapping[str, str], body: object
    ) -> aiohttp.ClientResponse:
        if address.scheme != "https" and not is_loopback(address.host or ""):
            raise NotPossible(f"{self.name.registry} names an address without TLS, which is not used")
        return await self._session.request(
            method,
            address,
            headers=headers,
            data=body,
            ssl=self._tls,
            proxy=proxies.from_environment(str(address), self._environment),
            allow_redirects=method in {"GET", "HEAD"},
        )

    async def _expect(self, reply: aiohttp.ClientResponse, status: int) -> None:
        if reply.status == status:
            return
        detail = _detail(await _read(reply)) if reply.method != "HEAD" else ""
        sentence = one_line(f"{reply.status} {reply.reason or ''}{detail and ': '}{detail}")
        if reply.status >= 500 or reply.status == 429:
            raise _Broken(sentence)
        if reply.status == 403:
            raise NotPossible(f"{self._refusal()} ({sentence})")
        raise NotPossible(f"{self.name.registry} refused {reply.method} {reply.url.path}: {sentence}")

    def _refusal(self) -> str:
        """That nobody, or nobody with this login, may do it."""
        registry = self.name.registry
        where = "" if registry == DOCKER_HUB else f" {registry}"
        repository = self.name.repository
        login = f"docker login{where} (without docker: docs/cli.md#tfjob-image)"
        if self._login is None and self._pushes:
            return f"{registry} asks for a login for {repository}: {login}"
        if self._login is None:
            # Docker Hub answers so about a repository that does not exist, too.
            return f"{registry} has no {repository}, or shows it only after a login: {login}"
        user = self._login.user or "the login"
        return f"{registry} does not accept {user} for {repository}: docker login{where} logs in again"

    def _path(self, kind: str, name: str) -> URL:
        return URL(f"/v2/{self.name.repository}/{kind}/{name}")

    def _image_name(self, version: str) -> str:
        return str(ImageName(self.name.registry, self.name.repository, version))


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


async def _read(reply: aiohttp.ClientResponse) -> bytes:
    content = bytearray()
    async for piece in reply.content.iter_chunked(_PIECE):
        content += piece
        if len(content) > _LARGEST_DOCUMENT:
            raise NotPossible(f"{reply.url.host} sent more than {_LARGEST_DOCUMENT >> 20} MiB")
    return bytes(content)


def _parse_json(content: bytes) -> Json:
    try:
        body = json.loads(content)
    except (ValueError, RecursionError):
        raise _Broken("it sent no JSON") from None
    if not isinstance(body, dict):
        raise _Broken("it sent no object of JSON")
    return body


def _detail(content: bytes) -> str:
    """What the registry says of an error."""
    try:
        first = json.loads(content)["errors"][0]
        return f"{first['code']}: {first['message']}"
    except (ValueError, LookupError, TypeError):
        return content[:200].decode(errors="replace")
