"""What is wrong with a site that is built: links that lead nowhere, and what other hosts would have to serve."""

import posixpath
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

# What a browser loads by itself, by tag: it must come from the site.
LOADED: Final[Mapping[str, str]] = {
    **dict.fromkeys(("script", "img", "source", "iframe", "video", "audio", "embed"), "src"),
    "link": "href",
    "object": "data",
    "image": "href",
    "use": "href",
}
STYLE: Final = re.compile(r"""(?:url\(|@import)\s*["']?((?:https?:)?//[^"')\s]+)""")
# Lists and tables that Markdown has not seen as such: GitHub needs no empty line before a list, and MkDocs does.
MISREAD: Final = re.compile(r"^(?:[-*] |\d+\. |\|.*\|$)", re.MULTILINE)


@dataclass
class Document(HTMLParser):
    """One page: what it links to and loads, its anchors, and the texts of its paragraphs."""

    text: str
    links: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)
    without_alt: list[str] = field(default_factory=list)
    paragraphs: list[str] = field(default_factory=list)
    _in_paragraph: bool = False

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.feed(self.text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        self.anchors |= {attributes[name] for name in ("id", "name") if name in attributes}
        if target := attributes.get(LOADED.get(tag, "")):
            self.loaded.append(target)
        if tag == "a" and "href" in attributes:
            self.links.append(attributes["href"])
        if tag == "img" and not attributes.get("alt"):
            self.without_alt.append(attributes.get("src", ""))
        if tag == "p":
            self.paragraphs.append("")
        # What stands in code is not text.
        self._in_paragraph = tag not in ("code", "pre") and (tag == "p" or self._in_paragraph)

    def handle_endtag(self, tag: str) -> None:
        """A paragraph ends; code in it does."""
        self._in_paragraph = bool(self.paragraphs) and tag != "p" and (self._in_paragraph or tag in ("code", "pre"))

    def handle_data(self, data: str) -> None:
        if self._in_paragraph:
            self.paragraphs[-1] += data


def _leads_nowhere(target: str, *, page: str, files: Collection[str], pages: Mapping[str, Document]) -> str:
    """Say what is wrong with a link within the site, if anything is."""
    parts = urlsplit(target)
    # Only the theme's page for errors links from the root.
    path = posixpath.normpath(posixpath.join("/", posixpath.dirname(page), unquote(parts.path)))[1:]
    choices = (path, posixpath.join(path, "index.html")) if parts.path else (page,)
    file = next((name for name in choices if name in files), None)
    if file is None:
        return "is not there"
    is_broken = parts.fragment and file in pages and unquote(parts.fragment) not in pages[file].anchors
    return "has no such anchor" if is_broken else ""


def problems(site: Path) -> Iterator[str]:
    files = {path.relative_to(site).as_posix() for path in site.rglob("*") if path.is_file()}
    pages = {name: Document((site / name).read_text("utf-8")) for name in sorted(files) if name.endswith(".html")}
    for name, page in pages.items():
        inside = [one for one in (*page.links, *page.loaded) if not (urlsplit(one).scheme or urlsplit(one).netloc)]
        reasons = ((one, _leads_nowhere(one, page=name, files=files, pages=pages)) for one in inside)
        yield from (f"{name} links to {target}, which {reason}" for target, reason in reasons if reason)
        others = (one for one in page.loaded if one not in inside and not one.startswith("data:"))
        yield from (f"{name} loads {target}, which another host serves" for target in others)
        yield from (f"{name} has a picture without an alt text: {source}" for source in page.without_alt)
        misread = (text for text in page.paragraphs if MISREAD.search(text))
        yield from (f"{name} has a list or table without an empty line before it: {text[:60]!r}" for text in misread)
    for name in sorted(one for one in files if one.endswith((".css", ".svg", ".html"))):
        text = (site / name).read_text("utf-8")
        yield from (f"{name} loads {url}, which another host serves" for url in STYLE.findall(text))
