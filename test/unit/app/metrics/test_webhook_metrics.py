"""The webhook: whether it answers, and who needs that."""

from tf_operator.app.metrics.webhook import WebhookMetrics


def test_readiness_and_stored_versions_are_shown(registry):
    metrics, outage = WebhookMetrics(registry), ["no certificate"]
    metrics.read_outage_by(lambda: outage[0])
    assert registry.get_sample_value("tf_operator_webhook_ready") == 0

    outage[0] = ""
    metrics.stored("tfjobs.kubeflow.org", 2)
    assert registry.get_sample_value("tf_operator_webhook_ready") == 1
    assert registry.get_sample_value("tf_operator_webhook_older_stored_versions", {"crd": "tfjobs.kubeflow.org"}) == 2
