"""Chromium, as a person or a tool such as axe sees what the project serves.

Playwright drives it, from the venv of hack/requirements/browser.txt. A page may ask nothing but this machine, and may
not complain: what it should not have done is an error of the test that opened it.
"""

import functools
import json
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import pytest
import pytest_asyncio

from lab.tools.chromium import chromium, packages

if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Page, Request, Response

ONE_BROWSER: Final = pytest.mark.asyncio(loop_scope="module")
"""The mark of a module whose tests share a Chromium: everything of it happens in one event loop."""
WIDE: Final = {"width": 1280, "height": 800}
NARROW: Final = {"width": 360, "height": 740}
SEVERE: Final = frozenset({"serious", "critical"})
_LOCAL: Final = frozenset({"127.0.0.1", "localhost", "::1"})
_PATIENCE_MILLISECONDS: Final = 30_000
_SCROLLS_SIDEWAYS: Final = "document.scrollingElement.scrollWidth > document.scrollingElement.clientWidth"


@dataclass
class Visitor:
    """Opens pages in one Chromium, and keeps what they should not have done."""

    browser: "Browser"
    complaints: list[str] = field(default_factory=list)
    _contexts: list["BrowserContext"] = field(default_factory=list)

    async def open(self, url: str, *, dark: bool = False, narrow: bool = False) -> "Page":
        """Open an address as somebody new: no cookies, nothing in a cache."""
        look = {"color_scheme": "dark" if dark else "light", "viewport": NARROW if narrow else WIDE}
        context = await self.browser.new_context(**look, reduced_motion="reduce")
        self._contexts.append(context)
        context.set_default_timeout(_PATIENCE_MILLISECONDS)
        page = await context.new_page()
        page.on("request", lambda request: self._judge(page, request))
        page.on("console", lambda message: self._listen(page, message))
        page.on("pageerror", lambda error: self._complain(page, str(error)))
        page.on("response", lambda response: self._look_at(page, response))
        page.on("requestfailed", lambda request: self._look_at_failure(page, request))
        await page.goto(url)
        return page

    async def close(self) -> None:
        """Close all pages; raises AssertionError with what they complained of."""
        while self._contexts:
            await self._contexts.pop().close()
        complaints, self.complaints = self.complaints, []
        assert not complaints, "\n".join(complaints[:10])

    def _judge(self, page: "Page", request: "Request") -> None:
        address = urlsplit(request.url)
        if address.scheme in {"http", "https", "ws", "wss"} and address.hostname not in _LOCAL:
            self._complain(page, f"asks for {request.url}, which is not on this machine")

    def _listen(self, page: "Page", message: "ConsoleMessage") -> None:
        if message.type == "error":
            self._complain(page, message.text)

    def _look_at(self, page: "Page", response: "Response") -> None:
        if response.status >= 400:
            self._complain(page, f"{response.url} is answered with {response.status}")

    def _look_at_failure(self, page: "Page", request: "Request") -> None:
        # A page that is left ends its own requests.
        if request.failure != "net::ERR_ABORTED":
            self._complain(page, f"{request.url} failed: {request.failure}")

    def _complain(self, page: "Page", text: str) -> None:
        self.complaints.append(f"{page.url}: {text}")


async def audit(
    page: "Page", *, within: str = "html", only: Collection[str] = (), without: Collection[str] = ()
) -> list[str]:
    """What axe finds in a page: a line for each element that breaks a rule, with the rule and the way to fix it."""
    await page.evaluate(_axe())
    options: dict[str, Any] = {"resultTypes": ["violations"], "rules": {rule: {"enabled": False} for rule in without}}
    if only:
        options["runOnly"] = sorted(only)
    report = await page.evaluate(f"axe.run({json.dumps(within)}, {json.dumps(options)})")
    return [
        f"{page.url}: {rule['id']} ({rule['impact']}): {' '.join(map(str, node['target']))}: {node['failureSummary']}"
        for rule in report["violations"]
        if rule["impact"] in SEVERE
        for node in rule["nodes"]
    ]


async def scrolls_sideways(page: "Page") -> bool:
    """Whether some part of a page is wider than the window, and does not scroll by itself."""
    return bool(await page.evaluate(_SCROLLS_SIDEWAYS))


@functools.cache
def _axe() -> str:
    return (packages() / "axe_playwright_python" / "axe.min.js").read_text(encoding="utf-8")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator["Browser"]:
    """The Chromium of a module, which has the mark ONE_BROWSER."""
    async with chromium() as started:
        yield started


@pytest_asyncio.fixture(loop_scope="module")
async def visitor(browser: "Browser") -> AsyncIterator[Visitor]:
    """Somebody new for each test; what the pages should not have done fails it."""
    visitor = Visitor(browser)
    yield visitor
    await visitor.close()
