"""What v1 takes, and what becomes of the rest on the way from an older version.

The API server checks an object by the schema of the version in which it is sent, and never what a conversion makes of
it: pod templates are loose in older versions, annotations are free, and a job may be stored since before there was a
schema. So everything is fitted. Of a job that is stored already, a value that does not fit is left out, because one
job that cannot be converted would break all lists. An annotation keeps it, and the job reports it.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

import msgspec

from tf_operator.dialects.json_values import object_of
from tf_operator.dialects.kubeflow.versions import remainder
from tf_operator.dialects.kubeflow.versions.v1alpha2_to_v1beta2 import REPLICAS
from tf_operator.dialects.replica_lists import CONTAINER
from tf_operator.dialects.schema_fit import Misfit, fit
from tf_operator.dialects.served import Crd
from tf_operator.job import defaults
from tf_operator.job.memory import MemoryLimit, OOMPolicy
from tf_operator.job.training_job import FieldError
from tf_operator.meta import Body, text_of

_PACKAGE: Final = "tf_operator.dialects.kubeflow"
LEFT_OUT: Final = "tf-operator.kubeflow.org/left-out"
"""On a job in v1: the values of an older version that v1 does not take, and what no version shows then, by field."""
_REPLICAS: Final = f"spec.{REPLICAS}"
_MOST_NAMES: Final = 20
_LONGEST_NAME: Final = 200


def fitted(parts: Body) -> tuple[dict[str, Any], list[Misfit]]:
    """``spec`` and ``status`` as v1 takes them, and everything that does not fit."""
    return fit(parts, _schema())


def too_small(body: Body) -> Iterator[Misfit]:
    """What no schema says: the most memory of replicas, where a template in an older version has a higher limit now."""
    replicas = object_of(object_of(body, "spec"), REPLICAS)
    for kind in replicas:
        entry = object_of(replicas, kind)
        policy = OOMPolicy(defaults.GROWTH_PERCENT, text_of(object_of(entry, "oomPolicy"), "maxMemory"))
        limit = MemoryLimit.of(policy, object_of(entry, "template"), CONTAINER, "")
        if limit and limit.problem:
            yield Misfit(f"{_REPLICAS}.{kind}.oomPolicy.maxMemory", limit.problem)


def has_gaps(parts: Body, version: str) -> bool:
    """Whether something is missing that the schema of an older version requires."""
    return any(misfit.value is None for misfit in fit(parts, _schema(version))[1])


def has_lost_of_spec(misfits: list[Misfit]) -> bool:
    return any(misfit.value is not None and misfit.field.startswith("spec") for misfit in misfits)


def encode(misfits: list[Misfit], others: dict[str, object]) -> str | None:
    """The text for the annotation; without values if they are too large, or too deep. ``None`` for nothing.

    ``others``: what else is left out, by field. The misfits come first: they tell whether a job may go on.
    """
    values = {misfit.field: misfit.value for misfit in sorted(misfits, key=_field_of) if misfit.value is not None}
    if not values:
        return None
    other_names = dict.fromkeys([*others][:_MOST_NAMES])
    names = [field[:_LONGEST_NAME] for field in [*values, *other_names][:_MOST_NAMES]]
    texts = map(_text_of, (values | others, values | other_names, names))
    return next(text for text in texts if text)


def _field_of(misfit: Misfit) -> str:
    return misfit.field


def _text_of(left_out: object) -> str:
    """The text; empty where it is too large, or too deep."""
    try:
        text = msgspec.json.encode(left_out).decode()
    except RecursionError:
        return ""
    return text if len(text) <= remainder.LARGEST else ""


def problems(annotations: Body) -> list[FieldError]:
    """What is wrong with a job of which something was left out. With most of it a job that runs may go on."""
    text = annotations.get(LEFT_OUT)
    if text is None:
        return []
    fields = _fields(text)
    if fields and all(field.startswith("status") for field in fields):
        return []
    is_tolerated = bool(fields) and not any(field.startswith(_REPLICAS) for field in fields)
    rule = f"v1 does not take {', '.join(fields) or 'parts of this job'}; set what is needed, and remove the annotation"
    return [FieldError(f"metadata.annotations[{LEFT_OUT}]", rule, is_tolerated=is_tolerated)]


def _fields(text: object) -> list[str]:
    """The fields that an annotation names. Who may write the job may have written anything there."""
    try:
        fields = msgspec.json.decode(text) if isinstance(text, str) else []
    except (msgspec.DecodeError, RecursionError):
        return []
    names = fields if isinstance(fields, Mapping | list) else []
    return [field[:_LONGEST_NAME] for field in [*names][:_MOST_NAMES] if isinstance(field, str)]


@cache
def _schema(*older: str) -> Body:
    *_, version = Crd(_PACKAGE, older="older_versions.json").load(*older)["spec"]["versions"]
    schema: Body = version["schema"]["openAPIV3Schema"]
    return schema
