"""Draws boxes and arrows as SVG: the pictures of docs/concepts, readable in dark and light, with their text as text."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

STYLE: Final = """\
  .ground { fill: #ffffff; } .box { fill: #eef1fb; stroke: #4a5ab5; } .store { fill: #fdf3e1; stroke: #a86b00; }
  .bad { fill: #fdeaea; stroke: #b3261e; } .good { fill: #e8f5e9; stroke: #2e7d32; }
  text { fill: #1c1c28; font: 14px system-ui, sans-serif; text-anchor: middle; }
  .title { font-weight: 600; } .label { font-size: 12px; } .code { font: 12px ui-monospace, monospace; }
  line { stroke: #4b4b5a; stroke-width: 1.5; marker-end: url(#head); } #head path { fill: #4b4b5a; }
  @media (prefers-color-scheme: dark) {
    .ground { fill: #1e2129; } .box { fill: #2c3350; stroke: #8c9eff; } .store { fill: #40341f; stroke: #ffb74d; }
    .bad { fill: #47272a; stroke: #ef9a9a; } .good { fill: #24402a; stroke: #81c784; }
    text { fill: #eceef5; } line { stroke: #c3c7d6; } #head path { fill: #c3c7d6; }
  }
"""
LINE: Final = 18


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle around its middle: a title, and lines of text below it; a title alone may be empty."""

    x: int
    y: int
    width: int
    title: str
    lines: Sequence[str] = ()
    look: str = "box"
    text: str = ""
    """The class of the lines: ``code``, or none."""

    @property
    def height(self) -> int:
        """As much as the text needs."""
        return LINE * (len(self.lines) + bool(self.title)) + 16

    def svg(self) -> str:
        """The rectangle and its text."""
        top = self.y - self.height // 2
        shape = f'<rect class="{self.look}" x="{self.x - self.width // 2}" y="{top}" width="{self.width}" '
        rows = [(self.title, "title")] * bool(self.title) + [(line, self.text) for line in self.lines]
        texts = (_text(self.x, top + 21 + LINE * at, row, look) for at, (row, look) in enumerate(rows))
        return f'{shape}height="{self.height}" rx="6"/>' + "".join(texts)


@dataclass(frozen=True, slots=True)
class Arrow:
    """From one point to another, with a text beside its middle."""

    start: tuple[int, int]
    end: tuple[int, int]
    label: str = ""
    shift: tuple[int, int] = (0, -8)

    def svg(self) -> str:
        """The line and its text."""
        (x1, y1), (x2, y2), (dx, dy) = self.start, self.end, self.shift
        line = f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"/>'
        return line + (_text((x1 + x2) // 2 + dx, (y1 + y2) // 2 + dy, self.label, "label") if self.label else "")


def _text(x: int, y: int, text: str, look: str) -> str:
    return f'<text x="{x}" y="{y}"{f" class={chr(34)}{look}{chr(34)}" if look else ""}>{escape(text)}</text>'


def draw(title: str, height: int, *parts: Box | Arrow) -> str:
    """The picture, 760 points wide; whoever does not see it hears the title."""
    head = '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 {height}" role="img">',
            "<!-- written by hack/generate pictures -->",
            f"<title>{escape(title)}</title>",
            f"<style>\n{STYLE}</style>",
            f'<defs>{head}<path d="M0 0 L8 4 L0 8 z"/></marker></defs>',
            f'<rect class="ground" width="760" height="{height}" rx="8"/>',
            *(part.svg() for part in parts),
            "</svg>\n",
        )
    )
