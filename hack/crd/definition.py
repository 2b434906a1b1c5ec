"""The CustomResourceDefinition, from its source ``kubeflow.yaml``.

The source is a CRD with three kinds of additions, which its own first lines explain; this module resolves them and
changes nothing else. ``fields`` walks the same source for the documentation.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import yaml

from crd import pod_template
from crd.core import Definitions
from crd.pod_template import Schema

NOTE: Final = "in-1.9"
REFERENCE: Final = "$ref"
SUBJECT: Final = "asks-about"
OPTIONAL: Final = "optionalOldSelf"
SPELLINGS: Final = "spellings"
SPELLED: Final = "FIELD"
MOST_OF_INT32: Final = 2**31 - 1
# When a rule is not asked. First, in a write to /status: every other write leaves the status alone. An error on the
# other side of || does not matter then, so even a job that no rule can read gets a status that says so. Second, when
# its subject stays as it is, or all of its subjects.
UNASKED: Final = """\
has(self.status) && (!has(oldSelf.status) || self.status != oldSelf.status)
|| {same}"""
SAME: Final = "has(self.{path}) == has(oldSelf.{path}) && (!has(self.{path}) || self.{path} == oldSelf.{path})"


@dataclass(frozen=True, slots=True)
class Field:
    """One field of our own, as the documentation shows it."""

    path: str
    schema: Mapping[str, Any]

    @property
    def note(self) -> str:
        """What 1.9 does with it, where that differs."""
        return str(self.schema.get(NOTE, ""))


def build(source: str, definitions: Definitions) -> dict[str, Any]:
    parts = {"pod-template": pod_template.pod_template(definitions), "quantity": pod_template.QUANTITY}
    crd: dict[str, Any] = resolve(yaml.load(source, yaml.CSafeLoader), parts)
    return crd


def resolve(node: Any, parts: Mapping[str, Schema]) -> Any:  # noqa: ANN401 - any piece of YAML
    """Put the parts in their places, complete the rules, and drop the notes."""
    if isinstance(node, list):
        return [rule for item in node for spelling in _spelled(item) for rule in _by_subject(resolve(spelling, parts))]
    if not isinstance(node, dict):
        return node
    own = {key: resolve(value, parts) for key, value in node.items() if key not in {NOTE, REFERENCE}}
    if own.get("format") == "int32":  # which not every API server asks about; typed clients cannot read a list then
        own = {"maximum": MOST_OF_INT32} | own
    return own | parts[node[REFERENCE]] if REFERENCE in node else own


def _spelled(item: Any) -> Iterator[Any]:  # noqa: ANN401
    """A rule about a field that has several names is one rule for each of them."""
    if not isinstance(item, dict) or SPELLINGS not in item:
        yield item
        return
    rule = {key: value for key, value in item.items() if key != SPELLINGS}
    yield from ({key: value.replace(SPELLED, name) for key, value in rule.items()} for name in item[SPELLINGS])


def _by_subject(item: Any) -> Iterator[Any]:  # noqa: ANN401
    """A rule that is only asked when one of its subjects is new, or changes: one rule for either.

    As in any CRD, a rule that uses oldSelf is asked in changes only, unless it says optionalOldSelf. A rule that may
    have an old object cannot compare it: API servers give it without its schema, so that a time is no longer equal to
    itself, and a comparison of what the schema does not know is an error.
    """
    if not isinstance(item, dict) or SUBJECT not in item:
        yield item
        return
    rule = {key: value for key, value in item.items() if key not in {SUBJECT, OPTIONAL}}
    text, condition = rule["rule"], _unasked(item[SUBJECT])
    if item.get(OPTIONAL) or "oldSelf" not in text:
        yield rule | {"rule": f"oldSelf.hasValue()\n|| (\n{text})", OPTIONAL: True}
        text = text.replace("oldSelf.hasValue()", "true").replace("oldSelf.value()", "oldSelf")
    yield rule | {"rule": f"{condition}\n|| (\n{text})"}


def _unasked(paths: str | list[str]) -> str:
    path_list = [paths] if isinstance(paths, str) else paths
    return UNASKED.format(same="\n&& ".join(SAME.format(path=path) for path in path_list))


def fields(source: str) -> Iterator[Field]:
    version = yaml.load(source, yaml.CSafeLoader)["spec"]["versions"][0]
    properties = version["schema"]["openAPIV3Schema"]["properties"]
    for top in ("spec", "status"):
        yield from _below(top, properties[top])


def _below(path: str, schema: Mapping[str, Any]) -> Iterator[Field]:
    yield Field(path, schema)
    for name, child in schema.get("properties", {}).items():
        yield from _below(f"{path}.{name}", child)
    if "properties" in schema.get("items", {}):
        yield from _below(f"{path}[]", schema["items"])
    if "properties" in schema.get("additionalProperties", {}):
        yield from _below(f"{path}.<Type>", schema["additionalProperties"])
