"""Watches: each informer has its series, which begin with 0."""

import pytest

from tf_operator.app.metrics.watches import ReflectorMetrics, WatchFamilies

PODS = {"informer": "pods"}


@pytest.fixture
def pods(registry):
    return ReflectorMetrics(WatchFamilies(registry), informer="pods")


def test_what_happens_to_a_watch_is_counted_from_zero(registry, pods):
    names = {
        "watch_starts_total": PODS,
        "watch_ends_total": {"cause": "closed", **PODS},
        "informer_relists_total": {"cause": "asked", **PODS},  # once in the life of a replica, so from zero
        "informer_decode_errors_total": PODS,
        "informer_handler_errors_total": PODS,
    }

    def values():
        return [registry.get_sample_value(f"tf_operator_{name}", labels) for name, labels in names.items()]

    assert values() == [0] * 5
    pods.watching()
    pods.watch_ended("closed")
    pods.relisted("asked")
    pods.undecodable()
    pods.handler_failed()

    assert values() == [1] * 5


def test_a_list_is_measured_by_objects_and_duration(registry, pods):
    pods.listed(1000, 1.5)

    assert registry.get_sample_value("tf_operator_informer_listed_objects", PODS) == 1000
    assert registry.get_sample_value("tf_operator_informer_list_duration_seconds_sum", PODS) == 1.5
