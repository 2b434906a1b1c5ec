"""The text of all metrics, rendered at most once a second, however many scrapers there are.

The operator's event loop samples, a thread renders: a page may have megabytes, and probes must be answered meanwhile.
All scrapers that ask during a rendering, or soon after, share the page. The time for which it is shared grows with the
cost of rendering, so scrapers use only a part of a core.

Lives on the event loop of the HTTP server. Neighbours: ``registry`` has the metrics, ``http.endpoints`` the page.
"""

import asyncio
import gzip
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from prometheus_client import CollectorRegistry, exposition

from tf_operator.machinery.clock import Clock

SHARED_FOR: Final = 1.0
"""Seconds for which a page is shared, or longer:"""
SHARE_OF_TIME: Final = 4
"""for so many times as long as it took to make."""


class Rendered(NamedTuple):
    body: bytes
    content_type: str
    is_compressed: bool


class _Form(NamedTuple):
    is_openmetrics: bool
    is_compressed: bool


class Exposition:
    """Renders a registry; ``sample`` reads what has to be read before."""

    def __init__(self, registry: CollectorRegistry, clock: Clock, sample: Callable[[], Awaitable[object]]) -> None:
        self._registry = registry
        self._clock = clock
        self._sample = sample
        self._making = asyncio.Lock()
        self._pages: dict[_Form, Rendered] = {}
        self._shared_until = clock.monotonic()

    async def render(self, *, accept: str, accept_encoding: str) -> Rendered:
        """The page in the format and compression that these headers ask for."""
        form = _Form(_wants_openmetrics(accept), exposition.gzip_accepted(accept_encoding))
        async with self._making:
            if self._clock.monotonic() >= self._shared_until:
                self._pages.clear()
            if form not in self._pages:
                await self._make(form)
            return self._pages[form]

    async def _make(self, form: _Form) -> None:
        began = self._clock.monotonic()
        if not self._pages:
            await self._sample()
        plain = form._replace(is_compressed=False)
        if plain not in self._pages:
            self._pages[plain] = await asyncio.to_thread(self._render, plain)
        if form not in self._pages:
            self._pages[form] = await asyncio.to_thread(_compressed, self._pages[plain])
        now = self._clock.monotonic()
        self._shared_until = max(self._shared_until, now + max(SHARED_FOR, SHARE_OF_TIME * (now - began)))

    def _render(self, form: _Form) -> Rendered:
        # Without the versions and escapings that clients may ask for: what is shared comes in few forms.
        encode, content_type = exposition.choose_encoder(_OPENMETRICS if form.is_openmetrics else "")
        return Rendered(encode(self._registry), content_type, is_compressed=False)


_OPENMETRICS = "application/openmetrics-text"


def _wants_openmetrics(accept: str) -> bool:
    return any(kind.partition(";")[0].strip() == _OPENMETRICS for kind in accept.split(","))


def _compressed(page: Rendered) -> Rendered:
    return page._replace(body=gzip.compress(page.body, compresslevel=1), is_compressed=True)
