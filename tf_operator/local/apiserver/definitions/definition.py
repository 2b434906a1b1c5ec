"""The kind of CustomResourceDefinitions: their defaults, and what is wrong with one."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from tf_operator.local.apiserver.definitions import columns, custom_kinds, json_path, schema_checks
from tf_operator.local.apiserver.kinds import Column, Json, Kind
from tf_operator.local.apiserver.messages import FieldCause
from tf_operator.local.apiserver.validation import causes, names, object_meta
from tf_operator.local.apiserver.validation.built_in_fields import BuiltInFields
from tf_operator.meta import Body, GroupVersionResource, metadata_of, rfc3339, text_of

RESOURCE: Final = GroupVersionResource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", is_namespaced=False
)
_FIELDS: Final = BuiltInFields(RESOURCE)
_SCOPES: Final = ("Cluster", "Namespaced")


def kind() -> Kind:
    """The kind of the definitions themselves."""
    return Kind(
        RESOURCE,
        "customresourcedefinition",
        ("crd", "crds"),
        categories=("api-extensions",),
        subresources=frozenset({"status"}),
        has_generation=True,
        prepare=_prepare,
        unknown_fields=_FIELDS.unknown,
        validate=_validate,
        columns=(Column("Created At", "date", lambda body, _: text_of(metadata_of(body), "creationTimestamp")),),
        has_age_column=False,
        merge_keys={"metadata.ownerReferences": "uid", "metadata.finalizers": "", "status.conditions": "type"},
        defines=custom_kinds.defined,
    )


def _prepare(body: Json, old: Body | None, now: datetime) -> Json:
    object_meta.decode(body["metadata"])
    _FIELDS.decode(body)
    spec = body["spec"] = body.get("spec") or {}
    spec_names = spec["names"] = spec.get("names") or {}
    if spec_names.get("kind"):
        spec_names.setdefault("singular", spec_names["kind"].lower())
        spec_names.setdefault("listKind", f"{spec_names['kind']}List")
    spec.setdefault("conversion", {"strategy": "None"})
    status = body.get("status") or {}
    if old is None or not status.get("conditions"):
        status["conditions"] = [
            _condition("NamesAccepted", "NoConflicts", "no conflicts found", now),
            _condition("Established", "InitialNamesAccepted", "the initial names have been accepted", now),
        ]
    storage = [version.get("name") for version in spec.get("versions") or () if version.get("storage")]
    status["acceptedNames"] = spec_names
    status["storedVersions"] = list(dict.fromkeys([*status.get("storedVersions", ()), *storage]))
    return body | {"status": status}


def _condition(name: str, reason: str, message: str, now: datetime) -> Json:
    when = {"lastTransitionTime": rfc3339(now)}
    return {"type": name, "status": "True", **when, "reason": reason, "message": message}


def _validate(body: Body, old: Body | None) -> tuple[FieldCause, ...]:
    return (*object_meta.check(body["metadata"], is_built_in=True), *_check(body["spec"], body, old))


def _check(spec: Body, body: Body, old: Body | None) -> Iterator[FieldCause]:
    plural, group, scope = spec["names"].get("plural", ""), spec.get("group", ""), spec.get("scope", "")
    if body["metadata"].get("name") != f"{plural}.{group}":
        yield causes.invalid("metadata.name", body["metadata"].get("name"), 'must be spec.names.plural+"."+spec.group')
    names = {"spec.group": group, "spec.names.plural": plural, "spec.names.kind": spec["names"].get("kind")}
    yield from (causes.required(field) for field, value in names.items() if not value)
    if scope not in _SCOPES:
        yield causes.not_supported("spec.scope", scope, _SCOPES)
    versions = spec.get("versions") or ()
    if sum(version.get("storage") is True for version in versions) != 1:
        yield causes.invalid("spec.versions", versions, "must have exactly one version marked as storage version")
    for index, version in enumerate(versions):
        yield from _check_version(version, f"spec.versions[{index}]", is_only=len(versions) == 1)
    yield from _check_stored_versions(body.get("status") or {}, {version.get("name") for version in versions})
    old_spec: Body = spec if old is None else old["spec"]
    for name in ("group", "scope"):
        if spec.get(name) != old_spec.get(name):
            yield causes.invalid(f"spec.{name}", spec.get(name), "field is immutable")


def _check_stored_versions(status: Body, names: set[Any]) -> Iterator[FieldCause]:
    if not status.get("storedVersions"):
        yield causes.invalid("status.storedVersions", None, "must have at least one stored version")
    for index, name in enumerate(status.get("storedVersions", ())):
        if name not in names:
            detail = (
                f"missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions"
                f" until a storage migration ensures no data remains persisted in {name} and removes {name} from"
                " status.storedVersions"
            )
            yield causes.invalid(f"status.storedVersions[{index}]", name, detail)


def _check_version(version: Body, path: str, *, is_only: bool) -> Iterator[FieldCause]:
    name = version.get("name", "")
    for problem in names.label_1035(name):
        yield causes.invalid(f"{path}.name", name, problem)
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    if schema:
        place = "spec.validation" if is_only else f"{path}.schema"
        yield from schema_checks.check(schema, f"{place}.openAPIV3Schema")
    else:
        yield causes.required(f"{path}.schema.openAPIV3Schema")
    for index, column in enumerate(version.get("additionalPrinterColumns") or ()):
        place = f"{path}.additionalPrinterColumns[{index}]"
        if not column.get("name"):
            yield causes.required(f"{place}.name")
        if column.get("type") not in columns.CELLS:
            yield causes.not_supported(f"{place}.type", column.get("type", ""), sorted(columns.CELLS))
        yield from _check_path(column, place)
    for index, entry in enumerate(version.get("selectableFields") or ()):
        yield from _check_path(entry, f"{path}.selectableFields[{index}]")


def _check_path(entry: Body, path: str) -> Iterator[FieldCause]:
    text = entry.get("jsonPath", "")
    if not text:
        yield causes.required(f"{path}.jsonPath")
    try:
        json_path.compiled(text)
    except json_path.PathError as error:
        yield causes.invalid(f"{path}.jsonPath", text, str(error))
