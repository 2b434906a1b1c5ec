"""Our metrics, beside those of ``prometheus_client``."""

import prometheus_client
import pytest
from prometheus_client import CollectorRegistry, generate_latest, openmetrics

from tf_operator.app.metrics import unlocked
from tf_operator.app.metrics.unlocked import Histogram

AMOUNTS = [0.0, 0.004, 0.005, 0.0051, 1.0, 1.5, 60, 61, 1e9, 0]


WRITTEN = pytest.mark.parametrize("written", [generate_latest, openmetrics.exposition.generate_latest])


@pytest.fixture(autouse=True)
def _without_times_of_creation():
    prometheus_client.disable_created_metrics()  # as ``Metrics`` does


@WRITTEN
def test_a_scrape_shows_histograms_as_the_library_would(written):
    texts = []
    for kind in (prometheus_client.Histogram, Histogram):
        registry = CollectorRegistry()
        seconds = kind("reply_seconds", "Time to a reply.", ("verb", "host"), registry=registry, buckets=(0.005, 1, 60))
        seconds.labels("GET", "a")
        for amount in AMOUNTS:
            seconds.labels("PUT", 'a "b"').observe(amount)
        texts.append(written(registry))

    assert texts[0] == texts[1]
    assert b'le="60.0",verb="PUT"} 8.0' in texts[1]


@WRITTEN
def test_a_scrape_shows_counters_and_gauges_as_the_library_would(written):
    texts = []
    for module in (prometheus_client, unlocked):
        registry = CollectorRegistry()
        calls = module.Counter("calls_total", "Calls.", ("code", "host"), registry=registry)
        calls.labels("200", "a")
        calls.labels("<error>", 'a "b"').inc()
        calls.labels("<error>", 'a "b"').inc()
        busy = module.Gauge("busy", "Workers.", ("name",), registry=registry).labels("a")
        busy.inc()
        busy.inc()
        busy.dec()
        module.Gauge("depth", "Keys.", ("name",), registry=registry).labels("a").set(7.5)
        module.Counter("unused", "Never.", ("name",), registry=registry)
        texts.append(written(registry))

    assert texts[0] == texts[1]
    assert b'calls_total{code="<error>",host="a \\"b\\""} 2.0' in texts[1]


def test_no_two_histograms_have_the_same_name():
    registry = CollectorRegistry()
    Histogram("seconds", "Time.", (), registry=registry, buckets=(1,))

    with pytest.raises(ValueError, match="Duplicated"):
        Histogram("seconds", "Time.", (), registry=registry, buckets=(1,))
