"""Writing what is installed of the alerts: ``hack/generate rules``.

``outputs.py`` turns ``manifests/monitoring/alerts.yaml`` into the chart's copy and into the PrometheusRule of
``manifests/overlays/monitoring``. What an alert says, and when it fires, is written in the source alone.
"""
