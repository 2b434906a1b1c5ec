"""The documentation site as `make docs` has built it: every page, in dark and light, on wide and narrow screens."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio
from aiohttp import web

from support.partners.browser import NARROW, ONE_BROWSER, WIDE, Visitor, audit, scrolls_sideways

if TYPE_CHECKING:
    from playwright.async_api import Locator, Page

pytestmark = ONE_BROWSER

SITE = Path(__file__).resolve().parents[2] / "site"
TABS = 3
FIRST = 3
# Lists of links, tables to look something up, and what only contributors read.
ENOUGH_AS_TEXT = {
    "404.html",
    "api.html",
    "behaviour.html",
    "comparison.html",
    "faq.html",
    "faults.html",
    "glossary.html",
    "how-to/index.html",
    "how-to/job-queue.html",
    "limits.html",
    "local-apiserver.html",
    "reference/events.html",
    "reference/flags.html",
    "reference/metrics.html",
    "reference/python.html",
    "release.html",
    "scheduling.html",
    "security.html",
}
PATIENCE_SECONDS = 20.0
QUERIES = {
    "TF_CONFIG": "concepts/tf-config.html",
    "restart": "concepts/restarts.html",
    "checkpoint": "concepts/storage.html",
    "laptop": "start/laptop.html",
    "gpu": "how-to/gpu.html",
    "kueue": "how-to/kueue.html",
    "job hangs": "troubleshooting.html",
    "migrate": "migration.html",
    "helm upgrade": "install.html",
}
# What colour a text has follows from the elements around it, so each way of being surrounded is judged once.
UNSEEN = """seen => {
    const known = new Set(seen), unseen = [];
    const texts = document.createTreeWalker(document.querySelector("article"), NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
        const element = texts.currentNode.parentElement;
        let way = "";
        for (let at = element; at.localName !== "article"; at = at.parentElement)
            way += `${at.localName}.${at.className} `;
        if (texts.currentNode.data.trim() && !known.has(way)) {
            known.add(way);
            unseen.push(way);
            element.dataset.unseen = "";
        }
    }
    return unseen;
}"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served() -> AsyncIterator[str]:
    """The address of the site on a server that does nothing but hand out files."""
    assert (SITE / "index.html").is_file(), "there is no site: run make docs"
    application = web.Application()
    application.router.add_static("/", SITE)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    server = web.TCPSite(runner, "127.0.0.1", 0)
    await server.start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("narrow", [False, True], ids=["wide", "narrow"])
async def test_navigation_can_be_used_by_everybody(visitor: Visitor, served: str, dark: bool, narrow: bool) -> None:
    tab = await visitor.open(f"{served}/runbooks/TFJobStuckPending.html", dark=dark, narrow=narrow)
    findings = await audit(tab)
    assert not findings, "\n".join(findings)
    if narrow:
        await tab.locator(".md-header label[for=__drawer]").click()
        await tab.get_by_role("link", name="TFOperatorDown").wait_for()
        assert await audit(tab, within="[data-md-component=sidebar]") == []


async def test_pages_have_a_picture_or_an_example_where_one_helps() -> None:
    articles = {path.relative_to(SITE).as_posix(): path.read_text().split("<article")[1] for path in _user_pages()}
    bare = {name for name, article in articles.items() if "<img " not in article and "<pre" not in article}
    assert bare == ENOUGH_AS_TEXT


def _user_pages() -> Iterator[Path]:
    """The pages for users, in difference to what is quoted, and to decisions."""
    for path in SITE.rglob("*.html"):
        if path.relative_to(SITE).parts[0] not in ("repository", "adr"):
            yield path


@pytest.mark.parametrize("place", ["server", "folder"])
async def test_search_finds_what_people_type(visitor: Visitor, served: str, place: str) -> None:
    tab = await visitor.open(f"{served if place == 'server' else SITE.as_uri()}/index.html")
    missed = [f"{words!r}: {address} is not in {results}" async for words, address, results in _searches(tab)]
    assert not missed, "\n".join(missed)


@pytest.mark.timeout(900)
async def test_every_page_can_be_read_by_everybody(visitor: Visitor, served: str) -> None:
    # Files that are quoted look alike: one of each language.
    quoted = {path.suffixes[0]: path for path in SITE.rglob("*.quoted.html")}
    own = (path for path in SITE.rglob("*.html") if ".quoted" not in path.suffixes)
    pages = iter([f"{served}/{path.relative_to(SITE)}" for path in (*own, *quoted.values())])
    texts: set[str] = set()
    by_tab = await asyncio.gather(*(_read(visitor, pages, texts) for _ in range(TABS)))
    findings = {line for lines in by_tab for line in lines}
    assert not findings, "\n".join(sorted(findings))


async def _searches(tab: "Page") -> AsyncIterator[tuple[str, str, list[str]]]:
    """Type each query; yield those whose page is not among the first answers, with these."""
    field = tab.locator("[data-md-component=search-query]")
    links = tab.locator(".md-search-result__item > a:first-child")
    for words, address in QUERIES.items():
        # The answers to one query stay until those to the next are there.
        await field.fill("")
        await field.press("End")
        await links.first.wait_for(state="detached")
        await field.fill(words)
        await field.press("End")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_SECONDS):
                while address not in (results := await _addresses(links)):
                    await asyncio.sleep(0.1)
                continue
        yield words, address, results


async def _addresses(links: "Locator") -> list[str]:
    hrefs = await links.evaluate_all("links => links.map(link => new URL(link.href).pathname)")
    return [href.rpartition("/site/")[2].lstrip("/") for href in hrefs[:FIRST]]


async def _read(visitor: Visitor, pages: Iterator[str], texts: set[str]) -> list[str]:
    """Read one page after the other in a tab, and return what somebody cannot read, or only by scrolling sideways."""
    tab, findings = await visitor.open("about:blank"), list[str]()
    # Search, which takes longer to load than all else, has a test of its own.
    await tab.add_init_script("Worker = class extends EventTarget { postMessage() {} }")
    for page in pages:
        await tab.goto(page)
        findings += await audit(tab, within="article", without=["color-contrast"])
        findings += await _contrast(tab, texts)
        await tab.set_viewport_size(NARROW)
        if await scrolls_sideways(tab):
            findings.append(f"{page}: is wider than a narrow screen")
        await tab.set_viewport_size(WIDE)
    return findings


async def _contrast(tab: "Page", texts: set[str]) -> list[str]:
    unseen = await tab.evaluate(UNSEEN, list(texts))
    texts.update(unseen)
    findings = []
    for scheme in ("dark", "light") if unseen else ():
        await tab.emulate_media(color_scheme=scheme)
        findings += [f"{scheme}: {line}" for line in await audit(tab, within="[data-unseen]", only=["color-contrast"])]
    return findings
