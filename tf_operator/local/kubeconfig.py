"""The kubeconfig of the local server: where it is, what it proves itself with, and the token that it knows."""

import base64
import json

CONTEXT = "tfjob-local"


def text(address: str, *, authority: bytes, token: str, namespace: str = "default") -> str:
    """A kubeconfig with everything in it, so that it works wherever it is copied to. JSON is YAML."""
    cluster = {"server": address, "certificate-authority-data": base64.b64encode(authority).decode()}
    context = {"cluster": CONTEXT, "user": CONTEXT, "namespace": namespace}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": CONTEXT, "cluster": cluster}],
        "contexts": [{"name": CONTEXT, "context": context}],
        "current-context": CONTEXT,
        "users": [{"name": CONTEXT, "user": {"token": token}}],
    }
    return json.dumps(content, indent=2) + "\n"
