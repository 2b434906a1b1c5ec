"""What the server says about itself: discovery, OpenAPI, its version; and about all that it does not serve."""

from typing import Final

from tf_operator.local.apiserver import failures
from tf_operator.local.apiserver.discovery import groups, openapi, openapi_v2
from tf_operator.local.apiserver.forms import media_types
from tf_operator.local.apiserver.kinds import Json
from tf_operator.local.apiserver.messages import JSON, PROTOBUF, YAML, Response
from tf_operator.local.apiserver.registry import Registry
from tf_operator.machinery.transport.requests import Request

_NO_PAGE: Final = Response(404, b"404 page not found\n", "text/plain; charset=utf-8")


def answer(request: Request, registry: Registry) -> Response:
    """The document at a path that names no resource, or that there is none; raises ``ApiFailure``."""
    path, version = request.path.rstrip("/"), groups.aggregated_version(request.accept)
    if path == openapi_v2.PATH and request.method == "GET":
        return openapi_v2.answer(registry, request.accept)
    document = _document(path, registry, version)
    is_built_in = _is_built_in(path, registry)
    if document is None:
        if is_built_in:
            raise failures.no_such_path()
        return _NO_PAGE
    # The real server answers the paths of groups, and all of custom resources, whatever the method is.
    if request.method != "GET" and is_built_in:
        raise failures.method_not_allowed()
    if "openapi" not in path:
        _check_accepted(path, request.accept)
    response = Response.of(document)
    if document.get("kind") == "APIGroupDiscoveryList":
        kind = f"{JSON};g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
        return Response(200, response.body, kind)
    return response


def _check_accepted(path: str, header: str) -> None:
    """406 for who accepts only what a document has no form of, as a table."""
    entries = media_types.accepted(header)
    if path == "/version":
        if all(entry.name != JSON for entry in entries):
            raise failures.not_acceptable((JSON,), is_known=False)
    elif not {"", "APIGroupDiscoveryList"} & {entry.parameters.get("as", "") for entry in entries}:
        raise failures.not_acceptable((JSON, YAML, PROTOBUF), is_known=bool(entries) or path == "/apis")


def _document(path: str, registry: Registry, version: str) -> Json | None:
    if path == "/version":
        return groups.version()
    kinds = tuple(registry)
    schema_document = openapi.document(path, kinds) if path.startswith("/openapi/") else None
    return groups.document(path, kinds, version) if schema_document is None else schema_document


def _is_built_in(path: str, registry: Registry) -> bool:
    """Whether it is a path of what the server has without definitions: of resources, or its version."""
    root, *rest = path.strip("/").split("/")
    return root in {"api", "version"} or (root == "apis" and len(rest) > 1 and registry.is_built_in(rest[0]))
