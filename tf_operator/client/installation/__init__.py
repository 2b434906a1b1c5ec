"""The operator in a cluster, installed and removed without Helm and kubectl: ``tfjob install``.

``objects`` makes what is applied from ``objects.json``, which hack/generate writes from manifests/; ``ownership`` says
which objects of a cluster are this installation's, and what is in its way; both are pure. ``cluster_check`` refuses
before the first write, ``installer`` writes, and ``readiness`` waits. Decided in
docs/adr/0040-installation-without-helm.md.
"""
