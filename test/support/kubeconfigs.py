"""What tests read of a kubeconfig."""

from base64 import b64decode
from collections.abc import Iterable
from pathlib import Path

import yaml

from lab import Json
from lab.kubeconfig import Access


def access_from(kubeconfig: Path) -> Access:
    """Read the current context of a kubeconfig that has a bearer token and an authority."""
    config = yaml.safe_load(kubeconfig.read_text())
    context = _named(config["contexts"], config["current-context"])["context"]
    cluster = _named(config["clusters"], context["cluster"])["cluster"]
    user = _named(config["users"], context["user"])["user"]
    authority = b64decode(cluster["certificate-authority-data"]).decode()
    return Access(cluster["server"].rstrip("/"), user["token"], authority)


def _named(entries: Iterable[Json], name: str) -> Json:
    return next(entry for entry in entries if entry["name"] == name)
