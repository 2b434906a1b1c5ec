"""What the server answers, as values; what it is asked is ``machinery.transport.requests.Request``.

An error is an ``ApiFailure`` inside the package, and a Status outside of it.
"""

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"


@dataclass(frozen=True, slots=True)
class FieldCause:
    """One entry of ``details.causes``: what is wrong with which field."""

    field: str
    reason: str
    """``FieldValueInvalid``, ``FieldValueRequired``, ``FieldValueNotSupported``, ``FieldValueForbidden`` ..."""
    message: str
    """As the real server words it, without the field in front."""

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


class ApiFailure(Exception):
    """A request that ends in a Status other than success."""

    def __init__(self, code: int, reason: str, message: str, *, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.details = None if details is None else dict(details)
        self.meta: dict[str, Any] = {}
        """The Status's ``metadata``: the token that goes on after one has expired."""

    def status(self) -> dict[str, Any]:
        status = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.meta,
            "status": "Failure",
            "message": str(self),
        }
        return (
            status
            | ({"reason": self.reason} if self.reason else {})
            | ({} if self.details is None else {"details": self.details})
            | {"code": self.code}
        )


class Response(msgspec.Struct, frozen=True):
    code: int
    body: bytes
    content_type: str = JSON
    headers: Mapping[str, str] = {}
    """Beside the content type: ``Warning``, ``Retry-After`` ..."""
    content: Mapping[str, Any] | None = None
    """What the body says, if it was made for this answer: it may still be sent in another form."""

    @classmethod
    def of(cls, body: Mapping[str, Any], code: int = 200) -> "Response":
        return cls(code, msgspec.json.encode(body), content=body)


Parts = Generator[None, None, Response]
"""A reply that takes long: each ``next`` does a part of the work, and the end has the reply."""
