"""The parts of a page that are generated: each stands between two markers."""

from typing import Final

BEGIN: Final = "<!-- generated: {name} -->"
END: Final = "<!-- end of {name} -->"


class PartMissingError(Exception):
    """The page does not say where a part belongs, or has one that is gone."""


def between(page: str, name: str, content: str) -> str:
    """The page with a part between its markers."""
    begin, end = BEGIN.format(name=name), END.format(name=name)
    head, opening, rest = page.partition(begin)
    _, closed, after = rest.partition(end)
    if not (opening and closed):
        raise PartMissingError(f"the page lacks the line {end if opening else begin!r}")
    return f"{head}{begin}\n\n{content.strip()}\n\n{end}{after}"


def plain(text: str) -> str:
    """A text in a cell or an item, without what Markdown would read."""
    return text.replace("|", r"\|").replace("<", r"\<")
