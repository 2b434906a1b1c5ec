"""YAML as kubectl reads it: JSON in another notation.

PyYAML reads some scalars differently: ``2024-01-01`` is a date, ``12:30`` a number, ``1e3`` and ``y`` are strings, and
of two equal keys the second wins silently. Here a scalar is what it is for kubectl, keys are strings, and a duplicate
key is an error, as for the API server. Only what JSON can hold is read: other tags, complex keys and collections that
contain themselves are errors, and so are aliases that would make a small text very large.

Every YAML reader reads the output back unchanged: a string that could be taken for anything else is quoted.
Neighbours: ``manifests`` reads files with it, ``bodies`` writes objects.
"""

import json
import math
import re
from collections.abc import Hashable, Iterator
from typing import Any, Final, NoReturn

import yaml

_BOOLEANS: Final = {
    "y": True,
    "yes": True,
    "true": True,
    "on": True,
    "n": False,
    "no": False,
    "false": False,
    "off": False,
}
_BOOLEAN: Final = re.compile("|".join(f"{word}|{word.title()}|{word.upper()}" for word in _BOOLEANS))
_INTEGER: Final = re.compile(r"[-+]?(0[xX][0-9a-fA-F_]+|0[bB][01_]+|0o?[0-7_]+|0|[1-9][0-9_]*)")
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_PLAIN: Final = re.compile(r"[A-Za-z/][A-Za-z0-9/._-]*")
_NOT_PLAIN: Final = re.compile(rf"{_BOOLEAN.pattern}|(?i:null|nan|inf)")
_TAG: Final = "tag:yaml.org,2002:"
_NOT_IN_JSON: Final = ("binary", "omap", "pairs", "set", "timestamp")
_LARGEST: Final = 2**64
"""Integers from here on are floating-point numbers, as in Go."""
MOST_REPEATED: Final = 100_000
"""Values that the aliases of a text may stand for; a few lines can stand for more than any memory holds."""


class YamlError(Exception):
    """kubectl would not accept the text; the message has the place and the reason."""


def read(text: str) -> Iterator[Any]:
    """The documents of a text without the empty ones; ``YamlError`` if one cannot be read."""
    try:
        for document in yaml.load_all(text, Loader=_Loader):
            if document is not None:
                yield document
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise YamlError(f"{where}{error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise YamlError(" ".join(str(error).split())) from None
    except RecursionError:
        raise YamlError("is nested too deeply") from None


def integer(text: str) -> int | float:
    """An integer as Go reads it; ``ValueError`` if it is larger than any number."""
    digits = text.replace("_", "")
    is_old_octal = re.fullmatch(r"[-+]?0[0-7]+", digits)
    value = int(digits, 8 if is_old_octal else 0)
    return value if abs(value) < _LARGEST else number(digits)


def number(text: str) -> int | float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("is not finite")
    return int(value) if value.is_integer() and abs(value) < _LARGEST else value


def write(body: object) -> str:
    """One document, without its separator."""
    return yaml.dump(body, Dumper=_Dumper, sort_keys=False, width=1_000_000, allow_unicode=True)


class _Loader(yaml.SafeLoader):
    """The safe loader with kubectl's scalars and with strings as keys."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 (PyYAML's way)

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._open_anchors: list[str] = []
        self._repeated = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """As PyYAML does, which accepts an alias inside of what it stands for."""
        event = self.peek_event()  # type: ignore[no-untyped-call]
        anchor = str(event.anchor)
        if isinstance(event, yaml.AliasEvent) and anchor in self._open_anchors:
            problem = f"the anchor {anchor!r} contains itself"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=self.get_mark())
        self._open_anchors.append("" if isinstance(event, yaml.AliasEvent) or not event.anchor else anchor)
        try:
            return super().compose_node(parent, index)
        finally:
            self._open_anchors.pop()

    def construct_document(self, node: yaml.Node) -> Any:  # noqa: ANN401 - any JSON
        """As PyYAML does, which leaves it to the reader to follow each alias."""
        sizes = dict[yaml.Node, int]()
        self._repeated += _size(node, sizes) - len(sizes)
        if self._repeated > MOST_REPEATED:
            _fail(node, f"the aliases stand for more than {MOST_REPEATED} values")
        return super().construct_document(node)

    def construct_mapping(self, node: yaml.Node, deep: bool = False) -> dict[Hashable, Any]:  # noqa: FBT001, FBT002
        """As in JSON; a duplicate key is an error, whatever is merged into the mapping."""
        if not isinstance(node, yaml.MappingNode):
            _fail(node, "an object is expected here")
        keys = set[str]()
        for key_node, _ in node.value:
            key = "" if key_node.tag == f"{_TAG}merge" else self._key(key_node)
            if key in keys:
                _fail(key_node, f"the key {key!r} is there twice")
            keys |= {key} - {""}
        self.flatten_mapping(node)
        return {self._key(key): self.construct_object(value, deep) for key, value in node.value}

    def boolean(self, node: yaml.ScalarNode) -> bool:
        """YAML 1.1 has eleven spellings of each."""
        text = self._text(node)
        return _BOOLEANS[text.lower()] if _BOOLEAN.fullmatch(text) else _fail(node, f"{text!r} is not a boolean")

    def number(self, node: yaml.ScalarNode) -> int | float:
        """An integer or a floating-point number, by its tag."""
        text = self._text(node)
        try:
            return integer(text) if node.tag == f"{_TAG}int" else number(text)
        except (ValueError, OverflowError):
            _fail(node, f"{text[:40]!r} is not a number that JSON can hold")

    def _text(self, node: yaml.ScalarNode) -> str:
        return str(self.construct_scalar(node))

    def _key(self, node: yaml.Node) -> str:
        """A key as in JSON: a string."""
        if not isinstance(node, yaml.ScalarNode):
            _fail(node, "a key must be a string, not an object or a list")
        key = self.construct_object(node)
        return key if isinstance(key, str) else json.dumps(key)


def _size(node: yaml.Node, sizes: dict[yaml.Node, int]) -> int:
    """How many values a node stands for when all aliases in it are followed; ``sizes`` remembers each node's."""
    if node not in sizes:
        children: list[yaml.Node] = []
        if isinstance(node, yaml.MappingNode):
            children = [child for pair in node.value for child in pair]
        elif isinstance(node, yaml.SequenceNode):
            children = node.value
        sizes[node] = 1 + sum(_size(child, sizes) for child in children)
    return sizes[node]


def _fail(node: yaml.Node, problem: str) -> NoReturn:
    raise yaml.constructor.ConstructorError(problem=problem, problem_mark=node.start_mark)


class _Dumper(yaml.SafeDumper):
    """Writes strings unambiguously, and everything in full: an anchor is hard to read."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 (PyYAML asks for each value)
        """No anchors."""
        return True

    def text(self, text: str) -> yaml.ScalarNode:
        """Plain where it is a plain word, as a block where it has lines, else quoted."""
        style = "|" if "\n" in text else '"'
        if _PLAIN.fullmatch(text) and not _NOT_PLAIN.fullmatch(text):
            style = ""
        return self.represent_scalar(f"{_TAG}str", text, style=style or None)


# The order is kubectl's: a digit string is an integer before it is a number.
for _tag, _form, _first in (
    ("null", re.compile(r"~|null|Null|NULL|"), ["~", "n", "N", ""]),
    ("merge", re.compile(r"<<"), ["<"]),
    ("bool", _BOOLEAN, list("yYnNtTfFoO")),
    ("int", _INTEGER, list("-+0123456789")),
    ("float", _FLOAT, list("-+0123456789.")),
):
    _Loader.add_implicit_resolver(f"{_TAG}{_tag}", re.compile(f"^(?:{_form.pattern})$"), _first)
_Loader.add_constructor(f"{_TAG}bool", _Loader.boolean)
_Loader.add_constructor(f"{_TAG}int", _Loader.number)
_Loader.add_constructor(f"{_TAG}float", _Loader.number)
for _tag in _NOT_IN_JSON:
    _Loader.add_constructor(f"{_TAG}{_tag}", lambda _, node: _fail(node, "the tag stands for no value of JSON"))
_Dumper.add_representer(str, _Dumper.text)
