"""Texts for people: tables and times."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from html import escape

from tf_operator.local.apiserver import ages
from tf_operator.text import printable


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Lines with the cells below each other, as kubectl prints them."""
    lines = [[printable(cell) for cell in row] for row in (header, *rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        yield "   ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() + "\n"


def html_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """The same for a notebook."""
    head = "".join(f"<th>{escape(name)}</th>" for name in header)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def age(moment: datetime | None, now: datetime) -> str:
    """How long ago, in kubectl's short form."""
    return duration(now - moment) if moment else "-"


def lasted(began: datetime | None, until: datetime | None) -> str:
    """How long something took, in a sentence; empty when that is not known. Statuses have whole seconds."""
    if not began or not until:
        return ""
    span = until - began
    return "less than a second" if span < timedelta(seconds=1) else duration(span)


def duration(span: timedelta) -> str:
    """``59s``, ``3m20s``, ``2h``, ``5d``: as kubectl, finer while it is short."""
    return ages.duration(max(0, int(span.total_seconds())))


def size(number: int) -> str:
    """Bytes, as in ``20.5 kB``."""
    return f"{number / 1e6:.1f} MB" if number >= 100_000 else f"{number / 1e3:.1f} kB"


def short(digest: str) -> str:
    """The beginning of a digest, which tells it from others."""
    return digest[: len("sha256:") + 12]
