"""A hook of MkDocs: pages may link to any file of the repository, as they may on GitHub.

A file outside docs/ that a page links to is on the site under ``repository/``: Markdown as a page, the
rest as a page that quotes it. Links are rewritten only here, so that the same pages are right on GitHub.
"""

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).resolve().parents[2]
DOCS: Final = "docs"
OUTSIDE: Final = "repository"
LINK: Final = re.compile(r"(\]\()([^)#\s:]+)((?:#[^)\s]*)?\))")
LANGUAGES: Final = {".yaml": "yaml", ".yml": "yaml", ".py": "python", ".json": "json", ".lua": "lua", ".toml": "toml"}


def path_of(src_uri: str) -> str:
    """Where the repository has what the site has under this name."""
    inside, _, rest = src_uri.partition("/")
    return rest.removesuffix(".quoted.md") if inside == OUTSIDE else f"{DOCS}/{src_uri}"


def name_of(path: str) -> str:
    """What the site calls a file of the repository, or the README of a folder."""
    if path.startswith(f"{DOCS}/"):
        return path.removeprefix(f"{DOCS}/")
    if (ROOT / path).is_dir():
        path = f"{path}/README.md"
    return f"{OUTSIDE}/{path}" if path.endswith(".md") else f"{OUTSIDE}/{path}.quoted.md"


def target_of(link: str, *, page: str) -> str:
    """The path in the repository that a link of a page, also a path there, leads to."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), link))


def _outside(src_uri: str, text: str) -> Iterator[str]:
    for _, link, _ in LINK.findall(text):
        target = target_of(link, page=path_of(src_uri))
        if not target.startswith(f"{DOCS}/"):
            yield target


def _text_of(path: str) -> str:
    source = ROOT / path
    if ROOT not in source.resolve().parents or not source.exists():
        raise PluginError(f"a page links to {path}, which is not in the repository")
    if source.is_dir() and not (source / "README.md").is_file():
        names = sorted(one.name for one in source.iterdir() if one.is_file())
        return f"# {path}\n\n" + "".join(f"- [{name}]({name})\n" for name in names)
    source = source / "README.md" if source.is_dir() else source
    text = source.read_text(encoding="utf-8")
    if source.suffix == ".md":
        return text
    fence = "`" * max(3, *(len(run) + 1 for run in re.findall(r"`+", text)), 0)
    return f"# {path}\n\n{fence}{LANGUAGES.get(source.suffix, 'text')}\n{text}{fence}\n"


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add what the pages, and the pages that are added, link to, and what the navigation names outside docs/."""
    waiting = [(file.src_uri, file.content_string) for file in files.documentation_pages()]
    waiting.append((".", "".join(f"](../{path_of(name)})" for name in _named(config.nav) if name.startswith(OUTSIDE))))
    while waiting:
        name, text = waiting.pop()
        for path in _outside(name, text):
            added = name_of(path)
            if files.get_file_from_path(added) is None:
                content = _text_of(path)
                inclusion = InclusionLevel.INCLUDED if added in _named(config.nav) else InclusionLevel.NOT_IN_NAV
                files.append(File.generated(config, added, content=content, inclusion=inclusion))
                waiting.append((added, content))
    return files


def _named(nav: object) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    parts = list(nav.values()) if isinstance(nav, dict) else nav
    return [name for part in parts for name in _named(part)] if isinstance(parts, list) else []


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001 (a hook)
    """Let links from or to what is outside docs/ lead to where the site has it."""
    here = page.file.src_uri

    def rewritten(link: re.Match[str]) -> str:
        target = target_of(link[2], page=path_of(here))
        if target.startswith(f"{DOCS}/") and not here.startswith(OUTSIDE):
            return link[0]
        return f"{link[1]}{posixpath.relpath(name_of(target), posixpath.dirname(here) or '.')}{link[3]}"

    return LINK.sub(rewritten, markdown)
