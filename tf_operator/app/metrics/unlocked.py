"""Metrics of what happens for each request and reconcile, at a ninth of what those of ``prometheus_client`` cost.

Those take a lock for each number. These change on the operator's event loop alone, and a scrape, on the thread of the
HTTP server, reads numbers that are replaced as a whole. What it shows is the same.
"""

import math
from abc import abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, Generic, Protocol, TypeVar

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

F = TypeVar("F", bound=Metric)
F_contra = TypeVar("F_contra", bound=Metric, contravariant=True)
S = TypeVar("S", bound="Series[Any]")


class Series(Protocol[F_contra]):
    """What is measured under one set of labels."""

    def add_to(self, family: F_contra, labels: Sequence[str]) -> None:
        """Show it."""


class _Family(Collector, Generic[S, F]):
    """All of one name."""

    def __init__(
        self, name: str, text: str, labels: Sequence[str], *, registry: CollectorRegistry, make: Callable[[], S]
    ) -> None:
        self._name = name
        self._text = text
        self._labels = labels
        self._make = make
        self._series: dict[tuple[str, ...], S] = {}
        registry.register(self)

    def labels(self, *values: str) -> S:
        if values not in self._series:
            self._series[values] = self._make()
        return self._series[values]

    @abstractmethod
    def describe(self) -> Iterator[F]:
        """What the registry asks for, so that no name is taken twice."""

    def collect(self) -> Iterator[F]:
        for family in self.describe():
            for labels, series in tuple(self._series.items()):
                series.add_to(family, labels)
            yield family


class Number:
    __slots__ = ("_value",)

    def __init__(self) -> None:
        self._value = 0.0

    def inc(self, amount: float = 1) -> None:
        self._value += amount

    def dec(self) -> None:
        self._value -= 1

    def set(self, value: float) -> None:
        self._value = value

    def add_to(self, family: CounterMetricFamily | GaugeMetricFamily, labels: Sequence[str]) -> None:
        family.add_metric(labels, self._value)


class Counter(_Family[Number, CounterMetricFamily]):
    def __init__(self, name: str, text: str, labels: Sequence[str], *, registry: CollectorRegistry) -> None:
        super().__init__(name, text, labels, registry=registry, make=Number)

    def describe(self) -> Iterator[CounterMetricFamily]:
        yield CounterMetricFamily(self._name, self._text, labels=self._labels)


class Gauge(_Family[Number, GaugeMetricFamily]):
    def __init__(self, name: str, text: str, labels: Sequence[str], *, registry: CollectorRegistry) -> None:
        super().__init__(name, text, labels, registry=registry, make=Number)

    def describe(self) -> Iterator[GaugeMetricFamily]:
        yield GaugeMetricFamily(self._name, self._text, labels=self._labels)


class Observations:
    """How often an amount was up to each bound, and their sum."""

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


class Histogram(_Family[Observations, HistogramMetricFamily]):
    def __init__(
        self, name: str, text: str, labels: Sequence[str], *, registry: CollectorRegistry, buckets: Iterable[float]
    ) -> None:
        bounds = (*map(float, buckets), math.inf)
        super().__init__(name, text, labels, registry=registry, make=lambda: Observations(bounds))

    def describe(self) -> Iterator[HistogramMetricFamily]:
        yield HistogramMetricFamily(self._name, self._text, labels=self._labels)
