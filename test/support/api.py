"""A small client of the Kubernetes API for tests: raw JSON in, raw JSON out.

It shares no line with the product's client, on purpose: evidence that went through the code under test would share its
bugs. It caches nothing and hides nothing: what the apiserver refuses is a ``RefusedError`` with the server's own words.
It repeats only a request that the apiserver has not looked at and asks for again (503 with Retry-After), as client-go
does.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Literal, Self

import aiohttp

from lab.control_plane import streams
from lab.control_plane.api import TRIES_WHEN_UNAVAILABLE
from lab.control_plane.connections import TidyConnector
from support.kubeconfigs import access_from
from support.resources import Json

_PATCH_TYPES = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "json": "application/json-patch+json",
    "apply": "application/apply-patch+yaml",
}
_PAGE = 500


class RefusedError(Exception):
    """The apiserver answered with another status than 2xx. ``body`` is its Status, or its text as message."""

    def __init__(self, request: str, status: int, body: Json) -> None:
        self.status = status
        self.body = body
        self.reason = str(body.get("reason", ""))
        self.message = str(body.get("message", ""))
        super().__init__(f"{request}: {status} {self.reason}: {self.message}")

    @property
    def complaints(self) -> dict[str, str]:
        """What an Invalid object is accused of, by field.

        Before the text of a rule, older servers put the type of the value, where newer ones put nothing.
        """
        causes = self.body["details"]["causes"]
        return {
            cause["field"]: cause["message"].replace('Invalid value: "object": ', "Invalid value: ") for cause in causes
        }


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One line of a watch: ADDED, MODIFIED, DELETED, BOOKMARK, or ERROR with a Status as its body."""

    type: str
    body: Json


class Api:
    """One identity's connection to one apiserver; to be used with ``async with``, in one event loop."""

    def __init__(self, kubeconfig: Path, *, user_agent: str = "") -> None:
        self._access = access_from(kubeconfig)
        # Also the name under which managedFields remembers what this client wrote.
        self._user_agent = user_agent or f"test-{kubeconfig.stem}"

    async def __aenter__(self) -> Self:
        self._connector = TidyConnector(self._access.trust())
        self._session = aiohttp.ClientSession(
            base_url=self._access.server,
            headers={"Authorization": f"Bearer {self._access.token}", "User-Agent": self._user_agent},
            connector=self._connector,
            timeout=aiohttp.ClientTimeout(total=60),
        )
        return self

    async def __aexit__(self, *failure: object) -> None:
        await self._session.close()
        await self._connector.abort_all()

    async def get(self, path: str, **params: str) -> Json:
        """One object, or whatever else the path answers with as JSON (a List, a version, a discovery)."""
        return await self._ask("GET", path, params)

    async def find(self, path: str) -> Json | None:
        try:
            return await self.get(path)
        except RefusedError as refusal:
            if refusal.status == 404:
                return None
            raise

    async def list(self, path: str, **params: str) -> list[Json]:
        """Every item of a collection, read in pages; ``labelSelector=...`` and the like are ``params``."""
        items: list[Json] = []
        token = ""
        while True:
            more = {"continue": token} if token else {}
            page = await self._ask("GET", path, {"limit": str(_PAGE), **params, **more})
            items += page["items"]
            token = page["metadata"].get("continue", "")
            if not token:
                return items

    async def create(self, path: str, body: Json, **params: str) -> Json:
        """POST to a collection (or to a subresource such as ``binding``); the object as it was stored.

        Fields that the schema does not know are refused: a misspelt one must fail the test that wrote it.
        """
        return await self._ask("POST", path, {"fieldValidation": "Strict", **params}, body)

    async def replace(self, path: str, body: Json, **params: str) -> Json:
        """PUT a whole object, guarded by its ``metadata.resourceVersion`` if it has one."""
        return await self._ask("PUT", path, params, body)

    async def patch(
        self,
        path: str,
        body: Json | Sequence[Json],
        how: Literal["merge", "strategic", "json", "apply"] = "merge",
        **params: str,
    ) -> Json:
        """PATCH; ``json`` takes a list of operations, ``apply`` a whole intent (and takes over by force)."""
        if how == "apply":
            params = {"fieldManager": self._user_agent, "force": "true", **params}
        return await self._ask("PATCH", path, params, body, _PATCH_TYPES[how])

    async def delete(
        self,
        path: str,
        *,
        uid: str = "",
        resource_version: str = "",
        grace: int | None = None,
        propagation: Literal["", "Background", "Foreground", "Orphan"] = "",
        **params: str,
    ) -> Json:
        """DELETE an object (or a collection, by a collection's path), with preconditions where given."""
        guards = {"uid": uid, "resourceVersion": resource_version}
        options = {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "preconditions": {name: value for name, value in guards.items() if value} or None,
            "gracePeriodSeconds": grace,
            "propagationPolicy": propagation or None,
        }
        return await self._ask("DELETE", path, params, {k: v for k, v in options.items() if v is not None})

    @asynccontextmanager
    async def watch(self, path: str, **params: str) -> AsyncIterator[AsyncIterator[WatchEvent]]:
        """Watch from ``resourceVersion=...``, or from the current objects on when it is not given.

        Once the body of the ``async with`` runs, the apiserver has accepted the watch: nothing written
        from then on is missed. The events end when the server ends the watch.
        """
        no_limit = aiohttp.ClientTimeout(total=None)
        async with self._session.get(path, params={"watch": "true", **params}, timeout=no_limit) as reply:
            if not reply.ok:
                raise await _refusal(reply)
            yield _events(reply)

    async def _ask(
        self, method: str, path: str, params: dict[str, str], body: object = None, media: str = "application/json"
    ) -> Json:
        sent = b"" if body is None else json.dumps(body).encode()
        headers = {"Content-Type": media} if sent else {}
        for tries_left in reversed(range(TRIES_WHEN_UNAVAILABLE)):
            # As a stream: aiohttp warns when a body as large as etcd can take is handed over in one piece.
            content = BytesIO(sent) if sent else None
            async with self._session.request(method, path, params=params, data=content, headers=headers) as reply:
                if reply.ok:
                    answer: Json = json.loads(await reply.read())
                    return answer
                if reply.status != 503 or "Retry-After" not in reply.headers or not tries_left:
                    raise await _refusal(reply)
            await asyncio.sleep(float(reply.headers["Retry-After"]))
        raise AssertionError("unreachable")


async def _events(reply: aiohttp.ClientResponse) -> AsyncIterator[WatchEvent]:
    async for line in streams.documents(reply.content.iter_any()):
        yield WatchEvent(line["type"], line["object"])


async def _refusal(reply: aiohttp.ClientResponse) -> RefusedError:
    text = await reply.text()
    try:
        body = json.loads(text)
    except ValueError:  # "404 page not found", and what proxies say
        body = {"message": text.strip()}
    return RefusedError(f"{reply.method} {reply.url.path_qs}", reply.status, body)
