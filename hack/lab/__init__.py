"""The laboratory: real Kubernetes on one machine, for tests, trials and demonstrations.

``tools`` gets the programs; ``control_plane`` runs etcd and kube-apiserver; ``cluster`` adds nodes that run pods.
Nothing here knows what a training job is, and nothing here imports tests: tests import this.
"""

from typing import Any

Json = dict[str, Any]
"""A JSON object, as a client writes it or a server sends it."""
