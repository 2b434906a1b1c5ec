"""YAML as kubectl reads it: JSON in another spelling.

PyYAML's reading differs where it hurts: it makes dates of ``2024-01-01`` and a number of ``12:30``, leaves ``1e3`` and
``y`` as text, and takes the second of two equal keys without a word. Here a scalar is what kubectl takes it for, keys
are text, and an equal key is an error, as the API server says.

What is written is read back as the same by every reader of YAML: text that could be taken for anything else is quoted.
Neighbours: ``manifests`` reads files with it, ``bodies`` writes objects.
"""

import json
import re
from collections.abc import Hashable, Iterator
from typing import Any, Final

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
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_PLAIN: Final = re.compile(r"[A-Za-z/][A-Za-z0-9/._-]*")
_NOT_PLAIN: Final = re.compile(rf"{_BOOLEAN.pattern}|(?i:null|nan|inf)")
_TAG: Final = "tag:yaml.org,2002:"


class YamlError(Exception):
    """The text is no YAML that kubectl would take; the message says where and why."""


def read(text: str) -> Iterator[Any]:
    """The documents of a text, empty ones left out; ``YamlError`` when one cannot be read."""
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


def write(body: object) -> str:
    """One document, without its separator."""
    return yaml.dump(body, Dumper=_Dumper, sort_keys=False, width=1_000_000, allow_unicode=True)


class _Loader(yaml.SafeLoader):
    """The safe loader with kubectl's scalars and with text as keys."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 (PyYAML's way)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:  # noqa: FBT001, FBT002
        """As JSON has it; two equal keys are an error, whatever is merged into them."""
        known = set[str]()
        for node_of_key, _ in node.value:
            key = "" if node_of_key.tag == f"{_TAG}merge" else _key(self.construct_object(node_of_key, deep=True))
            if key in known:
                problem = f"the key {key!r} is there twice"
                raise yaml.constructor.ConstructorError(problem=problem, problem_mark=node_of_key.start_mark)
            known |= {key} - {""}
        self.flatten_mapping(node)
        return {
            _key(self.construct_object(key, deep=True)): self.construct_object(value, deep) for key, value in node.value
        }

    def boolean(self, node: yaml.ScalarNode) -> bool:
        """YAML 1.1 has eleven spellings of each."""
        return _BOOLEANS[str(node.value).lower()]

    def integer(self, node: yaml.ScalarNode) -> int:
        """A leading zero makes it octal."""
        text = str(node.value).replace("_", "")
        is_old_octal = re.fullmatch(r"[-+]?0[0-7]+", text)
        return int(text, 8 if is_old_octal else 0)

    def number(self, node: yaml.ScalarNode) -> float:
        """JSON knows one kind of number: 2.0 is 2."""
        found = float(node.value)
        return int(found) if found.is_integer() else found


class _Dumper(yaml.SafeDumper):
    """Writes text so that nobody can misread it, and everything in full: an anchor is hard to read."""

    def ignore_aliases(self, data: object) -> bool:
        """No anchors."""
        return data is not None

    def text(self, text: str) -> yaml.ScalarNode:
        """Plain where it is a plain word, as a block where it has lines, else quoted."""
        style = "|" if "\n" in text else '"'
        if _PLAIN.fullmatch(text) and not _NOT_PLAIN.fullmatch(text):
            style = ""
        return self.represent_scalar(f"{_TAG}str", text, style=style or None)


def _key(found: object) -> str:
    """A key as JSON has it: text."""
    return found if isinstance(found, str) else json.dumps(found)


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
_Loader.add_constructor(f"{_TAG}int", _Loader.integer)
_Loader.add_constructor(f"{_TAG}float", _Loader.number)
_Dumper.add_representer(str, _Dumper.text)
