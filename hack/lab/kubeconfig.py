"""The part of a kubeconfig that tests use: the server, its authority, a bearer token."""

import json
import ssl
from base64 import b64decode, b64encode
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import yaml

from lab import Json


@dataclass(frozen=True, slots=True)
class Access:
    """Where an apiserver is and as whom to speak to it."""

    server: str
    token: str
    authority: str
    """PEM text of the authority that signed the server's certificate."""

    def trust(self) -> ssl.SSLContext:
        return ssl.create_default_context(cadata=self.authority)


def access_from(kubeconfig: Path) -> Access:
    """Read the current context of a kubeconfig that has a bearer token and an authority."""
    config = yaml.safe_load(kubeconfig.read_text())
    context = _named(config["contexts"], config["current-context"])["context"]
    cluster = _named(config["clusters"], context["cluster"])["cluster"]
    user = _named(config["users"], context["user"])["user"]
    authority = b64decode(cluster["certificate-authority-data"]).decode()
    return Access(cluster["server"].rstrip("/"), user["token"], authority)


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


def _named(entries: Iterable[Json], name: str) -> Json:
    return next(entry for entry in entries if entry["name"] == name)
