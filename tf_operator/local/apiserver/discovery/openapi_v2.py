"""OpenAPI v2, as far as ``kubectl`` needs it: which kinds exist, and that the server itself validates their fields.

It reads this before it applies a List, and for a kind that it does not know. It wants protobuf, the messages of
``openapiv2/OpenAPIv2.proto`` of github.com/google/gnostic-models; there is JSON for everybody else. Schemas are left
out: who wants them finds them in OpenAPI v3.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from tf_operator.local.apiserver.kinds import Json, Kind
from tf_operator.local.apiserver.messages import Response

PATH: Final = "/openapi/v2"
_ASKED_FOR: Final = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
_PROTOBUF: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_SWAGGER: Final = "2.0"
_INFO: Final = {"title": "Kubernetes", "version": "embedded"}
_OF_KIND: Final = "x-kubernetes-group-version-kind"
_PARAMETERS: Final = ("dryRun", "fieldManager", "fieldValidation")
_QUERY: Final = [{"in": "query", "name": name, "type": "string", "uniqueItems": True} for name in _PARAMETERS]


def answer(kinds: Iterable[Kind], accept: str) -> Response:
    patchable = [kind for kind in kinds if kind.answer is None and kind.read is None]
    if _ASKED_FOR in accept:
        return Response(200, _encoded(patchable), _PROTOBUF)
    paths = {_path(kind): {"patch": _operation(kind)} for kind in patchable}
    return Response.of({"swagger": _SWAGGER, "info": _INFO, "paths": paths})


def _path(kind: Kind) -> str:
    resource = kind.resource
    root = f"/{'apis' if resource.group else 'api'}/{resource.api_version}"
    place = f"{root}/namespaces/{{namespace}}" if resource.is_namespaced else root
    return f"{place}/{resource.plural}/{{name}}"


def _group_version_kind(kind: Kind) -> dict[str, str]:
    return {"group": kind.resource.group, "kind": kind.resource.kind, "version": kind.resource.version}


def _operation(kind: Kind) -> Json:
    return {"parameters": _QUERY, "responses": {"200": {"description": "OK"}}, _OF_KIND: _group_version_kind(kind)}


def _encoded(kinds: Iterable[Kind]) -> bytes:
    query = b"".join(_message(8, _parameter(name)) for name in _PARAMETERS)
    info = _text(1, _INFO["title"]) + _text(2, _INFO["version"])
    paths = b"".join(_message(2, _text(1, _path(kind)) + _message(2, _patch(kind, query))) for kind in kinds)
    return _text(1, _SWAGGER) + _message(2, info) + _message(8, paths)


def _patch(kind: Kind, query: bytes) -> bytes:
    response = _message(1, _text(1, "200") + _message(2, _message(1, _text(1, "OK"))))
    of_kind = _text(1, _OF_KIND) + _message(2, _text(2, msgspec.json.encode(_group_version_kind(kind)).decode()))
    return _message(8, query + _message(9, response) + _message(13, of_kind))


def _parameter(name: str) -> bytes:
    fields = _text(2, "query") + _text(4, name) + _text(6, "string")
    return _message(1, _message(2, _message(3, fields)))


def _text(number: int, text: str) -> bytes:
    return _message(number, text.encode())


def _message(number: int, content: bytes) -> bytes:
    return bytes([*_varint(number << 3 | 2), *_varint(len(content))]) + content


def _varint(number: int) -> Iterator[int]:
    while number > 0x7F:
        yield number & 0x7F | 0x80
        number >>= 7
    yield number
