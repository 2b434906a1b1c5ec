"""The parts of a page that are generated: each stands between two markers."""

from typing import Final

BEGIN: Final = "<!-- generated: {name} -->"
BEGINS: Final = BEGIN.partition("{")[0]
END: Final = "<!-- end -->"


class PartMissingError(Exception):
    """The page does not say where a part belongs, or has one that is gone."""


def between(page: str, name: str, content: str) -> str:
    """The page with a part between its markers."""
    begin = BEGIN.format(name=name)
    head, opening, rest = page.partition(begin)
    old, end_mark, after = rest.partition(END)
    if not (opening and end_mark) or BEGINS in old:
        raise PartMissingError(f"the page lacks the line {begin!r}, or {END!r} after it")
    return f"{head}{begin}\n\n{content.strip()}\n\n{END}{after}"


def plain(text: str) -> str:
    """A text in a cell or an item, without what Markdown would read."""
    return text.replace("|", r"\|").replace("<", r"\<")
