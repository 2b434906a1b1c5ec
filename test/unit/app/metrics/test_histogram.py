"""Our histograms, beside those of ``prometheus_client``."""

import prometheus_client
import pytest
from prometheus_client import CollectorRegistry, generate_latest, openmetrics

from tf_operator.app.metrics.histogram import Histogram

AMOUNTS = [0.0, 0.004, 0.005, 0.0051, 1.0, 1.5, 60, 61, 1e9, 0]


@pytest.mark.parametrize("written", [generate_latest, openmetrics.exposition.generate_latest])
def test_a_scrape_shows_what_the_library_would_show(written):
    prometheus_client.disable_created_metrics()  # as ``Metrics`` does
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


def test_no_two_histograms_have_the_same_name():
    registry = CollectorRegistry()
    Histogram("seconds", "Time.", (), registry=registry, buckets=(1,))

    with pytest.raises(ValueError, match="Duplicated"):
        Histogram("seconds", "Time.", (), registry=registry, buckets=(1,))
