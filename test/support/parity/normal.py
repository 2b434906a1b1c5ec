"""Answers without what differs from run to run: UIDs, versions, times, made names; and what two servers differ in.

Versions become ranks: ``v1`` is the lowest version of an object in the conversation. That of a list is the highest rank
that it has reached, because other writers move it on, too.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, Final

from support.parity.players import Answer
from support.parity.script import Conversation, Step, Value, at_path

_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_OF_DECODER: Final = re.compile(r"json: cannot unmarshal .*")
_ETCD_KEY: Final = re.compile(r"Key: /\S+,")
_TOO_OLD: Final = re.compile(r"(resource version: )\d+( \()\d+\)")
_PRECONDITION: Final = re.compile(r"(ResourceVersion in (?:(?:the )?precondition|object meta|record)(?:: | \())(\d+)")
_AGE: Final = re.compile(r"(\d+[ydhms])+")
_DAY: Final = 86400.0
# What controllers put into every namespace, and the admission of service accounts into every pod.
_OF_CONTROLLERS: Final = re.compile(r"kube-root-ca\.crt|kube-api-access-\w+")
_DROPPED: Final = frozenset({"managedFields", "storageVersionHash", "serverAddressByClientCIDRs"})
_SCRUBBED: Final = {
    "clusterIP": "<ip>",
    "clusterIPs": "<ip>",
    "nodePort": "<port>",
    "continue of a list": "<token>",
    "remainingItemCount of a list": "<count>",
}


def normal(conversation: Conversation, answers: Sequence[Answer], namespace: str) -> list[Any]:
    """One value for each answer; two servers of the same behaviour give the same."""
    bodies = [_without_noise(answer.body) for answer in answers]
    steps = [*conversation.steps, *[None] * (len(bodies) - len(conversation.steps))]
    selected = [_selected(body, step) for body, step in zip(bodies, steps, strict=True)]
    names = _Known(bodies, selected, namespace)
    return [
        {"code": answer.code, "body": names.named(body, answer.time)} | dict(answer.headers)
        for answer, body in zip(answers, selected, strict=True)
    ]


def differences(expected: Value, actual: Value, path: str = "") -> Iterator[str]:
    """Where two normal answers differ: path, what was wanted, what was found."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        for key in sorted(expected.keys() | actual.keys()):
            yield from differences(expected.get(key, "<none>"), actual.get(key, "<none>"), f"{path}.{key}")
    elif isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        for number, (left, right) in enumerate(zip(expected, actual, strict=True)):
            yield from differences(left, right, f"{path}.{number}")
    elif expected != actual:
        yield f"{path}: {expected!r} <> {actual!r}"


def _mappings(body: Value) -> Iterator[dict[str, Any]]:
    """All in a body, in one order."""
    if isinstance(body, dict):
        yield body
        for key in sorted(body):
            yield from _mappings(body[key])
    elif isinstance(body, list):
        for entry in body:
            yield from _mappings(entry)


class _Known:
    """What was seen in a conversation, and its names."""

    def __init__(self, bodies: Iterable[Value], selected: Iterable[Value], namespace: str) -> None:
        self._versions = set[int]()
        self._names = {namespace: "<ns>"}
        for body in bodies:
            self._see_names(body)
        for body in selected:
            self._see_versions(body)
        self._texts = sorted(self._names.items(), key=lambda pair: -len(pair[0]))

    def _see_versions(self, body: Value) -> None:
        """Those of objects: lists and bookmarks have no UID."""
        for mapping in _mappings(body):
            is_object = "uid" in mapping or "metadata.resourceVersion" in mapping
            version = str(mapping.get("resourceVersion") or mapping.get("metadata.resourceVersion"))
            if is_object and version.isdigit():
                self._versions.add(int(version))

    def _see_names(self, body: Value) -> None:
        for mapping in _mappings(body):
            prefix, name, uid = mapping.get("generateName"), str(mapping.get("name", "")), mapping.get("uid")
            if uid and isinstance(uid, str):
                self._names.setdefault(uid, f"<uid {len(self._names)}>")
            if prefix and name.startswith(prefix) and len(name) == len(prefix) + 5:
                self._names.setdefault(name, f"{prefix}<made {len(self._names)}>")

    def named(self, body: Value, now: float, key: str = "") -> Value:
        """The body with ranks and names for what differs from run to run."""
        if isinstance(body, dict):
            is_object = key != "metadata" or "uid" in body
            return {
                self._text(name): self.named(value, now, name.rpartition(".")[2] + ("" if is_object else " of a list"))
                for name, value in sorted(body.items())
            }
        if isinstance(body, list):
            return [self.named(value, now, key) for value in body]
        if key in _SCRUBBED and body and body != "None":
            return _SCRUBBED[key]
        return self._named_text(body, now, key) if isinstance(body, str) else body

    def _named_text(self, text: str, now: float, key: str) -> str:
        if key == "cells" and _AGE.fullmatch(text):
            return "<age>"
        if key == "resourceVersion":
            return self._rank(text)
        if key == "resourceVersion of a list":
            return f"after {self._rank(text).removeprefix('after ')}"
        return _timeless(self._text(text), now)

    def _text(self, text: str) -> str:
        for literal, name in self._texts:
            text = text.replace(literal, name)
        text = _OF_DECODER.sub("json: cannot unmarshal ...", text)
        text = _ETCD_KEY.sub("Key: ...,", text)
        text = _TOO_OLD.sub(r"\1<v>\2<v>)", text)
        return _PRECONDITION.sub(lambda match: match[1] + self._rank(match[2]), text)

    def _rank(self, text: str) -> str:
        if not text.isdigit() or text == "0":
            return text
        version = int(text)
        reached = sum(one <= version for one in self._versions)
        return f"v{reached}" if version in self._versions else f"after v{reached}"


def _timeless(text: str, now: float) -> str:
    if not _TIME.fullmatch(text):
        return text
    distance = datetime.fromisoformat(text).timestamp() - now
    if abs(distance) > _DAY:
        return text
    steps = max(0, 10 * round(distance / 10))
    return f"<now+{steps}s>" if steps else "<now>"


def _selected(body: Value, step: Step | None) -> Value:
    """What the step says that counts; all of a failure does."""
    if step is None:
        return body
    is_status = isinstance(body, dict) and body.get("kind") == "Status"
    if is_status:
        body = _with_sorted_causes(body)
    if step.is_code_only:
        return body.get("reason") if is_status else None
    if is_status:
        return body
    if step.at:
        return {path: at_path(body, path) for path in step.at}
    return _only(body, step.only) if step.only else body


def _with_sorted_causes(status: dict[str, Any]) -> dict[str, Any]:
    """Several causes come in the order of a map in Go, which is none, and some twice; the message repeats them."""
    causes = (status.get("details") or {}).get("causes") or []
    if len(causes) < 2:
        return status
    by_text = {(cause.get("field", ""), cause.get("message", "")): cause for cause in causes}
    ordered = [by_text[text] for text in sorted(by_text)]
    beginning, is_list, _ = str(status.get("message")).partition(": [")
    message = {"message": f"{beginning}: [<causes>]"} if is_list and len(ordered) > 1 else {}
    return status | message | {"details": status["details"] | {"causes": ordered}}


def _only(body: Value, names: tuple[str, ...]) -> Value:
    if isinstance(body, dict):
        return {key: _only(value, names) for key, value in body.items()}
    if isinstance(body, list):
        return [_only(entry, names) for entry in body if not _name(entry) or _name(entry) in names]
    return body


def _name(entry: Value) -> str:
    if not isinstance(entry, dict):
        return ""
    metadata = entry.get("metadata")
    return str((metadata.get("name", "") if isinstance(metadata, dict) else "") or entry.get("name", ""))


def _without_noise(body: Value) -> Value:
    """Without what controllers add, and bookmarks that only say how far the server is."""
    if isinstance(body, dict):
        fields = {key: _without_noise(value) for key, value in body.items() if key not in _DROPPED}
        if isinstance(body.get("columnDefinitions"), list):
            fields["columnDefinitions"] = [column | {"description": ""} for column in body["columnDefinitions"]]
        if body.get("type") == "BOOKMARK":
            fields["object"] = {key: fields["object"].get(key) for key in ("apiVersion", "kind", "metadata")}
        return {key: value for key, value in fields.items() if not _is_emptied(key, body[key], value)}
    if isinstance(body, list):
        return [_without_noise(entry) for entry in body if not _is_noise(entry)]
    return body


def _is_emptied(key: str, old: Value, after: Value) -> bool:
    """Whether nothing is left of a list that had only noise, or there was nothing but the token of a last page."""
    return (old != after and not after and key != "items") or (key == "continue" and not old)


def _is_noise(entry: Value) -> bool:
    if not isinstance(entry, dict):
        return False
    item = entry.get("object")
    if not isinstance(item, dict):
        return bool(_OF_CONTROLLERS.fullmatch(_name(entry)))
    rows = item.get("rows") or [{"object": item}]  # of a table
    is_progress = entry.get("type") == "BOOKMARK" and "annotations" not in rows[0]["object"]["metadata"]
    return is_progress or bool(_OF_CONTROLLERS.fullmatch(_name(item)))
