"""Writing what is generated in the Helm chart: what ``hack/update-chart`` and ``hack/verify-chart`` are made of.

``outputs.py`` turns manifests/crd and manifests/rbac into templates, so that the chart and ``kubectl apply`` install
the same CRD and the same rights; ``readme.py`` has helm-docs write the chart's README from values.yaml; ``command.py``
is the two scripts. Everything else in the chart is written by hand.

Nothing here is part of what users install; PyYAML, which the comparison needs, comes with the venv.
"""
