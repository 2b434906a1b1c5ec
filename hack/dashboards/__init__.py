"""The Grafana dashboards: ``hack/generate dashboards``.

``overview.yaml``, ``job.yaml`` and ``internals.yaml`` say what is on each dashboard, and read from top to bottom like
it. ``panels.py`` has the kinds of panels, ``frame.py`` what surrounds them: variables, links, layout. ``files.py``
makes of them what is in charts/tf-operator/dashboards, from where the chart and the kustomize overlay take them.

Grafana's own library makes the JSON, so it follows Grafana's schema. Nothing here is part of what users install.
"""
