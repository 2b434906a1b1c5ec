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
SPELLINGS: Final = "spellings"
SPELLED: Final = "FIELD"
# When a rule is not asked. First, in a write to /status: every other write leaves the status alone. An error on the
# other side of || does not matter then, so even a job that no rule can read gets a status that says so. Second, when
# its subject stays as it is, or all of its subjects.
UNASKED: Final = """\
has(self.status) && (!has({old}.status) || self.status != {old}.status)
|| {same}"""
SAME: Final = "has(self.{path}) == has({old}.{path}) && (!has(self.{path}) || self.{path} == {old}.{path})"


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
    """Return the whole CRD."""
    parts = {"pod-template": pod_template.pod_template(definitions), "quantity": pod_template.QUANTITY}
    crd: dict[str, Any] = resolve(yaml.load(source, yaml.CSafeLoader), parts)
    return crd


def resolve(node: Any, parts: Mapping[str, Schema]) -> Any:  # noqa: ANN401 - any piece of YAML
    """Put the parts in their places, complete the rules, and drop the notes."""
    if isinstance(node, list):
        return [resolve(spelled, parts) for item in node for spelled in _spelled(item)]
    if not isinstance(node, dict):
        return node
    own = {key: resolve(value, parts) for key, value in node.items() if key not in {NOTE, REFERENCE, SUBJECT}}
    if REFERENCE in node:
        return own | parts[node[REFERENCE]]
    if SUBJECT in node:
        return own | _asked_about(node[SUBJECT], own)
    return own


def _spelled(item: Any) -> Iterator[Any]:  # noqa: ANN401
    """A rule about a field that has several names is one rule for each of them."""
    if not isinstance(item, dict) or SPELLINGS not in item:
        yield item
        return
    rule = {key: value for key, value in item.items() if key != SPELLINGS}
    yield from ({key: value.replace(SPELLED, name) for key, value in rule.items()} for name in item[SPELLINGS])


def _asked_about(paths: str | list[str], rule: Mapping[str, Any]) -> dict[str, Any]:
    """A rule that is only asked when one of these parts of the object changes, or is new.

    As in any CRD, a rule that uses oldSelf is asked in changes only, unless it says optionalOldSelf.
    """
    if "oldSelf" in rule["rule"] and not rule.get("optionalOldSelf"):
        return {"rule": f"{_unasked('oldSelf', paths)}\n|| (\n{rule['rule']})"}
    unasked = _unasked("oldSelf.value()", paths)
    return {"rule": f"oldSelf.hasValue() && ({unasked})\n|| (\n{rule['rule']})", "optionalOldSelf": True}


def _unasked(old: str, paths: str | list[str]) -> str:
    listed = [paths] if isinstance(paths, str) else paths
    return UNASKED.format(old=old, same="\n&& ".join(SAME.format(old=old, path=path) for path in listed))


def fields(source: str) -> Iterator[Field]:
    """Every field of our own below spec and status, in the order of the source."""
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
