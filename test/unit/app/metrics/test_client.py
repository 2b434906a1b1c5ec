"""Requests, by client-go's names: the verb there is the HTTP method."""

import pytest

from tf_operator.app.metrics.client import ClientFamilies, ClientMetrics


@pytest.fixture
def client(registry):
    return ClientMetrics(ClientFamilies(registry), host="https://10.0.0.1:443")


@pytest.mark.parametrize(
    ("verb", "method"),
    [
        ("get", "GET"),
        ("list", "GET"),
        ("watch", "GET"),
        ("create", "POST"),
        ("patch", "PATCH"),
        ("delete", "DELETE"),
        ("deletecollection", "DELETE"),
    ],
)
def test_a_reply_is_counted_by_code_method_and_host(registry, client, verb, method):
    client.replied(verb, "200", 0.25)

    host = {"host": "10.0.0.1:443"}
    total = {"code": "200", "method": method, **host}
    assert registry.get_sample_value("rest_client_requests_total", total) == 1
    assert registry.get_sample_value("rest_client_request_duration_seconds_sum", {"verb": method, **host}) == 0.25


def test_waiting_for_the_own_limit_and_repeating_are_counted(registry, client):
    labels = {"verb": "PUT", "host": "10.0.0.1:443"}
    client.throttled("update", 2.0)
    client.retried("update", "Throttled")

    assert registry.get_sample_value("rest_client_rate_limiter_duration_seconds_sum", labels) == 2
    assert registry.get_sample_value("rest_client_request_retries_total", {"code": "Throttled", **labels}) == 1
