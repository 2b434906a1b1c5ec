"""Validation of a manifest, as the API server and the operator do it: the job, all errors, all warnings.

The errors come from the dialect, which reads the job; from ``job.validation``, whose rules are those of the CRD in CEL;
from the CRD's schema; and from what the API server checks in the metadata and in the pods. An error is reported once.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from tf_operator.client.manifests import object_meta, pod_template, schema
from tf_operator.dialects import registry
from tf_operator.dialects.served import ConversionError, ServedAPI
from tf_operator.job.training_job import FieldError, TrainingJob
from tf_operator.local.apiserver.validation.schemas import Schema
from tf_operator.meta import Body, metadata_of, text_of
from tf_operator.planning import spec_problems

NO_UID: Final = "00000000-0000-0000-0000-000000000000"
"""Stands for the UID of a job that no cluster has seen yet."""
_GENERATED_SUFFIX: Final = "xxxxx"


@dataclass(frozen=True, slots=True)
class Validation:
    """The job as if it were new, and the errors and warnings about its manifest."""

    job: TrainingJob
    errors: tuple[FieldError, ...]
    warnings: tuple[FieldError, ...]


def is_job(body: Body) -> bool:
    """Whether the object is a job, of any API that is served and of any version."""
    return bool(registry.of_kind(text_of(body, "kind")))


def check(body: Body, *, namespace: str = "", domain: str = "") -> Validation:
    """Validate a manifest; ``namespace`` is where the job goes if it does not say so itself."""
    api = registry.api_of(body)
    if api is None:
        allowed = " or ".join(repr(api.profile.api_version) for api in registry.of_kind(text_of(body, "kind")))
        return _unreadable(FieldError("apiVersion", f"must be {allowed}, is {text_of(body, 'apiVersion')!r}"))
    warnings = list(_warnings(body, api))
    try:
        body = api.in_own_version(body)
    except ConversionError as error:
        return _unreadable(FieldError("metadata", str(error)))
    fresh = as_new(schema.without_nulls(body, _schema(api)), namespace or "default")
    job = api.read_object(fresh)
    findings = schema.check(fresh, _schema(api))
    errors = (*_wrong_namespace(body, namespace), *spec_problems.of_new(job, domain))
    more = findings.errors or list(_server_checks(fresh, job))
    return Validation(job, (*errors, *_not_reported_yet(more, errors)), (*warnings, *findings.warnings))


def _unreadable(error: FieldError) -> Validation:
    return Validation(registry.DEFAULT.read({}, None, None), (error,), ())


def as_new(body: Body, namespace: str) -> dict[str, Any]:
    """The object as it would be created: without what a cluster has written into it."""
    metadata = {name: value for name, value in metadata_of(body).items() if name != "deletionTimestamp"}
    if not metadata.get("name") and metadata.get("generateName"):
        metadata["name"] = f"{metadata['generateName']}{_GENERATED_SUFFIX}"
    metadata["namespace"] = metadata.get("namespace") or namespace
    metadata["uid"] = metadata.get("uid") or NO_UID
    return {name: value for name, value in body.items() if name != "status"} | {"metadata": metadata}


def _wrong_namespace(body: Body, namespace: str) -> Iterator[FieldError]:
    """The namespace must be that of the command line, as for kubectl."""
    own = text_of(metadata_of(body), "namespace")
    if namespace and own and own != namespace:
        yield FieldError("metadata.namespace", f"is {own!r}, and --namespace says {namespace!r}")


def _server_checks(body: Body, job: TrainingJob) -> Iterator[FieldError]:
    """What the API server refuses in an object that keeps the schema, or later in its pods."""
    yield from object_meta.check(body["metadata"], "metadata")
    for spec in job.replicas:
        yield from pod_template.check(spec.template, f"{spec.path}.template")


def _warnings(body: Body, api: ServedAPI) -> Iterator[FieldError]:
    if text_of(body, "apiVersion") != api.resource.api_version:
        rule = f"is read as {api.resource.api_version}, as 'tfjob convert' rewrites it; fields are named as there"
        yield FieldError("apiVersion", rule)
    metadata = metadata_of(body)
    if metadata.get("generateName") and not metadata.get("name"):
        rule = f"the cluster will choose the end of the name; {_GENERATED_SUFFIX} stands for it"
        yield FieldError("metadata.generateName", rule)


def _not_reported_yet(errors: list[FieldError], reported: tuple[FieldError, ...]) -> Iterator[FieldError]:
    fields = {error.field.lower() for error in reported}  # a type of replica may be written in any letter case
    return (error for error in errors if error.field.lower() not in fields)


@cache
def _schema(api: ServedAPI) -> Schema:
    versions = api.crd.load()["spec"]["versions"]
    root: Mapping[str, Any] = next(
        version["schema"]["openAPIV3Schema"] for version in versions if version["name"] == api.resource.version
    )
    properties = root["properties"] | {"metadata": object_meta.SCHEMA}
    return {**root, "properties": properties}
