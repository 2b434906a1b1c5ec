"""ConfigMaps and Secrets: keys, encoding, size, immutability."""

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from tf_operator.local.apiserver.forms import go_base64
from tf_operator.local.apiserver.kinds import Json
from tf_operator.local.apiserver.messages import ApiFailure, FieldCause
from tf_operator.local.apiserver.validation import causes, names
from tf_operator.meta import Body

_LARGEST: Final = 1024 * 1024
_IMMUTABLE: Final = "field is immutable when `immutable` is set"


def prepare_secret(body: Json, old: Body | None, _: datetime) -> None:
    """Fill a Secret. ``stringData`` is write-only: it becomes ``data``."""
    body["type"] = body.get("type") or (old or {}).get("type") or "Opaque"
    texts = body.pop("stringData", None) or {}
    if texts:
        data = {key: go_base64.encode(str(text).encode()) for key, text in texts.items()}
        body["data"] = (body.get("data") or {}) | data
    _decode(body, "Secret", "data")


def prepare_config_map(body: Json, _: Body | None, __: datetime) -> None:
    _decode(body, "ConfigMap", "binaryData")


def _decode(body: Json, kind: str, field: str) -> None:
    """Each value as Go writes what it has read; raises ``ApiFailure`` if it is not base64."""
    for key, value in (body.get(field) or {}).items():
        if not isinstance(value, str):
            problem = f"json: cannot unmarshal number into Go struct field {kind}.{field} of type []uint8"
            raise _undecodable(kind, problem)
        try:
            body[field][key] = go_base64.encode(go_base64.decode(value))
        except go_base64.CorruptInputError as error:
            raise _undecodable(kind, error) from None


def _undecodable(kind: str, problem: object) -> ApiFailure:
    return ApiFailure(400, "BadRequest", f'{kind} in version "v1" cannot be handled as a {kind}: {problem}')


def check(body: Body, old: Body | None) -> Iterator[FieldCause]:
    data, binary = body.get("data") or {}, body.get("binaryData") or {}
    size = sum(len(str(text).encode(errors="surrogatepass")) for text in data.values()) + sum(
        map(_decoded_size, binary.values())
    )
    yield from _check_data(body, old, size)


def _decoded_size(text: str) -> int:
    """Bytes of a value that was encoded here, and so has no line ends."""
    return len(text) // 4 * 3 - text.count("=")


def _check_data(body: Body, old: Body | None, size: int) -> Iterator[FieldCause]:
    data, binary = body.get("data") or {}, body.get("binaryData") or {}
    for field, keys in (("data", data), ("binaryData", binary)):
        for key in keys:
            for problem in names.config_key(key):
                yield causes.invalid(f"{field}[{key}]", key, problem)
    for key in data.keys() & binary.keys():
        yield causes.invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
    if size > _LARGEST:
        yield causes.too_long("data", _LARGEST)
    if old is not None and old.get("immutable"):
        yield from _check_unchanged(body, old)


def _check_unchanged(body: Body, old: Body) -> Iterator[FieldCause]:
    if not body.get("immutable"):
        yield causes.forbidden("immutable", _IMMUTABLE)
    for field in ("data", "binaryData"):
        if (body.get(field) or {}) != (old.get(field) or {}):
            yield causes.forbidden(field, _IMMUTABLE)


def check_secret(body: Body, old: Body | None) -> Iterator[FieldCause]:
    if old is not None and body["type"] != old.get("type"):
        yield causes.invalid("type", body["type"], "field is immutable")
    yield from _check_data(body, old, sum(map(_decoded_size, (body.get("data") or {}).values())))
