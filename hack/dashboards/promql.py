"""Queries in PromQL, written in one way everywhere.

A ``Source`` knows which series a dashboard is about, so that no query can forget it. Rates are taken over
``$__rate_interval``, which Grafana makes long enough for the scrape interval; numbers for all of the time shown over
``$__range``. Neighbours: ``overview``, ``job`` and ``internals`` ask; ``panels`` shows.
"""

from dataclasses import dataclass
from typing import Final

RATE: Final = "$__rate_interval"
RANGE: Final = "$__range"


@dataclass(frozen=True, slots=True)
class Source:
    """Series that have certain labels; ``where`` of a query adds to them."""

    labels: str

    def series(self, metric: str, where: str = "") -> str:
        return f"{metric}{{{', '.join(filter(None, (self.labels, where)))}}}"

    def rate(self, metric: str, *, by: str = "", where: str = "") -> str:
        return total(f"rate({self.series(metric, where)}[{RATE}])", by=by)

    def a_minute(self, metric: str, *, by: str = "", where: str = "") -> str:
        """Events a minute: of what is rarer than once a second."""
        return f"60 * {self.rate(metric, by=by, where=where)}"

    def count(self, metric: str, *, by: str = "", where: str = "") -> str:
        """Events in the whole range, as a whole number: an increase between two scrapes is an estimate."""
        return f"round({total(f'increase({self.series(metric, where)}[{RANGE}])', by=by)})"

    def quantile(self, of: float, metric: str, *, by: str = "", where: str = "", over: str = RATE) -> str:
        """A quantile of a histogram."""
        grouped = f"le, {by}" if by else "le"
        buckets = total(f"rate({self.series(f'{metric}_bucket', where)}[{over}])", by=grouped)
        return f"histogram_quantile({of}, {buckets})"

    def buckets(self, metric: str, *, where: str = "") -> str:
        """The events of each step by bucket, for a heatmap."""
        return total(f"increase({self.series(f'{metric}_bucket', where)}[{RATE}])", by="le")

    def highest_rate(self, metric: str) -> str:
        """Events a second that every replica counts, so that their sum would count each several times."""
        return f"max(rate({self.series(metric)}[{RATE}]))"

    def highest(self, metric: str, *, by: str = "", where: str = "") -> str:
        return f"max by ({by}) ({self.series(metric, where)})" if by else f"max({self.series(metric, where)})"


def total(query: str, *, by: str = "") -> str:
    """The sum of what a query finds, by labels or of all."""
    return f"sum by ({by}) ({query})" if by else f"sum({query})"


def or_zero(query: str, *, by: str = "") -> str:
    """Zero where a query finds nothing at all, because nothing of the kind has happened yet."""
    nothing = f'label_replace(vector(0), "{by}", "none", "", "")' if by else "vector(0)"
    return f"({query}) or on () {nothing}"
