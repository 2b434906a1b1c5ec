"""Random conversations about a few objects: one for each seed.

Only what is answered at once is in them: nothing waits for a garbage collector or another controller.
"""

import json
import random
from collections.abc import Callable, Iterator
from typing import Any, Final

from support.parity.script import COLLECTIONS, Conversation, step
from support.resources import Json

STEPS: Final = 18
_POD: Final = {"containers": [{"name": "tensorflow", "image": "i"}]}
# What an object of each collection has to have.
_BODIES: Final[dict[str, Json]] = {
    "cm": {"data": {"k": "v"}},
    "secrets": {"stringData": {"k": "v"}},
    "leases": {"spec": {"holderIdentity": "me"}},
    "svc": {"spec": {"clusterIP": "None", "ports": [{"port": 2222}], "selector": {"x": "y"}}},
    "pods": {"spec": _POD},
    "tfjobs": {"spec": {"tfReplicaSpecs": {"Worker": {"template": {"spec": _POD}}}}},
    "t9k": {"spec": {"replicaSpecs": [{"type": "worker", "replicas": 1, "template": {"spec": _POD}}]}},
}
_CHANGES: Final[dict[str, tuple[Json, ...]]] = {
    "cm": ({"data": {"k": "w"}}, {"data": {"k": None, "l": "x"}}, {"data": None}, {"immutable": True}),
    "secrets": ({"stringData": {"l": "w"}}, {"data": {"k": None}}, {"type": "other"}),
    "leases": ({"spec": {"holderIdentity": "other"}}, {"spec": {"leaseDurationSeconds": 0}}),
    "svc": ({"spec": {"selector": {"a": "b"}}}, {"spec": {"ports": [{"port": 70000}]}}),
    "pods": ({"spec": {"activeDeadlineSeconds": 5}}, {"status": {"phase": "Failed"}}),
    "tfjobs": (
        {"spec": {"runPolicy": {"suspend": True}}},
        {"spec": {"tfReplicaSpecs": {"Worker": {"replicas": -1}}}},
        {"status": {"startTime": "2020-01-01T00:00:00Z"}},
    ),
    "t9k": ({"spec": {"runMode": {"pause": True}}}, {"spec": {"replicaSpecs": []}}, {"status": {"phase": "Running"}}),
}
_STATUSES: Final[dict[str, tuple[Json, ...]]] = {
    "pods": ({"status": {"phase": "Running"}}, {"status": {"phase": "Failed", "reason": "Evicted"}}),
    "tfjobs": ({"status": {"startTime": "2020-01-01T00:00:00Z"}}, {"status": {"conditions": "text"}}),
    "t9k": ({"status": {"phase": "Running"}}, {"status": {"phase": 5}}),
}
_LABELS: Final[tuple[Json, ...]] = ({"x": "1"}, {"x": "2"}, {"x": "1", "y": "1"}, {"x": None}, {})
_SELECTORS: Final = ("x=1", "x!=1", "x in (1,2)", "y", "!y", "x=1,y=1")
_FINALIZERS: Final[tuple[list[str], ...]] = (["example.com/f"], ["example.com/f", "example.com/g"], [])


class _Writer:
    """The lines of one conversation."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._collection = self._random.choice(list(_BODIES))
        self._written = list[tuple[str, str]]()
        """Name, and the label of an answer that may show it."""
        self._labels = 0

    def lines(self) -> Iterator[str]:
        here = self._collection
        selector = self._random.choice(("", *_SELECTORS[:3]))
        label = f"&labelSelector={_quoted(selector)}" if selector else ""
        yield f"l = GET {here}"
        yield f"w = WATCH {here}?resourceVersion=<l.metadata.resourceVersion>{label}"
        ways: tuple[tuple[int, Callable[[], str]], ...] = (
            (5, self._create), (3, self._update), (5, self._merge), (2, self._json), (2, self._status),
            (3, self._apply), (4, self._delete), (1, self._delete_all), (2, self._get), (3, self._list),
        )  # fmt: skip
        weights, makers = zip(*ways, strict=True)
        for make in self._random.choices(makers, weights, k=STEPS):
            yield from make().splitlines()
        end = {"metadata": {"name": "end", "labels": {"x": "1" if selector != "x!=1" else "2"}}}
        yield f"POST {here} {_json(_BODIES[here] | end)}"
        yield "READ w end"

    def _create(self) -> str:
        name = self._name()
        metadata = {"name": name} | self._metadata()
        return f"{self._labelled(name)}POST {self._collection}{self._dry()} {_json(self._body(metadata))}"

    def _update(self) -> str:
        if self._collection == "pods":
            return self._merge()  # what admission has added would have to be in the body
        name = self._name()
        metadata = {"name": name} | self._metadata() | self._condition(name)
        change = self._random.choice(_CHANGES[self._collection])
        body = self._body(metadata)
        key, value = next(iter(change.items()))
        if isinstance(value, dict) and self._random.random() < 0.7:
            body[key] = body.get(key, {}) | {name: each for name, each in value.items() if each is not None}
        return f"{self._labelled(name)}PUT {self._collection}/{name}{self._dry()} {_json(body)}"

    def _merge(self) -> str:
        name = self._name()
        body: Json = dict(self._random.choice((*_CHANGES[self._collection], {}, {})))
        metadata = self._metadata() | self._condition(name)
        if metadata and self._random.random() < 0.7:
            body["metadata"] = metadata
        way = self._random.choice(("merge", "merge", "strategic"))
        return f"{self._labelled(name)}PATCH/{way} {self._collection}/{name}{self._dry()} {_json(body)}"

    def _apply(self) -> str:
        """Managers have other names where nobody has applied before, so only the code of the answer is compared."""
        name = self._name()
        metadata = {"name": name} | self._metadata()
        api_version, _, kind, _ = COLLECTIONS[self._collection]
        body: Json = {"apiVersion": api_version, "kind": kind} | self._body(metadata)
        # An empty map or list that is applied is kept by kube-apiserver until the next write, which makes a version.
        body["metadata"]["labels"] |= {"applied": "yes"}
        if body["metadata"].get("finalizers") == []:
            del body["metadata"]["finalizers"]
        query = f"fieldManager={self._random.choice(('one', 'two'))}&force={self._random.choice(('true', 'false'))}"
        return f"PATCH/apply {self._collection}/{name}?{query} {_json(body)} -> code"

    def _json(self) -> str:
        name = self._name()
        operations: list[Json] = self._random.choice((
            [{"op": "add", "path": "/metadata/labels", "value": {"x": "2"}}],
            [{"op": "test", "path": "/metadata/labels/x", "value": "1"}, {"op": "remove", "path": "/metadata/labels"}],
            [{"op": "replace", "path": "/metadata/labels/x", "value": "1"}],
            [{"op": "remove", "path": "/metadata/finalizers"}],
            [{"op": "remove", "path": "/metadata/finalizers/0"}],
            [{"op": "add", "path": "/metadata/finalizers/-", "value": "example.com/h"}],
        ))  # fmt: skip
        return f"{self._labelled(name)}PATCH/json {self._collection}/{name} {json.dumps(operations)}"

    def _status(self) -> str:
        name = self._name()
        statuses = _STATUSES.get(self._collection)
        if not statuses:
            return self._merge()
        body = _json(self._random.choice(statuses))
        return f"{self._labelled(name)}PATCH/merge {self._collection}/{name}/status {body}"

    def _delete(self) -> str:
        name = self._name()
        options: Json = {}
        if condition := self._condition(name):
            options["preconditions"] = condition
        if self._random.random() < 0.2:
            options["gracePeriodSeconds"] = self._random.choice((0, 5))
        body = f" {_json(options)}" if options else ""
        return f"DELETE {self._collection}/{name}{self._dry()}{body}"

    def _delete_all(self) -> str:
        return f"DELETE {self._collection}?labelSelector={_quoted(self._random.choice(_SELECTORS))}"

    def _get(self) -> str:
        name = self._name()
        return f"{self._labelled(name)}GET{self._random.choice(('', '', '/partial'))} {self._collection}/{name}"

    def _list(self) -> str:
        query = self._random.choice((
            # Pages of config maps would count the one that a controller adds.
            *(() if self._collection == "cm" else ("?limit=1", "?limit=2")),
            # Another list first: the real server answers it when its watch cache, which may lag, has caught up.
            "", f"\nGET {self._collection}?resourceVersion=0", "?fieldSelector=metadata.name=a",
            *(f"?labelSelector={_quoted(selector)}" for selector in _SELECTORS),
        ))  # fmt: skip
        return f"GET {self._collection}{query}"

    def _name(self) -> str:
        return self._random.choice("aab")

    def _labelled(self, name: str) -> str:
        self._labels += 1
        self._written.append((name, f"r{self._labels}"))
        return f"r{self._labels} = "

    def _condition(self, name: str) -> Json:
        """A UID or a version that an earlier answer showed, which may be stale, if there was one."""
        labels = [label for written, label in self._written if written == name]
        if not labels or self._random.random() < 0.6:
            return {}
        field = self._random.choice(("uid", "resourceVersion"))
        return {field: f"<{self._random.choice(labels)}.metadata.{field}>"}

    def _metadata(self) -> Json:
        metadata: Json = {}
        if self._random.random() < 0.6:
            metadata["labels"] = self._random.choice(_LABELS)
        if self._random.random() < 0.25:
            metadata["finalizers"] = self._random.choice(_FINALIZERS)
        return metadata

    def _body(self, metadata: Json) -> Json:
        labels = {key: value for key, value in metadata.get("labels", {}).items() if value is not None}
        return _BODIES[self._collection] | {"metadata": metadata | {"labels": labels}}

    def _dry(self) -> str:
        return "?dryRun=All" if self._random.random() < 0.08 else ""


def sequence(seed: int) -> Conversation:
    """A conversation, always the same for a seed."""
    return Conversation(f"sequence {seed}", tuple(step(line) for line in _Writer(seed).lines()))


def shrunk(conversation: Conversation, differs: Callable[[Conversation], bool]) -> Conversation:
    """As few steps as still differ."""
    steps = conversation.steps
    number = len(steps) - 1
    while number >= 0:
        fewer = Conversation(conversation.name, steps[:number] + steps[number + 1 :])
        if differs(fewer):
            steps = fewer.steps
        number -= 1
    return Conversation(conversation.name, steps)


def _json(body: Any) -> str:  # noqa: ANN401 (any JSON)
    return json.dumps(body)


def _quoted(selector: str) -> str:
    return selector.replace(" ", "%20")
