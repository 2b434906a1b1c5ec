"""What the server says about itself: discovery, OpenAPI, its version."""

from collections.abc import Iterable

from tf_operator.local.apiserver import discovery, openapi
from tf_operator.local.apiserver.kinds import Kind
from tf_operator.local.apiserver.messages import JSON, Response
from tf_operator.machinery.transport.requests import Request


def answer(request: Request, kinds: Iterable[Kind]) -> Response | None:
    """The answer to a request for a document; ``None`` if there is none at its path."""
    if request.method != "GET":
        return None
    path, known, aggregated = request.path.rstrip("/"), tuple(kinds), discovery.aggregated_version(request.accept)
    if path == "/version":
        return Response.of(discovery.version())
    found = openapi.document(path, known) if path.startswith("/openapi/") else None
    if found is None:
        found = discovery.document(path, known, aggregated)
    if found is None:
        return None
    response = Response.of(found)
    if found.get("kind") == "APIGroupDiscoveryList":
        kind = f"{JSON};g=apidiscovery.k8s.io;v={aggregated};as=APIGroupDiscoveryList"
        return Response(200, response.body, kind)
    return response
