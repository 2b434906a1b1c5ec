"""A ConversionReview and its answer, as bytes: decoding, converting object by object, encoding.

A review is answered as a whole: one object that failed would break a list for everybody. So what no decoder can read
(JSON of some thousand levels, which the API server stores) is taken apart as far as the conversion looks, and the rest
of it is carried along as text; but for what the API server could not read in an answer, because that has more levels
than the object. Such a pod template is empty in the other version, where it is invalid, so nobody writes it back.

A review does not say whether its objects are being created or were stored long ago, and nothing that is stored may be
refused. So while the definition says that objects may be stored in older versions, nothing is. Otherwise the time of
creation tells: storage is in the newest version, so what is in an older one and has just been created is not stored.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any, Final

import msgspec

from tf_operator.dialects import served
from tf_operator.dialects.served import ConversionError
from tf_operator.machinery.clock import Clock
from tf_operator.machinery.log import Logger
from tf_operator.machinery.transport import raw_json, responses
from tf_operator.meta import Body, metadata_of, parse_time

_log = Logger(__name__)

Convert = Callable[[Body, str], dict[str, Any]]
NEW_FOR: Final = timedelta(minutes=1)
"""An object is being created if it is younger, by this clock and that of the API server."""
_API_VERSION: Final = "apiextensions.k8s.io/v1"
_KIND: Final = "ConversionReview"
_LEVELS: Final = 4
"""No conversion looks deeper into an object that no decoder can read: below are pod templates, and other people's."""
_DEEPEST: Final = 9_990
"""Levels of one piece: the API server reads and stores 10,000, and in an answer there are some around the piece."""


class ReviewError(Exception):
    """The request is no review; the message says why."""


class _Request(msgspec.Struct, rename={"desired_version": "desiredAPIVersion"}):
    uid: str
    desired_version: str
    objects: list[msgspec.Raw] = []


class _Review(msgspec.Struct):
    request: _Request


_REVIEW: Final = msgspec.json.Decoder(_Review)


def refusing_new(conversion: served.Conversion, clock: Clock, older: Callable[[], int | None]) -> Convert:
    """The conversion that refuses an object that is being created, where it would be invalid.

    ``older``: in how many older versions objects may be stored; ``None`` while that is unknown.
    """

    def refusing(body: Body, version: str) -> dict[str, Any]:
        created = parse_time(metadata_of(body).get("creationTimestamp"))
        is_new = created is None or clock.now() - created < NEW_FOR
        try:
            return conversion.convert(body, version, is_written=False if older() else is_new or None)
        except ConversionError:
            if not conversion.is_piece(body):
                raise
            return conversion.convert(body, version, is_written=False)

    return refusing


async def answer(text: bytes, convert: Convert) -> bytes:
    """The answer to a review; raises ``ReviewError``. Between two objects the loop may do something else."""
    try:
        return await _encode_answer(_read(text), convert)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ReviewError(f"the request is no {_KIND}: {error}") from None


async def _encode_answer(request: _Request, convert: Convert) -> bytes:
    version = request.desired_version.rpartition("/")[2]
    try:
        converted = [raw async for raw in _convert_objects(request, convert, version)]
        response = {"result": {"status": "Success"}, "convertedObjects": converted}
    except ConversionError as error:
        response = {"result": {"status": "Failed", "message": str(error)}, "convertedObjects": []}
    review = {"apiVersion": _API_VERSION, "kind": _KIND, "response": {"uid": request.uid} | response}
    return msgspec.json.encode(review)


async def _convert_objects(request: _Request, convert: Convert, version: str) -> AsyncIterator[msgspec.Raw]:
    """Encoded one by one, so that a large review is never held as Python objects as a whole."""
    for raw in request.objects:
        await asyncio.sleep(0)  # noqa: TID251 (no time passes)
        text = bytes(raw)
        try:
            yield _one(text, convert, version)
        except ConversionError as error:  # of a list, nobody would know which object it is
            key = responses.read_metadata(raw).key
            raise ConversionError(f"{key}: {error}" if key.name else str(error)) from None
        except (msgspec.DecodeError, UnicodeDecodeError, MemoryError):
            raise
        except Exception as error:  # noqa: BLE001 (the answer names the object; other reviews are answered)
            metadata = responses.read_metadata(raw)
            _log.exception("a conversion panicked", key=str(metadata.key), uid=metadata.uid, version=version)
            raise ConversionError(f"{metadata.key} cannot be converted: {type(error).__name__}") from None


def _one(text: bytes, convert: Convert, version: str) -> msgspec.Raw:
    try:
        return msgspec.Raw(msgspec.json.encode(convert(_object(msgspec.json.decode(text)), version)))
    except RecursionError:
        return msgspec.Raw(msgspec.json.encode(convert(_object(_taken_apart(text, _LEVELS)), version)))


def _read(text: bytes) -> _Request:
    try:
        return _REVIEW.decode(text).request
    except RecursionError:
        return _read_deep(text)


def _read_deep(text: bytes) -> _Request:
    request = raw_json.split_object(raw_json.split_object(text).get("request", b"{}"))
    return _Request(
        uid=msgspec.json.decode(request.get("uid", b""), type=str),
        desired_version=msgspec.json.decode(request.get("desiredAPIVersion", b""), type=str),
        objects=[msgspec.Raw(piece) for piece in raw_json.split_array(request.get("objects", b"[]"))],
    )


def _object(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConversionError("an object of the review is none")
    return value


def _taken_apart(text: bytes, levels: int) -> Any:  # noqa: ANN401 (any piece of JSON)
    if text.startswith(b"{") and levels:
        return {name: _taken_apart(piece, levels - 1) for name, piece in raw_json.split_object(text).items()}
    if not text.startswith((b"{", b"[")):
        return msgspec.json.decode(text)
    if raw_json.depth_of(text) > _DEEPEST:
        return {} if text.startswith(b"{") else []
    return msgspec.Raw(text)
