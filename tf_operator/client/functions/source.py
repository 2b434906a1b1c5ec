"""The source of a function that runs by itself elsewhere: nothing but the function is sent.

So whatever it uses has to be inside it, or in its parameters. What is not would be an error in a pod, minutes later.
"""

import ast
import builtins
import importlib.util
import inspect
import site
import symtable
import sys
import sysconfig
import textwrap
from collections.abc import Callable, Iterator
from itertools import accumulate
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, Final

from tf_operator.client.job import NotPossible

_OF_SHELLS: Final = frozenset({"display", "get_ipython", "__IPYTHON__", "_"})
"""What notebooks and interactive shells put among the built-in names: no pod has them."""
_AWAITED: Final = (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)
_BLOCK: Final = "if True:\n"
"""Makes a statement of what is indented. Without the indentation, texts of several lines would be other ones."""


def read(train_func: Callable[..., Any]) -> str:
    """The source; ``NotPossible`` for a function that would not run elsewhere."""
    if not isinstance(train_func, FunctionType):
        raise NotPossible(f"train_func is {_kind(train_func)}: define a function with def, and name it")
    name = train_func.__name__
    if name == "<lambda>":
        raise NotPossible("train_func is a lambda: define a function with def, and name it")
    if hasattr(train_func, "__wrapped__"):
        raise _decorated_function(name)
    if outside := train_func.__code__.co_freevars:
        raise NotPossible(
            f"{name} uses {_names(outside)} of the function around it, which does not go along:"
            " define it at the top, and pass values in parameters"
        )
    if any(is_awaited(train_func) for is_awaited in _AWAITED):
        raise NotPossible(f"{name} is a coroutine or a generator: train_func is called, and nobody awaits it")
    text = _text(train_func)
    statement = _statement(text, name)
    if statement.decorator_list:
        raise _decorated_function(name)
    text = _without_annotations(text, statement.args, statement.returns)
    if missing := _missing(text, name):
        raise NotPossible(_not_inside(name, missing, train_func.__globals__, _in_defaults(statement.args)))
    return text


def own_modules(text: str) -> dict[str, str]:
    """Modules that the source imports from files of the user, and where they are: no image has them."""
    roots = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {name.partition(".")[0] for node in roots for name in _imported(node)}
    return {name: place for name in sorted(names) if (place := _own_file(name))}


def _text(train_func: FunctionType) -> str:
    try:
        text = inspect.getsource(train_func)
    except (OSError, TypeError) as error:
        raise NotPossible(
            f"the source of {train_func.__name__} cannot be read: define it in a file, or in a cell of a notebook"
        ) from error
    return _BLOCK + text if text[:1].isspace() else text


def _statement(text: str, name: str) -> ast.FunctionDef:
    try:
        (statement,) = ast.parse(text).body
    except (SyntaxError, ValueError) as error:
        raise _changed_source(name) from error
    if isinstance(statement, ast.If):
        statement = statement.body[0]
    if not isinstance(statement, ast.FunctionDef) or statement.name != name:
        raise _changed_source(name)
    return statement


def _changed_source(name: str) -> NotPossible:
    return NotPossible(f"the source of {name} is not what its file has now: import it again")


def _decorated_function(name: str) -> NotPossible:
    return NotPossible(f"{name} has a decorator, which does not go along: call it inside of an undecorated function")


def _without_annotations(text: str, parameters: ast.arguments, returned: ast.expr | None) -> str:
    """The source with ``None`` for each annotation of its parameters and result.

    They are evaluated before the function is called, so that no import in it helps, and nobody needs them in a pod.
    """
    starred = [parameter for parameter in (parameters.vararg, parameters.kwarg) if parameter]
    all_parameters = [*parameters.posonlyargs, *parameters.args, *parameters.kwonlyargs, *starred]
    annotations = [node for node in (*(parameter.annotation for parameter in all_parameters), returned) if node]
    content = text.encode()
    line_begins = [0, *accumulate(len(line) + 1 for line in content.split(b"\n"))]
    for node in sorted(annotations, key=lambda node: (node.lineno, node.col_offset), reverse=True):
        begin = line_begins[node.lineno - 1] + node.col_offset
        # Nodes made from a source have an end in it.
        end = line_begins[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
        content = content[:begin] + b"None" + content[end:]
    return content.decode()


def _in_defaults(parameters: ast.arguments) -> frozenset[str]:
    """The names that the defaults of parameters use: they are evaluated before the function is called, too."""
    defaults = [default for default in (*parameters.defaults, *parameters.kw_defaults) if default]
    return frozenset(node.id for default in defaults for node in ast.walk(default) if isinstance(node, ast.Name))


def _missing(text: str, name: str) -> list[str]:
    """The names that are looked up outside of the source, and are not there."""
    module = symtable.symtable(text, name, "exec")
    tables = [*_tables(module)]
    defined = {symbol.get_name() for symbol in module.get_symbols() if symbol.is_assigned()}
    defined |= {it.get_name() for table in tables for it in table.get_symbols() if _is_set_outside(it)}
    used = {it.get_name() for table in tables for it in table.get_symbols() if it.is_referenced() and it.is_global()}
    used |= {symbol.get_name() for symbol in module.get_symbols() if symbol.is_referenced()}
    return sorted(used - defined - (set(dir(builtins)) - _OF_SHELLS))


def _is_set_outside(symbol: symtable.Symbol) -> bool:
    return symbol.is_declared_global() and (symbol.is_assigned() or symbol.is_imported())


def _tables(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    for below in table.get_children():
        yield below
        yield from _tables(below)


def _not_inside(name: str, missing: list[str], around: dict[str, Any], defaults: frozenset[str]) -> str:
    ways = [f"set the default that uses {it}" for it in missing if it in defaults]
    ways += [_way(it, around[it]) if it in around else f"define {it}" for it in missing if it not in defaults]
    verb = "is" if len(missing) == 1 else "are"
    inside = f"{name} uses {_names(missing)}, which {verb} not inside it, and only the function itself is sent"
    return f"{inside}: in it, {'; '.join(ways)}"


def _way(name: str, value: object) -> str:
    """What to write into the function, so that it has this name."""
    if isinstance(value, ModuleType):
        whole = value.__name__
        return f"import {whole}" if name == whole else f"import {whole} as {name}"
    module, own = getattr(value, "__module__", None), getattr(value, "__name__", None)
    if isinstance(module, str) and isinstance(own, str) and module not in {"__main__", "builtins"}:
        return f"from {module} import {own}{'' if own == name else f' as {name}'}"
    return f"define {name}" if callable(value) else f"take {name} from parameters"


def _imported(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif node.level:
        yield "." * node.level + (node.module or "")
    elif node.module:
        yield node.module


def _own_file(name: str) -> str:
    """The file of a module that no package installer has put there; empty for others."""
    if not name:
        return "its own package"
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return ""
    places = [*(spec.submodule_search_locations or ()), spec.origin or ""] if spec else []
    path = next((Path(place) for place in places if place and Path(place).is_absolute()), None)
    installed = {*sysconfig.get_paths().values(), *site.getsitepackages(), site.getusersitepackages(), sys.base_prefix}
    return "" if path is None or any(path.is_relative_to(folder) for folder in installed) else str(path)


def _kind(value: object) -> str:
    return "a class" if isinstance(value, type) else f"a {type(value).__name__}"


def _names(names: list[str] | tuple[str, ...]) -> str:
    return textwrap.shorten(", ".join(names), 200, placeholder=" ...")
