"""Writing what is installed of the alerts: what ``hack/update-rules`` and ``hack/verify-rules`` are made of.

``outputs.py`` turns ``manifests/monitoring/rules.yaml`` into the chart's copy and into the PrometheusRule of
``manifests/overlays/monitoring``; ``command.py`` is the two scripts, and has promtool look at the source first. What
an alert says, and when it fires, is written in the source alone.
"""
