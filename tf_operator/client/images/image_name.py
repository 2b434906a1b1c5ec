"""Names of images as docker reads them: ``REGISTRY/NAME:TAG``, or without a registry those of Docker Hub."""

import re
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final

from tf_operator.client.job import NotPossible

DOCKER_HUB: Final = "docker.io"
OPERATOR_BASE: Final = "docker.io/library/python:3.13-slim-bookworm"
"""Of the operator's own image, as in the Dockerfile."""
TENSORFLOW: Final = "tensorflow/tensorflow:2.19.0"
"""For trainings; with ``-gpu`` for those on GPUs."""
_NAME: Final = re.compile(r"[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*)*")
_REGISTRY: Final = re.compile(r"(?:\[[0-9a-fA-F:]+\]|[a-zA-Z0-9]+(?:[.-]+[a-zA-Z0-9]+)*)(?::[0-9]{1,5})?")
_TAG: Final = re.compile(r"\w[\w.-]{0,127}", re.ASCII)
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class ImageName:
    """A name that is whole: with a registry, and with a tag or a digest."""

    registry: str
    """Host, perhaps with a port."""
    repository: str
    version: str
    """A digest, or else a tag."""

    def __str__(self) -> str:
        return f"{self.registry}/{self.repository}{'@' if self.is_digest else ':'}{self.version}"

    @property
    def is_digest(self) -> bool:
        return ":" in self.version

    def at(self, digest: str) -> "ImageName":
        """The image with this digest in the same repository."""
        return ImageName(self.registry, self.repository, digest)


def parse(text: str) -> ImageName:
    """Raises ``NotPossible`` for what is not the name of an image."""
    rest, at, digest = text.partition("@")
    first, slash, path = rest.partition("/")
    has_registry = bool(slash) and (first == "localhost" or bool(set(first) & set(".:[")))
    registry, path = (first, path) if has_registry else (DOCKER_HUB, rest)
    name, _, tag = path.partition(":")
    if registry in {"index.docker.io", "registry-1.docker.io"}:
        registry = DOCKER_HUB
    if registry == DOCKER_HUB and "/" not in name:
        name = f"library/{name}"
    version = digest if at else tag or "latest"
    problem = _problem(registry, name, path, version, is_digest=bool(at))
    if problem:
        raise NotPossible(f"{text!r} is not the name of an image: {problem}")
    return ImageName(registry, name, version)


def parse_target(text: str) -> ImageName:
    """The name of an image to be pushed, which says where to and as what; raises ``NotPossible``."""
    target = parse(text)
    if target.is_digest:
        raise NotPossible(f"{text!r} has a digest, which follows from the content: name a tag instead")
    if ":" not in text.rpartition("/")[2]:
        raise NotPossible(f"{text!r} has no tag: name one, as in {text}:1")
    return target


def _problem(registry: str, name: str, path: str, version: str, *, is_digest: bool) -> str:
    if not _REGISTRY.fullmatch(registry):
        return f"{registry!r} is not the address of a registry"
    if not _NAME.fullmatch(name):
        return "it has small letters, digits, and single dots, dashes and slashes between them"
    if path.endswith(":"):
        return "the tag is empty"
    if not (_DIGEST if is_digest else _TAG).fullmatch(version):
        return f"{version!r} is no digest" if is_digest else f"{version!r} is no tag"
    return ""


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, where nobody listens in and HTTP may be spoken."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
