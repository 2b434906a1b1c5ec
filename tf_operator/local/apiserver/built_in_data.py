"""ConfigMaps and Secrets: keys, encoding, size, immutability."""

import base64
import binascii
import string
from collections.abc import Iterator
from datetime import datetime
from typing import Final

from tf_operator.local.apiserver import causes, names
from tf_operator.local.apiserver.kinds import Json
from tf_operator.local.apiserver.messages import ApiFailure, FieldCause
from tf_operator.meta import Body

_BASE64: Final = frozenset(string.ascii_letters + string.digits + "+/=")
_LARGEST: Final = 1024 * 1024
_IMMUTABLE: Final = "field is immutable when `immutable` is set"


def prepare_secret(body: Json, stored: Body | None, _: datetime) -> None:
    """Fill a Secret. ``stringData`` is write-only: it becomes ``data``."""
    body["type"] = body.get("type") or (stored or {}).get("type") or "Opaque"
    texts = body.pop("stringData", None) or {}
    if texts:
        encoded = {key: base64.b64encode(str(text).encode()).decode() for key, text in texts.items()}
        body["data"] = (body.get("data") or {}) | encoded
    for value in (body.get("data") or {}).values():
        try:
            base64.b64decode(value or "", validate=True)
        except (binascii.Error, TypeError, ValueError):
            place = next((n for n, letter in enumerate(str(value)) if letter not in _BASE64), len(str(value)))
            message = f'Secret in version "v1" cannot be handled as a Secret: illegal base64 data at input byte {place}'
            raise ApiFailure(400, "BadRequest", message) from None


def check(body: Body, stored: Body | None) -> Iterator[FieldCause]:
    """What is wrong with a ConfigMap, and with the data of a Secret."""
    data, binary = body.get("data") or {}, body.get("binaryData") or {}
    for field, keys in (("data", data), ("binaryData", binary)):
        for key in keys:
            for problem in names.config_key(key):
                yield causes.invalid(f"{field}[{key}]", key, problem)
    for key in data.keys() & binary.keys():
        yield causes.invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
    if sum(len(str(value)) for value in (*data.values(), *binary.values())) > _LARGEST:
        yield causes.too_long("data", _LARGEST)
    if stored is not None and stored.get("immutable"):
        yield from _check_unchanged(body, stored)


def _check_unchanged(body: Body, stored: Body) -> Iterator[FieldCause]:
    if not body.get("immutable"):
        yield causes.forbidden("immutable", _IMMUTABLE)
    for field in ("data", "binaryData"):
        if (body.get(field) or {}) != (stored.get(field) or {}):
            yield causes.forbidden(field, _IMMUTABLE)


def check_secret(body: Body, stored: Body | None) -> Iterator[FieldCause]:
    """What is wrong with a Secret."""
    if stored is not None and body["type"] != stored.get("type"):
        yield causes.invalid("type", body["type"], "field is immutable")
    yield from check(body, stored)
