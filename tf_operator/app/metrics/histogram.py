"""Histograms of what happens for each request and reconcile, at a ninth of what ``prometheus_client``'s cost.

Those take a lock for each bucket and sum. These are observed on the operator's event loop alone, and a scrape, on the
thread of the HTTP server, reads numbers that are replaced as a whole. What it shows is the same.
"""

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from prometheus_client import CollectorRegistry
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString


class Observations:
    """How often an amount was up to each bound, and their sum: those of one set of labels."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * len(bounds)
        self._sum = 0.0

    def observe(self, amount: float) -> None:
        self._counts[bisect_left(self._bounds, amount)] += 1
        self._sum += amount

    def add_to(self, family: HistogramMetricFamily, labels: Sequence[str]) -> None:
        counts = zip(map(floatToGoString, self._bounds), accumulate(self._counts), strict=True)
        family.add_metric(labels, list(counts), self._sum)


class Histogram(Collector):
    """All of one name."""

    def __init__(
        self, name: str, text: str, labels: Sequence[str], *, registry: CollectorRegistry, buckets: Iterable[float]
    ) -> None:
        self._name = name
        self._text = text
        self._labels = labels
        self._bounds = (*map(float, buckets), math.inf)
        self._observations: dict[tuple[str, ...], Observations] = {}
        registry.register(self)

    def labels(self, *values: str) -> Observations:
        return self._observations.setdefault(values, Observations(self._bounds))

    def describe(self) -> Iterator[HistogramMetricFamily]:
        """What the registry asks for, so that no name is taken twice."""
        yield HistogramMetricFamily(self._name, self._text, labels=self._labels)

    def collect(self) -> Iterator[HistogramMetricFamily]:
        for family in self.describe():
            for labels, observations in tuple(self._observations.items()):
                observations.add_to(family, labels)
            yield family
