"""The buckets of a Prometheus histogram, made into what a heatmap shows. Pure; neighbour: ``heat``, which draws it."""

from collections.abc import Sequence

from rendering.answers import Line
from rendering.prometheus import Span


def own_counts(lines: Sequence[Line], span: Span) -> tuple[list[float], list[list[float]]]:
    """The upper bounds of the buckets, and what each has of its own: Prometheus' buckets include the lower ones."""
    by_bound = {float(line.series.labels["le"]): line for line in lines if "le" in line.series.labels}
    edges = sorted(by_bound)
    steps = range(round(span.seconds / span.step) + 1)
    below: list[float] = [0.0 for _ in steps]
    cells = []
    for edge in edges:
        known = {round((at - span.start) / span.step): value for at, value in by_bound[edge].series.points}
        upto = [known.get(step, 0.0) for step in steps]
        cells.append([max(0.0, value - before) for value, before in zip(upto, below, strict=True)])
        below = upto
    return edges, cells


def worth_showing(cells: Sequence[Sequence[float]]) -> tuple[int, int]:
    """From the first to the last bucket that ever had anything, and one more on each side."""
    used = [index for index, row in enumerate(cells) if max(row) > 0.001] or [0, min(4, len(cells) - 1)]
    return max(0, used[0] - 1), min(len(cells) - 1, used[-1] + 1)
