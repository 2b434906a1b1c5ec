"""What is aimed at, and the table that says how far it has been reached.

A target is about a figure of ours, or about its ratio to the floor's figure of the same run (in the part ``kinds``
of an operator that serves all kinds to one that serves TFJobs alone): only ratios outlive the
machine that they were measured on. Times and CPU are to be at most so much, speeds at least.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from contenders import ALL_KINDS, FLOOR, OPERATOR
from takeover import LEASE_SECONDS

Figures = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Row:
    """One figure of one part; without a target it is only told."""

    part: str
    figure: str
    unit: str
    most: float | None = None
    most_of_floor: float | None = None
    least_of_floor: float | None = None

    @property
    def target(self) -> str:
        """In words."""
        if self.most is not None:
            return f"at most {self.most:g}"
        if self.most_of_floor is not None:
            return f"at most {self.most_of_floor:g}x"
        return f"at least {self.least_of_floor:g}x" if self.least_of_floor is not None else ""

    def is_met(self, ours: float, ratio: float | None) -> bool | None:
        """Whether the target is met; ``None`` where there is none, or nothing to compare with."""
        if self.most is not None:
            return ours <= self.most
        if ratio is None or (self.most_of_floor is None and self.least_of_floor is None):
            return None
        return ratio <= self.most_of_floor if self.most_of_floor is not None else ratio >= (self.least_of_floor or 0)


ROWS = (
    Row("many", "jobs a second", "", least_of_floor=0.9),
    Row("many", "writes", "a job", most=14),
    Row("many", "requests", "a job"),
    Row("many", "CPU per job", "ms", most_of_floor=1.8),
    Row("many", "peak", "MB"),
    Row("many-one-service", "jobs a second", "", least_of_floor=0.9),
    Row("many-one-service", "writes", "a job", most=11),
    Row("many-one-service", "requests", "a job"),
    Row("many-one-service", "CPU per job", "ms", most_of_floor=1.8),
    Row("many-one-service", "peak", "MB"),
    Row("kinds", "writes", "a job", most_of_floor=1.0),
    Row("kinds", "requests", "a job", most_of_floor=1.03),
    Row("kinds", "CPU per job", "ms", most_of_floor=1.03),
    Row("kinds", "resident", "MB", most_of_floor=1.03),
    Row("large", "to Running", "s", most_of_floor=1.15),
    Row("large", "to Succeeded", "s", most_of_floor=1.15),
    Row("large", "writes", ""),
    Row("large", "CPU", "s", most_of_floor=2.0),
    Row("large", "peak", "MB", most=120),
    Row("large-one-service", "to Running", "s", most_of_floor=1.15),
    Row("large-one-service", "to Succeeded", "s", most_of_floor=1.15),
    Row("large-one-service", "writes", ""),
    Row("large-one-service", "CPU", "s", most_of_floor=2.0),
    Row("large-one-service", "peak", "MB", most=120),
    Row("pods", "to Running", "s", most_of_floor=1.15),
    Row("pods", "CPU", "s"),
    Row("pods", "resident", "MB", most=120),
    Row("pods", "peak", "MB", most=150),
    Row("pods", "quiet writes", "in 30 s", most=0),
    Row("pods", "quiet CPU", "% of a core", most=1),
    Row("pods100k", "to Running", "s"),
    Row("pods100k", "CPU", "s"),
    Row("pods100k", "resident", "MB", most=220),
    Row("pods100k", "peak", "MB"),
    Row("pods100k", "quiet writes", "in 30 s", most=0),
    Row("pods100k", "quiet CPU", "% of a core", most=1),
    Row("takeover", "after SIGTERM", "s", most=3),
    Row("takeover", "after SIGKILL", "s", most=LEASE_SECONDS + 4),
)


def judged(results: Mapping[str, Mapping[str, Figures]]) -> list[dict[str, object]]:
    """For each row that was measured: our figure, the floor's, their ratio, the target, whether it is met."""
    rows = []
    for row in ROWS:
        who, beside = (ALL_KINDS, OPERATOR) if row.part == "kinds" else (OPERATOR, FLOOR)
        ours = results.get(row.part, {}).get(who, {}).get(row.figure)
        floor = results.get(row.part, {}).get(beside, {}).get(row.figure)
        if ours is None:
            continue
        ratio = ours / floor if floor else None
        entry = {"part": row.part, "figure": row.figure, "unit": row.unit, "ours": ours, "floor": floor}
        rows.append(entry | {"ratio": ratio, "target": row.target, "met": row.is_met(ours, ratio)})
    return rows


def table(rows: list[dict[str, object]]) -> str:
    """The rows for people."""
    lines = [f"{'':18}{'':16}{'':12}{'ours':>10}{'floor':>10}{'ratio':>8}  target"]
    for row in rows:
        figures = "".join(_number(row[name], width) for name, width in (("ours", 10), ("floor", 10), ("ratio", 8)))
        verdict = {True: "met", False: "MISSED", None: ""}[row["met"]]
        lines.append(
            f"{row['part']:18}{row['figure']:16}{row['unit']:12}{figures}  {row['target']:16}{verdict}".rstrip()
        )
    return "\n".join(lines)


def _number(value: object, width: int) -> str:
    return f"{value:{width}.2f}" if isinstance(value, float | int) else " " * width
