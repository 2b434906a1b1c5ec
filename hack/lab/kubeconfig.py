"""A kubeconfig with what tests use: the server, its authority, a bearer token. ``support.kubeconfigs`` reads it."""

import json
import ssl
from base64 import b64encode
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Access:
    """Where an apiserver is and as whom to speak to it."""

    server: str
    token: str
    authority: str
    """PEM text of the authority that signed the server's certificate."""

    def trust(self) -> ssl.SSLContext:
        return ssl.create_default_context(cadata=self.authority)


def write(path: Path, access: Access, *, user: str) -> None:
    """Write a kubeconfig as JSON, which is YAML too; it embeds everything, so it can be copied anywhere."""
    authority = b64encode(access.authority.encode()).decode()
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "plane", "cluster": {"server": access.server, "certificate-authority-data": authority}}],
        "users": [{"name": user, "user": {"token": access.token}}],
        "contexts": [{"name": user, "context": {"cluster": "plane", "user": user}}],
        "current-context": user,
    }
    path.touch(mode=0o600)
    path.write_text(json.dumps(config, indent=1))
