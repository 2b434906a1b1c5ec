"""The parts of a page that are generated: each stands between two markers."""

from typing import Final

BEGIN: Final = "<!-- generated: {name} -->"
END: Final = "<!-- end -->"


class PartMissingError(Exception):
    """The page does not say where a part belongs, or has one that is gone."""


def between(page: str, name: str, content: str) -> str:
    """The page with a part between its markers."""
    begin = BEGIN.format(name=name)
    head, opening, rest = page.partition(begin)
    _, closed, after = rest.partition(END)
    if not (opening and closed):
        raise PartMissingError(f"the page lacks the line {END if opening else begin!r}")
    return f"{head}{begin}\n\n{content.strip()}\n\n{END}{after}"


def plain(text: str) -> str:
    """A text in a cell or an item, without what Markdown would read."""
    return text.replace("|", r"\|").replace("<", r"\<")
