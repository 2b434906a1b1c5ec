"""Writing the CustomResourceDefinition of TFJob: ``hack/generate crd``.

Start at ``definition.py``: it turns the source, ``kubeflow.yaml``, into the CRD. What it puts in for the pod template
comes from ``pod_template.py``, which translates the API server's own description of pods; ``core.py`` keeps the part
of that description that is needed, in ``core-v1.json``. ``reference.py`` writes the tables of docs/api.md from the same
source. ``outputs.py`` lists the files that follow from it.

Nothing here is part of what users install; PyYAML, which it needs, comes with the venv.
"""
