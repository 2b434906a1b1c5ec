"""How pictures look: a sheet measured in pixels from its upper left corner, fonts and colours of Grafana's light theme.

Neighbours: everything that draws.
"""

from dataclasses import dataclass
from typing import Final

from matplotlib import colormaps, rcParams
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch
from matplotlib.text import Text

from rendering.errors import UnknownError

DOTS: Final = 100
GROUND, CARD, EDGE, GRID = "#f4f5f5", "#ffffff", "#dfe1e5", "#ebecee"
INK, PALE = "#24292e", "#6c737c"
NAMED: Final = {
    "green": "#56a64b",
    "yellow": "#e0b400",
    "orange": "#ff780a",
    "red": "#e02f44",
    "blue": "#3274d9",
    "purple": "#a352cc",
}
PALETTE: Final = (
    *("#3274d9", "#56a64b", "#ff780a", "#e0b400", "#a352cc", "#e02f44", "#1d9aa3", "#8f3bb8", "#96d98d", "#5f4b32"),
    *("#8ab8ff", "#b877d9"),
)

SCHEMES: Final = ("Blues", "Greens")
"""Colours of heatmaps."""

rcParams["font.family"] = "DejaVu Sans"
rcParams["svg.hashsalt"] = "tf-operator"


@dataclass(frozen=True, slots=True)
class Box:
    """A part of a sheet, in pixels from its upper left corner."""

    x: float
    y: float
    width: float
    height: float

    def inside(self, *, left: float = 0, top: float = 0, right: float = 0, bottom: float = 0) -> "Box":
        """What is left after margins."""
        return Box(self.x + left, self.y + top, self.width - left - right, self.height - top - bottom)


class Sheet:
    """A picture that is being drawn."""

    def __init__(self, width: int, height: int) -> None:
        self.width = width
        self.height = height
        self.figure = Figure(figsize=(width / DOTS, height / DOTS), dpi=DOTS, facecolor=GROUND)

    def axes(self, box: Box) -> Axes:
        """A field to draw in, without anything around it."""
        bounds = (
            box.x / self.width,
            1 - (box.y + box.height) / self.height,
            box.width / self.width,
            box.height / self.height,
        )
        axes: Axes = self.figure.add_axes(bounds)
        axes.set_facecolor("none")
        for side in axes.spines.values():
            side.set_visible(False)
        axes.tick_params(length=0, labelsize=7.5, labelcolor=PALE, pad=4)
        return axes

    def card(self, box: Box) -> None:
        """The white card of a panel."""
        axes = self.axes(box)
        axes.set_axis_off()
        axes.set_xlim(0, box.width)
        axes.set_ylim(0, box.height)
        look = {"boxstyle": "round,pad=0,rounding_size=3", "facecolor": CARD, "edgecolor": EDGE, "linewidth": 0.8}
        axes.add_patch(FancyBboxPatch((0.6, 0.6), box.width - 1.2, box.height - 1.2, **look))

    def text(self, x: float, y: float, text: str, *, size: float = 8.5, colour: str = INK, **more: object) -> Text:
        """Words, whose upper left corner is there unless ``more`` says otherwise."""
        look = {"va": "top", "ha": "left", "fontsize": size, "color": colour, **more}
        return self.figure.text(x / self.width, 1 - y / self.height, text.replace("$", r"\$"), **look)

    def width_of(self, text: Text) -> float:
        """How wide words are."""
        return float(text.get_window_extent(self.figure.canvas.get_renderer()).width)

    def fit(self, text: Text, width: float) -> Text:
        """Cut words that are too wide, and show that they were cut."""
        whole = text.get_text()
        while self.width_of(text) > width and len(whole) > 1:
            whole = whole[:-1]
            text.set_text(whole.rstrip() + "…")
        return text


def colour(name: str) -> str:
    """A colour of Grafana, by its name."""
    return NAMED.get(name, name)


def heat_shades(scheme: str) -> LinearSegmentedColormap:
    """A scheme of Grafana's without its palest part, which nobody sees on white."""
    if scheme not in SCHEMES:
        raise UnknownError(f"colour scheme {scheme!r}: the renderer knows {', '.join(SCHEMES)}")
    whole = colormaps[scheme]
    return LinearSegmentedColormap.from_list(scheme, [whole(0.2 + 0.8 * part / 32) for part in range(33)])
