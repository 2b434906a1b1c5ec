"""What can be sent of a function, and the sentence for what cannot; the functions are those that users write."""

import builtins
import contextlib
import functools
import json
import math as m
from pathlib import Path

import pytest

from tf_operator.client import NotPossible
from tf_operator.client.functions import source

RATE = 0.1


def helper():
    return RATE


def whole(parameters, *, first=max):
    import os  # noqa: PLC0415 (all that is sent is the function)

    global COUNT  # noqa: PLW0603 (one of its own)
    COUNT = first(1, 2)

    def inner(factor):
        return [os.sep * factor for _ in range(COUNT)] or whole

    text = """a
  b"""
    return inner(len(parameters)), text


def uses_constant():
    return RATE


def uses_modules():
    return m.pi, json.dumps(1)


def uses_class():
    return [Path(part) for part in "ab"]


def uses_helper():
    def inner():
        return helper()

    return inner()


def uses_default(rate=RATE):
    return rate


def uses_module_in_default(*, size=len(json.dumps(1)), path=Path):  # noqa: B008 (it is refused)
    return size, path, json


# fmt: off
def annotated(
    size: dict[
        str, Path
    ], /, rate: (m.pi) = "é", *rates: Path, last: "Path" = "ö", **others: json.JSONDecoder
) -> dict[str, Path]:
    def inner(text: str) -> str:
        return text

    return inner("ä"), size, rate, rates, last, others
# fmt: on


def misspelled():
    return lenn("a")  # noqa: F821


def shows():
    display(__file__)  # noqa: F821 (notebooks have it)
    get_ipython().system("ls")  # noqa: F821 (what !ls is made of)


@functools.cache
def cached():
    return 1


def keeping(function):
    return function


@keeping
def decorated():
    return 1


async def awaited():
    return 1


def generated():
    yield 1


def closure():
    rate = 1

    def train():
        return rate

    return train


def indented():
    def train():
        return """a
  b"""

    return train


def other_source():
    namespace = {}
    exec("def train(): return 1", namespace)
    return namespace["train"]


def renamed():
    def first():
        return 1

    first.__name__ = "second"
    return first


def test_a_function_that_is_whole_is_its_own_source():
    assert source.read(whole).startswith("def whole(parameters, *, first=max):\n    import os  # noqa")


def test_annotations_do_not_go_along_as_no_import_in_the_function_would_help():
    namespace = {}
    exec(source.read(annotated), namespace)

    assert namespace["annotated"](1, 4, 5, other=6) == ("ä", 1, 4, (5,), "ö", {"other": 6})
    assert set(namespace["annotated"].__annotations__.values()) == {None}


def test_texts_in_an_indented_function_stay_as_they_are():
    namespace = {}
    exec(source.read(indented()), namespace)

    assert namespace["train"]() == indented()() == "a\n  b"


@pytest.mark.parametrize(
    ("function", "rule"),
    [
        (lambda: 1, "is a lambda: define a function with def"),
        (print, "is a builtin_function_or_method: define a function with def"),
        (Path, "is a class: define"),
        (functools.partial(helper), "is a partial: define"),
        ("fit", "is a str: define"),
        (None, "is a NoneType: define"),
        (closure(), "train uses rate of the function around it, which does not go along"),
        (
            uses_constant,
            "RATE, which is not inside it, and only the function itself is sent: in it, take RATE from param",
        ),
        (uses_modules, "json, m, which are not inside it, .*: in it, import json; import math as m$"),
        (uses_class, r"in it, from pathlib(\._local)? import Path$"),
        (uses_helper, "in it, from test_source import helper$|in it, from .*test_source import helper$"),
        (uses_default, "RATE, which is not inside it, .*: in it, set the default that uses RATE$"),
        (uses_module_in_default, "in it, set the default that uses Path; set the default that uses json$"),
        (misspelled, "misspelled uses lenn, .* define lenn$"),
        (cached, "is a _lru_cache_wrapper: define"),
        (decorated, "decorated has a decorator, which does not go along"),
        (contextlib.contextmanager(generated), "generated has a decorator"),
        (awaited, "awaited is a coroutine or a generator"),
        (generated, "generated is a coroutine or a generator"),
        (other_source(), "the source of train cannot be read: define it in a file, or in a cell of a notebook"),
        (renamed(), "the source of second is not what its file has now"),
    ],
    ids=lambda it: it if isinstance(it, str) else getattr(it, "__name__", ""),
)
def test_what_would_not_run_elsewhere_is_a_sentence(function, rule):
    with pytest.raises(NotPossible, match=rule):
        source.read(function)


def test_what_only_a_notebook_or_a_file_has_is_a_sentence(monkeypatch):
    for name in ("display", "get_ipython"):
        monkeypatch.setattr(builtins, name, print, raising=False)

    with pytest.raises(NotPossible, match="shows uses __file__, display, get_ipython, which are not inside it"):
        source.read(shows)


def test_only_modules_of_the_user_are_own_ones(tmp_path, monkeypatch):
    (tmp_path / "rates.py").touch()
    (tmp_path / "models").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    text = (
        "def f():\n    import os.path, rates, msgspec, nowhere\n    from models.big import Big\n    from . import x\n"
    )

    assert source.own_modules(text) == {
        "": "its own package",
        "models": str(tmp_path / "models"),
        "rates": str(tmp_path / "rates.py"),
    }
