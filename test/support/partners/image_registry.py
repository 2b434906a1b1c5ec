"""A real registry for tests, ``distribution``, as nothing but HTTP: what is pushed to it is read without our client.

    with ImageRegistry.up(tmp_path, access=Access.PASSWORD) as registry:
        registry.put_image("base", "1", [image_of({"etc/os": b"x"})])
        registry.manifest("team/train", "1")

``Access`` says who is let in. ``USER`` and ``PASSWORD`` may do everything; with tokens, as Docker Hub and most others
have them, a ``TokenServer`` in this process gives them. The registry ends with the block, or with the session.
"""

import base64
import functools
import gzip
import hashlib
import io
import json
import os
import re
import ssl
import subprocess
import tarfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from enum import Enum, auto
from http.client import HTTPConnection, HTTPSConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import parse_qs, urlsplit

import trustme
import yaml
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from lab.control_plane.process import die_with
from lab.control_plane.servers import free_port
from lab.tools.get import programs

PROGRAM: Final = "registry"
USER: Final = "ann"
PASSWORD: Final = "secret"
IDENTITY: Final = "identity-of-ann"
OCI_MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
OCI_INDEX: Final = "application/vnd.oci.image.index.v1+json"
DOCKER_MANIFEST: Final = "application/vnd.docker.distribution.manifest.v2+json"
_HTPASSWD: Final = f"{USER}:$2y$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW\n"  # bcrypt of PASSWORD
_START_SECONDS: Final = 60.0

_REQUEST: Final = re.compile(r'^\S+ - \S+ \[[^]]+] "(\w+ \S+) HTTP', re.MULTILINE)

Json = dict[str, Any]


class Access(Enum):
    EVERYBODY = auto()
    PASSWORD = auto()
    TOKEN = auto()


@dataclass(frozen=True, slots=True)
class BaseImage:
    """One platform's image: its layers, lowest first, and its configuration."""

    layers: tuple[bytes, ...]
    config: Json
    is_of_docker: bool = False


def image_of(
    files: Mapping[str, bytes], *, architecture: str = "amd64", is_of_docker: bool = False, **process: object
) -> BaseImage:
    """An image with a compressed layer of these files."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text))
    config = {
        "architecture": architecture,
        "os": "linux",
        "created": "2026-01-02T03:04:05Z",
        "config": process,
        "rootfs": {"type": "layers", "diff_ids": [digest_of(content.getvalue())]},
        "history": [{"created_by": "a test"}],
    }
    return BaseImage((gzip.compress(content.getvalue(), mtime=0),), config, is_of_docker)


@dataclass
class ImageRegistry:
    """One registry; made by ``ImageRegistry.up``."""

    folder: Path
    access: Access = Access.EVERYBODY
    authority: trustme.CA | None = None
    """With one, it speaks TLS."""
    port: int = field(default_factory=free_port)

    @classmethod
    @contextmanager
    def up(
        cls, folder: Path, *, access: Access = Access.EVERYBODY, authority: trustme.CA | None = None
    ) -> Iterator[Self]:
        folder.mkdir(parents=True, exist_ok=True)
        registry = cls(folder, access, authority)
        with ExitStack() as stack:
            auth = registry._auth(stack)
            process = registry._launch(auth)
            try:
                registry._wait_ready(process)
                yield registry
            finally:
                process.terminate()
                process.wait()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def put_image(self, repository: str, tag: str, images: Sequence[BaseImage]) -> str:
        """Push an image, or the index of several, and return its digest."""
        manifests = [self._put_manifest(repository, image) for image in images]
        if len(manifests) == 1:
            content, media_type = manifests[0]
        else:
            entries = [
                {
                    "mediaType": media_type,
                    "digest": digest_of(content),
                    "size": len(content),
                    "platform": {"os": "linux", "architecture": image.config["architecture"]},
                }
                for image, (content, media_type) in zip(images, manifests, strict=True)
            ]
            content = json.dumps({"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": entries}).encode()
            media_type = OCI_INDEX
        self._ask("PUT", f"/v2/{repository}/manifests/{tag}", content, {"Content-Type": media_type})
        return digest_of(content)

    def manifest(self, repository: str, version: str) -> Json:
        accept = {"Accept": f"{OCI_MANIFEST}, {OCI_INDEX}, {DOCKER_MANIFEST}"}
        body: Json = json.loads(self._ask("GET", f"/v2/{repository}/manifests/{version}", headers=accept))
        return body

    def blob(self, repository: str, digest: str) -> bytes:
        return self._ask("GET", f"/v2/{repository}/blobs/{digest}")

    def tags(self, repository: str) -> list[str]:
        tags: list[str] = json.loads(self._ask("GET", f"/v2/{repository}/tags/list"))["tags"]
        return tags

    def requests(self) -> list[str]:
        """Method and path of each request, as its log has them; it may have the last one of a connection later."""
        return _REQUEST.findall((self.folder / "registry.log").read_text())

    def _put_manifest(self, repository: str, image: BaseImage) -> tuple[bytes, str]:
        config = json.dumps(image.config).encode()
        manifest_type = DOCKER_MANIFEST if image.is_of_docker else OCI_MANIFEST
        docker = "application/vnd.docker"
        config_type = (
            f"{docker}.container.image.v1+json" if image.is_of_docker else manifest_type.replace("manifest", "config")
        )
        layer_type = (
            f"{docker}.image.rootfs.diff.tar.gzip"
            if image.is_of_docker
            else "application/vnd.oci.image.layer.v1.tar+gzip"
        )
        for content in (config, *image.layers):
            self._put_blob(repository, content)
        layers = [{"mediaType": layer_type, "digest": digest_of(it), "size": len(it)} for it in image.layers]
        body = {
            "schemaVersion": 2,
            "mediaType": manifest_type,
            "config": {"mediaType": config_type, "digest": digest_of(config), "size": len(config)},
            "layers": layers,
        }
        content = json.dumps(body).encode()
        self._ask("PUT", f"/v2/{repository}/manifests/{digest_of(content)}", content, {"Content-Type": manifest_type})
        return content, manifest_type

    def _put_blob(self, repository: str, content: bytes) -> None:
        reply = self._reply("POST", f"/v2/{repository}/blobs/uploads/", b"", {})
        location = urlsplit(reply[1]["Location"])
        self._ask("PUT", f"{location.path}?{location.query}&digest={digest_of(content)}", content)

    def _ask(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> bytes:
        return self._reply(method, path, body, headers or {})[2]

    def _reply(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> tuple[int, Mapping[str, str], bytes]:
        connection = self._connection()
        login = {"Authorization": self._authorization(path)} if self.access is not Access.EVERYBODY else {}
        try:
            connection.request(method, path, body, {**headers, **login})
            reply = connection.getresponse()
            content = reply.read()
            assert reply.status < 300, f"{method} {path}: {reply.status} {content!r}"
            return reply.status, dict(reply.headers), content
        finally:
            connection.close()

    def _connection(self) -> HTTPConnection:
        if self.authority is None:
            return HTTPConnection("127.0.0.1", self.port)
        context = ssl.create_default_context()
        self.authority.configure_trust(context)
        return HTTPSConnection("127.0.0.1", self.port, context=context)

    def _authorization(self, path: str) -> str:
        if self.access is Access.PASSWORD:
            return basic(USER, PASSWORD)
        repository = re.split("/(?:manifests|blobs|tags)/", path.removeprefix("/v2/"))[0]
        return f"Bearer {self.tokens.issue([f'repository:{repository}:pull,push'])}"

    def _auth(self, stack: ExitStack) -> Json:
        if self.access is Access.PASSWORD:
            passwords = self.folder / "htpasswd"
            passwords.write_text(_HTPASSWD)
            return {"htpasswd": {"realm": "test", "path": str(passwords)}}
        if self.access is Access.TOKEN:
            self.tokens = stack.enter_context(TokenServer.up())
            keys = self.folder / "keys.json"
            keys.write_text(json.dumps(self.tokens.keys()))
            names = {"realm": self.tokens.realm, "service": "registry", "issuer": "tests"}
            return {"token": {**names, "jwks": str(keys)}}
        return {}

    def _launch(self, auth: Json) -> "subprocess.Popen[bytes]":
        http: Json = {"addr": self.address, "secret": "of a test"}
        if self.authority:
            certificate = self.authority.issue_cert("127.0.0.1")
            certificate.cert_chain_pems[0].write_to_path(self.folder / "cert.pem")
            certificate.private_key_pem.write_to_path(self.folder / "key.pem")
            http["tls"] = {"certificate": str(self.folder / "cert.pem"), "key": str(self.folder / "key.pem")}
        config = {
            "version": "0.1",
            "log": {"level": "info"},
            "storage": {"filesystem": {"rootdirectory": str(self.folder / "data")}, "delete": {"enabled": True}},
            "http": http,
            **({"auth": auth} if auth else {}),
        }
        path = self.folder / "registry.yaml"
        path.write_text(yaml.safe_dump(config))
        with (self.folder / "registry.log").open("wb") as log:
            return subprocess.Popen(
                [programs(PROGRAM)[PROGRAM], "serve", str(path)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, "OTEL_TRACES_EXPORTER": "none"},
                start_new_session=True,
                preexec_fn=functools.partial(die_with, os.getpid()),  # noqa: PLW1509 - it takes no lock
            )

    def _wait_ready(self, process: "subprocess.Popen[bytes]") -> None:
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline and process.poll() is None:
            connection = self._connection()
            try:
                connection.request("GET", "/v2/")
                connection.getresponse().read()
            except OSError:
                time.sleep(0.02)
            else:
                return
            finally:
                connection.close()
        raise AssertionError((self.folder / "registry.log").read_text()[-2000:])


class TokenServer:
    """Gives tokens to ``USER``, by password or identity token, and to nobody else."""

    def __init__(self) -> None:
        self.realm = ""
        self.requests: list[str] = []
        """Method and scopes of each request."""
        self._key = rsa.generate_private_key(65537, 2048)

    @classmethod
    @contextmanager
    def up(cls) -> Iterator[Self]:
        tokens = cls()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                query = parse_qs(urlsplit(self.path).query)
                self._reply(query, self.headers.get("Authorization") == basic(USER, PASSWORD))

            def do_POST(self) -> None:
                form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                self._reply({"scope": form["scope"][0].split()}, form["refresh_token"] == [IDENTITY])

            def _reply(self, query: Mapping[str, Sequence[str]], is_allowed: bool) -> None:
                scopes = query.get("scope", ())
                tokens.requests.append(f"{self.command} {' '.join(scopes)}")
                body = json.dumps({"access_token": tokens.issue(scopes)} if is_allowed else {}).encode()
                self.send_response(200 if is_allowed else 401)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            tokens.realm = f"http://127.0.0.1:{server.server_port}/token"
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            try:
                yield tokens
            finally:
                server.shutdown()
                thread.join()

    def issue(self, scopes: Sequence[str]) -> str:
        """A token for what the scopes say, for an hour."""
        now = int(time.time())
        access = [
            {"type": kind, "name": name, "actions": actions.split(",")}
            for kind, name, actions in (scope.split(":") for scope in scopes)
        ]
        times = {"nbf": now - 60, "iat": now - 60, "exp": now + 3600}
        claims = {"iss": "tests", "sub": USER, "aud": "registry", "jti": "1", "access": access, **times}
        parts = [{"typ": "JWT", "alg": "RS256", "kid": "test"}, claims]
        text = ".".join(_base64url(json.dumps(part).encode()) for part in parts)
        return f"{text}.{_base64url(self._key.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256()))}"

    def keys(self) -> Json:
        """The public key, by which the registry knows its tokens."""
        numbers = self._key.public_key().public_numbers()
        modulus, exponent = (_base64url(n.to_bytes((n.bit_length() + 7) // 8)) for n in (numbers.n, numbers.e))
        return {"keys": [{"kty": "RSA", "kid": "test", "alg": "RS256", "use": "sig", "n": modulus, "e": exponent}]}


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def basic(user: str, password: str) -> str:
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


def _base64url(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()
