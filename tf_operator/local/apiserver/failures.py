"""The errors that a request can end in, in the words of kube-apiserver."""

from collections.abc import Iterable
from typing import Any

from tf_operator.local.apiserver.kinds import Kind
from tf_operator.local.apiserver.messages import ApiFailure, FieldCause

STALE = "the object has been modified; please apply your changes to the latest version and try again"
LONGEST_BODY = 3 * 1024 * 1024


def _about(kind: Kind, name: str, causes: Iterable[FieldCause] = ()) -> dict[str, Any]:
    details = {"name": name, "group": kind.resource.group, "kind": kind.resource.plural}
    entries = [{"reason": cause.reason, "message": cause.message, "field": cause.field} for cause in causes]
    return {field: value for field, value in details.items() if value} | ({"causes": entries} if entries else {})


def no_such_path() -> ApiFailure:
    """404 of a resource, not of an object."""
    return ApiFailure(404, "NotFound", "the server could not find the requested resource", details={})


def not_found(kind: Kind, name: str) -> ApiFailure:
    return ApiFailure(404, "NotFound", f'{kind.resource} "{name}" not found', details=_about(kind, name))


def already_exists(kind: Kind, name: str, *, is_terminating: bool) -> ApiFailure:
    message = f'{"object is being deleted: " if is_terminating else ""}{kind.resource} "{name}" already exists'
    return ApiFailure(409, "AlreadyExists", message, details=_about(kind, name))


def conflict(kind: Kind, name: str, reason: str = STALE) -> ApiFailure:
    """409: the object is not what the request took it for."""
    message = f'Operation cannot be fulfilled on {kind.resource} "{name}": {reason}'
    return ApiFailure(409, "Conflict", message, details=_about(kind, name))


def precondition_failed(kind: Kind, name: str, reason: str) -> ApiFailure:
    """409 of a deletion. The real server names the kind, not the resource."""
    message = f'Operation cannot be fulfilled on {_qualified_name(kind)} "{name}": {reason}'
    return ApiFailure(409, "Conflict", message, details={**_about(kind, name), "kind": kind.resource.kind})


def invalid(kind: Kind, name: str, causes: Iterable[FieldCause]) -> ApiFailure:
    """422: with each cause once."""
    distinct = tuple(dict.fromkeys(causes))
    resource = kind.resource
    details = {"name": name, "group": resource.group, "kind": resource.kind}
    return _invalid(_qualified_name(kind), name, details, distinct)


def _qualified_name(kind: Kind) -> str:
    resource = kind.resource
    return f"{resource.kind}.{resource.group}" if resource.group else resource.kind


def other_kind(kind: Kind, name: str, kind_name: str) -> ApiFailure:
    """422 of a custom resource that says that it is another."""
    group = kind.resource.group
    cause = FieldCause("kind", "FieldValueInvalid", f'Invalid value: "{kind_name}": must be {kind.resource.kind}')
    return _invalid(f"{kind_name}.{group}", name, {"name": name, "group": group, "kind": kind_name}, (cause,))


def invalid_options(kind: str, causes: Iterable[FieldCause], *, group: str = "meta.k8s.io") -> ApiFailure:
    """422 of the query or of the options in a body."""
    return _invalid(f"{kind}.{group}", "", {"group": group, "kind": kind}, tuple(causes))


def _invalid(kind_name: str, name: str, details: dict[str, str], causes: tuple[FieldCause, ...]) -> ApiFailure:
    texts = [str(cause) for cause in causes]
    text = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    entries = [{"reason": cause.reason, "message": cause.message, "field": cause.field} for cause in causes]
    fields = {field: value for field, value in details.items() if value}
    return ApiFailure(422, "Invalid", f'{kind_name} "{name}" is invalid: {text}', details={**fields, "causes": entries})


def bad_request(message: str) -> ApiFailure:
    return ApiFailure(400, "BadRequest", message)


def forbidden(kind: Kind, name: str, reason: str, *, causes: Iterable[FieldCause] = ()) -> ApiFailure:
    subject = f'{kind.resource} "{name}"' if name else str(kind.resource)
    return ApiFailure(403, "Forbidden", f"{subject} is forbidden: {reason}", details=_about(kind, name, causes))


def method_not_allowed(kind: Kind | None = None, verb: str = "") -> ApiFailure:
    """405; with a verb for custom resources."""
    if kind is not None and kind.is_custom and verb:
        message = f'{verb} is not supported on resources of kind "{kind.resource}"'
        return ApiFailure(405, "MethodNotAllowed", message, details=_about(kind, ""))
    return ApiFailure(
        405, "MethodNotAllowed", "the server does not allow this method on the requested resource", details={}
    )


def not_served(subresource: str) -> ApiFailure:
    """405 of what takes a node in a cluster."""
    way_out = "programs run on this machine, as processes of its user: see tfjob exec; a cluster (--context) serves it"
    return ApiFailure(405, "MethodNotAllowed", f"{subresource} of pods is not served here: {way_out}")


def unsupported_media_type(media_types: Iterable[str]) -> ApiFailure:
    message = "the body of the request was in an unknown format - accepted media types include: "
    return ApiFailure(415, "UnsupportedMediaType", message + ", ".join(media_types))


def not_acceptable(media_types: Iterable[str], *, is_known: bool) -> ApiFailure:
    """406: of an answer. The real server words it in another way if it knows the media type."""
    names = ", ".join(media_types)
    if is_known:
        return ApiFailure(406, "NotAcceptable", f"only the following media types are accepted: {names}")
    message = f"406: Not Acceptable\n\nAvailable representations: {names}"
    return ApiFailure(406, "NotAcceptable", message, details={})


def unparsable_version(text: str, *, field: str = "") -> ApiFailure:
    """500 without a reason, as the real server answers a get or a watch."""
    message = f'strconv.ParseUint: parsing "{text}": invalid syntax'
    return ApiFailure(500, "", f'{field}: Invalid value: "{text}": {message}' if field else message)


def changed_kind() -> ApiFailure:
    return ApiFailure(422, "Invalid", "a patch cannot change what an object is: kind and apiVersion stay")


def too_large() -> ApiFailure:
    message = f"Request entity too large: limit is {LONGEST_BODY}"
    return ApiFailure(413, "RequestEntityTooLarge", message)


def expired(message: str) -> ApiFailure:
    """410: the version is no longer kept."""
    return ApiFailure(410, "Expired", message)


def gone(message: str) -> ApiFailure:
    """410: it was there."""
    return ApiFailure(410, "Gone", message)


def too_old(version: int, floor: int) -> ApiFailure:
    return expired(f"too old resource version: {version} ({floor})")


def not_yet(version: int, current: int) -> ApiFailure:
    """504: the version is still to come."""
    message = f"Too large resource version: {version}, current: {current}"
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    return ApiFailure(504, "Timeout", message, details={"causes": [cause], "retryAfterSeconds": 1})


def no_namespace(kind: Kind, namespace: str, name: str, *, is_new: bool) -> ApiFailure:
    """500 of a namespace whose name would lead elsewhere in the storage, as the real server words it."""
    if is_new:
        return internal(f"invalid resource name \"{namespace}\": [may not be '{namespace}']")
    resource = kind.resource
    place = "/".join(filter(None, ["", resource.group if kind.is_custom else "", resource.plural, namespace, name]))
    return ApiFailure(500, "", f'invalid key: "/{place}"')


def internal(reason: str) -> ApiFailure:
    return ApiFailure(
        500, "InternalError", f"Internal error occurred: {reason}", details={"causes": [{"message": reason}]}
    )


def version_required(kind: Kind, name: str) -> ApiFailure:
    """422: an update that does not say which version it replaces. The real server names the resource, not the kind."""
    resource = kind.resource
    cause = FieldCause(
        "metadata.resourceVersion", "FieldValueInvalid", "Invalid value: 0: must be specified for an update"
    )
    return _invalid(str(resource), name, {"name": name, "group": resource.group, "kind": resource.plural}, (cause,))


def strict(kind: Kind, problems: Iterable[str]) -> ApiFailure:
    """400: fields that the kind does not have, when the request wants to know."""
    kind_name, version = kind.resource.kind, kind.resource.version
    reason = f"strict decoding error: {', '.join(problems)}"
    return bad_request(f'{kind_name} in version "{version}" cannot be handled as a {kind_name}: {reason}')
