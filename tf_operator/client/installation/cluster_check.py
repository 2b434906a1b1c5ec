"""What an installation would write and remove in a cluster; refused before the first write where it could not be done.

Each object is applied once as a dry run, with which the API server checks rights, schemas and admission. Where the
namespace is not there yet, it is asked for the rights alone.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from tf_operator.client import changes
from tf_operator.client.installation import objects, ownership
from tf_operator.client.installation.objects import NAMESPACES, OWNER, OWNER_LABEL, Json, Values
from tf_operator.client.job import NotPossible
from tf_operator.machinery.transport import discovery, errors, requests
from tf_operator.machinery.transport.client import ApiClient
from tf_operator.machinery.transport.requests import EVERYWHERE, Request, Resource, Scope
from tf_operator.meta import Body, ObjectKey, key_of, mapping_of, metadata_of, resource_version_of, uid_of

_REVIEWS: Final = Resource(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", is_namespaced=False
)
_APPLY_PATCH: Final = "application/apply-patch+yaml"
_NOTHING: Final = "nothing was changed"


@dataclass(frozen=True, slots=True)
class InstallationPlan:
    """What is to be written and removed, in this order."""

    applied: Sequence[Json]
    removed: Sequence[Body]
    """Our objects that are no part of the installation any more."""
    versions: dict[tuple[str, ObjectKey], str]
    """Of the objects that are there already, by ``version_of``."""


async def plan(client: ApiClient, values: Values, crd: Body) -> InstallationPlan:
    """Raises ``NotPossible``, or an ``ApiError``, if it cannot be installed. Nothing is written."""
    parts = objects.make_objects(values, crd)
    try:
        await _check_release(client)
        present = [body for it in parts if (body := await read(client, objects.resource_of(it), key_of(it)))]
        deployments = (await changes.list_all(client, objects.DEPLOYMENTS, EVERYWHERE)).items
        for obstacle in ownership.obstacles(values, parts, present, deployments):
            raise NotPossible(f"{_NOTHING}: {obstacle}")
        by_identity = {objects.identity_of(body): body for body in present}
        namespace = by_identity.get(("Namespace", ObjectKey("", values.namespace)))
        await _check_namespaces(client, values, namespace)
        if namespace is not None and not ownership.is_ours(namespace):
            parts = [body for body in parts if body["kind"] != "Namespace"]
        for body in parts:
            await _try(client, body, is_namespace_missing=namespace is None and _place(body) == values.namespace)
        removed = ownership.surplus(await list_ours(client), parts)
        await check_removal(client, removed)
    except errors.Forbidden as error:
        raise NotPossible(f"{_NOTHING}, because you lack permissions to install the operator: {error}") from error
    return InstallationPlan(parts, removed, {identity: version_of(body) for identity, body in by_identity.items()})


async def read(client: ApiClient, resource: Resource, key: ObjectKey) -> Json | None:
    """An object, or ``None`` where there is none."""
    try:
        return dict(await client.get(resource, key))
    except errors.NotFound:
        return None


def version_of(body: Body) -> str:
    """What differs after a change; a change of the status is none."""
    return str(metadata_of(body).get("generation") or resource_version_of(body))


async def list_ours(client: ApiClient) -> list[Body]:
    """All that ``tfjob install`` has made in the cluster."""
    scope = Scope(label_selector=f"{OWNER_LABEL}={OWNER}")
    bodies: list[Body] = []
    for kind, resource in objects.RESOURCES.items():
        items = (await changes.list_all(client, resource, scope)).items
        bodies += [{**item, "kind": kind, "apiVersion": resource.api_version} for item in items]
    return [body for body in bodies if ownership.is_ours(body)]


async def check_removal(client: ApiClient, bodies: Iterable[Body]) -> None:
    """Raise an ``ApiError`` if one of them could not be deleted."""
    for body in bodies:
        with suppress(errors.NotFound):
            resource, key = objects.resource_of(body), key_of(body)
            await client.send(requests.delete(resource, key, uid=uid_of(body), is_dry_run=True))


def make_apply(body: Body, *, is_dry_run: bool = False) -> Request:
    """By force: other managers of fields of our objects lose them, as in an upgrade by Helm."""
    query = {"fieldManager": ownership.FIELD_MANAGER, "force": "true", "fieldValidation": "Strict"}
    path = requests.path_of(objects.resource_of(body), key_of(body))
    query |= {"dryRun": "All"} if is_dry_run else {}
    return Request("patch", "PATCH", path, query, body=msgspec.json.encode(body), content_type=_APPLY_PATCH)


async def _check_release(client: ApiClient) -> None:
    release = await discovery.release(client)
    numbers = _number(release.get("major")), _number(release.get("minor"))
    oldest = objects.oldest_release()
    if numbers < oldest:
        raise NotPossible(
            f"{_NOTHING}: this is Kubernetes {numbers[0]}.{numbers[1]}, and the operator needs"
            f" {oldest[0]}.{oldest[1]} or newer"
        )


async def _check_namespaces(client: ApiClient, values: Values, namespace: Body | None) -> None:
    if namespace is not None and metadata_of(namespace).get("deletionTimestamp"):
        raise NotPossible(f"{_NOTHING}: namespace {values.namespace} is being deleted; try again when it is gone")
    for name in values.job_namespaces:
        if name != values.namespace and await read(client, NAMESPACES, ObjectKey("", name)) is None:
            raise NotPossible(f"{_NOTHING}: there is no namespace {name}, in which jobs are to be served")


async def _try(client: ApiClient, body: Json, *, is_namespace_missing: bool) -> None:
    if is_namespace_missing:
        await _check_rights(client, objects.resource_of(body), _place(body))
        return
    try:
        await client.send(make_apply(body, is_dry_run=True))
    except errors.Refused as error:
        if isinstance(error, errors.Forbidden | errors.Unauthorized | errors.ServerFailed | errors.Throttled):
            raise
        is_crd = body["kind"] == "CustomResourceDefinition"
        step = "; tf-operator crd --apply says what to do" if is_crd else ""
        raise NotPossible(f"{_NOTHING}: the API server does not take {objects.name_of(body)}: {error}{step}") from error


async def _check_rights(client: ApiClient, resource: Resource, namespace: str) -> None:
    for verb in ("create", "patch"):
        attributes = {"namespace": namespace, "verb": verb, "group": resource.group, "resource": resource.plural}
        reply = await client.create(_REVIEWS, "", {"spec": {"resourceAttributes": attributes}})
        if mapping_of(reply.get("status")).get("allowed") is not True:
            permission = f"{verb} {resource} in namespace {namespace}"
            raise NotPossible(f"{_NOTHING}, because you lack permissions to install the operator: {permission}")


def _place(body: Body) -> str:
    return key_of(body).namespace


def _number(text: Any) -> int:  # noqa: ANN401 (it is whatever the server says)
    """The number of a release, of which some clouds write ``36+``."""
    digits = str(text).rstrip("+")
    return int(digits) if digits.isascii() and digits.isdigit() else 0
