"""Manifests, good and bad, as the real server takes them: the job by its CRD, and the pod of its template.

A user's job is validated strictly; an unknown field of a pod, which the operator creates, is only dropped.
"""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from support.jobs import manifest_cases
from support.jobs.manifest_cases import Case
from tf_operator.dialects import registry
from tf_operator.local.apiserver.built_in import catalog
from tf_operator.local.apiserver.definitions import custom_kinds
from tf_operator.local.apiserver.kinds import Kind
from tf_operator.local.apiserver.messages import ApiFailure, FieldCause

NOW = datetime(2026, 1, 1, tzinfo=UTC)
KINDS = {kind.resource.kind: kind for kind in (*catalog.KINDS, *custom_kinds.defined(registry.DEFAULT.crd.load()))}
TEMPLATE = "spec.tfReplicaSpecs.Worker.template"


def _causes(kind: Kind, body: dict[str, Any], *, is_strict: bool = False) -> Iterator[FieldCause]:
    assert kind.prepare is not None
    assert kind.validate is not None
    try:
        for text in kind.unknown_fields(body) if kind.unknown_fields and is_strict else ():
            yield FieldCause(text.removeprefix("unknown field ").strip('"'), "", text)
        yield from kind.validate(kind.prepare({"metadata": {}} | body, None, NOW), None)
    except ApiFailure as failure:
        yield FieldCause("metadata.labels" if "metadata" in str(failure) else "spec", failure.reason, str(failure))


def _refusals(text: str) -> list[str]:
    """The fields that are refused, of the first job or of the pod of its workers."""
    body, _ = json.JSONDecoder().raw_decode(text)
    fields = [_place(cause) for cause in _causes(KINDS["TFJob"], body, is_strict=True)]
    worker = body.get("spec", {}).get("tfReplicaSpecs", {}).get("Worker")
    if fields or not worker:
        return fields
    template = worker["template"]
    metadata = {"name": "p", "namespace": "n"} | template["metadata"] if template.get("metadata") else {"name": "p"}
    pod = {"metadata": metadata, "spec": template["spec"]}
    return [
        f"{TEMPLATE}.{field}" for cause in _causes(KINDS["Pod"], pod) if (field := _place(cause)) not in ("", "<nil>")
    ]


def _place(cause: FieldCause) -> str:
    """The field, with dots only; the real server says in the text alone where a number is too large."""
    field = cause.message.rpartition(" in ")[2] if cause.message.count("Checked value must be") else cause.field
    field = field.replace("ownerReferences.", "ownerReferences[0].")  # the real server does not say which
    return re.sub(r"\[([^\]\d][^\]]*)\]", r".\1", field)


@pytest.mark.parametrize("case", manifest_cases.GOOD, ids=lambda case: case.name)
def test_a_good_manifest_is_accepted(case: Case) -> None:
    assert _refusals(case.text) == []


@pytest.mark.parametrize("case", manifest_cases.BAD, ids=lambda case: case.name)
def test_a_bad_manifest_is_refused_for_its_fields(case: Case) -> None:
    refused = _refusals(case.text)
    expected = [error for error in case.errors if not error.startswith("line ")] or ["spec.tfReplicaSpecs"]
    assert any(_is_related(field, error) for field in refused for error in expected), refused


def _is_related(field: str, error: str) -> bool:
    """The same, or the object around it: rules of the CRD report a map, and not its item."""
    return f"{field}.".startswith(f"{error}.") or f"{error}.".startswith((f"{field}.", f"{field}["))
