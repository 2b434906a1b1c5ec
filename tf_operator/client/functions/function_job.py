"""The manifest of a job that runs a function in each replica."""

import ast
import importlib.metadata
import inspect
import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from typing import Any, Final, TypedDict

from tf_operator.client.functions import source
from tf_operator.client.images import image_name
from tf_operator.client.job import NotPossible
from tf_operator.local.node.machine import PYTHON_ANNOTATION

GPU: Final = "nvidia.com/gpu"
_SHORT: Final = {"gpu": GPU, "storage": "ephemeral-storage"}
_PACKAGE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_MOST_BYTES: Final = 100_000
"""Of a source, or an order. Linux takes 131,072 bytes as one argument of a program."""


class TrainOptions(TypedDict, total=False):
    """The arguments of ``train``, beside the function."""

    name: str
    base_image: str
    parameters: Mapping[str, Any] | None
    num_workers: int
    num_ps: int
    chief: bool
    resources_per_worker: Mapping[str, Any] | None
    packages_to_install: Sequence[str]
    pip_index_url: str
    env_vars: Mapping[str, str] | None


def make(train_func: Callable[..., Any], options: TrainOptions, *, is_here: bool) -> dict[str, Any]:
    """The job; ``NotPossible`` for what could not run. ``is_here``: on this machine, with what is installed here."""
    text = source.read(train_func)
    _check_size(text, f"the source of {train_func.__name__} has")
    _check_texts(options)
    parameters = _parameters(train_func, options.get("parameters"))
    packages = _packages(options.get("packages_to_install", ()), is_here=is_here)
    if not (is_here or options.get("base_image")):
        _check_modules(train_func.__name__, text)
    order = {
        "name": train_func.__name__,
        "parameters": parameters,
        "packages": packages,
        "index": options.get("pip_index_url", ""),
    }
    _check_size(json.dumps(order), f"the parameters and packages of {train_func.__name__} have")
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": options.get("name") or _name_of(train_func)},
        "spec": {
            "runPolicy": {"backoffLimit": 3, "cleanPodPolicy": "Running"},
            "tfReplicaSpecs": {
                kind: {"replicas": count, "restartPolicy": "ExitCode", "template": _template(program, is_here=is_here)}
                for kind, (count, program) in _replicas(options, _container(text, order, options)).items()
            },
        },
    }


def _name_of(train_func: Callable[..., Any]) -> str:
    function = train_func.__name__
    if name := function.strip("_").replace("_", "-").lower():
        return name
    raise NotPossible(f"no job can be called {function}, as the function is: pass its name, as in name='fit'")


def _check_size(text: str, has: str) -> None:
    if len(text.encode()) > _MOST_BYTES:
        raise NotPossible(f"{has} more than {_MOST_BYTES // 1000} kB")


def _check_texts(options: TrainOptions) -> None:
    for argument in ("name", "base_image", "pip_index_url"):
        text: object = options.get(argument)
        if text and not isinstance(text, str):
            raise NotPossible(f"{argument} is {text!r}, and has to be a text")


def _parameters(train_func: Callable[..., Any], parameters: object) -> str | None:
    """The parameters as Python reads them; they are the one argument of the function, if there are any."""
    name, arguments = train_func.__name__, [] if parameters is None else [parameters]
    if parameters is not None and not isinstance(parameters, Mapping):
        raise NotPossible("parameters is a dictionary, the only argument of the function")
    try:
        inspect.signature(train_func).bind(*arguments)
    except TypeError as error:
        called = f"{name}({'parameters' if arguments else ''})"
        raise NotPossible(
            f"the function is called as {called}, but {error}: parameters is its only argument"
        ) from error
    for key, value in (parameters or {}).items():
        if not _is_literal(key) or not _is_literal(value):
            kind = type(value if _is_literal(key) else key).__name__
            raise NotPossible(
                f"parameters[{key!r}] contains a value of type {kind}, which cannot be sent: use numbers, strings,"
                " lists or dictionaries of them"
            )
    return None if parameters is None else repr(dict(parameters))


def _is_literal(value: object) -> bool:
    """Whether what it is written as is the same again."""
    try:
        return bool(ast.literal_eval(repr(value)) == value)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return False


def _packages(packages: object, *, is_here: bool) -> list[str]:
    if isinstance(packages, str) or not isinstance(packages, Sequence):
        raise NotPossible('packages_to_install is a list, as in ["scikit-learn"]')
    for package in packages:
        match = _PACKAGE.match(package) if isinstance(package, str) else None
        if match is None:
            raise NotPossible(f"packages_to_install has {package!r}, which is not the name of a package")
        if is_here and not _is_installed(match[0]):
            raise NotPossible(f"{match[0]} is not installed, and nothing is installed on this machine: pip install it")
    return list(packages)


def _is_installed(package: str) -> bool:
    try:
        importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def _check_modules(name: str, text: str) -> None:
    for module, path in source.own_modules(text).items():
        raise NotPossible(
            f"{name} imports {module}, which is {path} and does not go along: put it into an image (tfjob image push)"
            " and name that as base_image"
        )


def _template(container: Mapping[str, Any], *, is_here: bool) -> dict[str, Any]:
    """On this machine with the Python of this process, whose packages were looked at."""
    metadata = {"metadata": {"annotations": {PYTHON_ANNOTATION: sys.executable}}} if is_here else {}
    return {**metadata, "spec": {"containers": [container]}}


def _replicas(options: TrainOptions, container: dict[str, Any]) -> dict[str, tuple[int, dict[str, Any]]]:
    """By type: how many, and their container."""
    numbers = {"num_workers": options.get("num_workers", 1), "num_ps": options.get("num_ps", 0)}
    for argument, number in numbers.items():
        if not _is_number(number):
            raise NotPossible(f"{argument} is {number!r}, and has to be a number, from 0")
    workers, servers = numbers.values()
    chief = int(bool(options.get("chief") or servers))
    if not chief and not workers:
        raise NotPossible("a job needs a worker or a chief: num_workers=1")
    amounts = _amounts(options)
    computing = container | ({"resources": {"requests": amounts, "limits": amounts}} if amounts else {})
    of_type = {"Chief": (chief, computing), "Worker": (workers, computing), "PS": (servers, container)}
    return {kind: replicas for kind, replicas in of_type.items() if replicas[0]}


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _amounts(options: TrainOptions) -> dict[str, str]:
    amounts: object = options.get("resources_per_worker") or {}
    if not isinstance(amounts, Mapping):
        raise NotPossible('resources_per_worker is a dictionary, as in {"cpu": 2, "memory": "4Gi", "gpu": 1}')
    return {_SHORT.get(str(name).lower(), str(name)): str(amount) for name, amount in amounts.items()}


def _container(text: str, order: Mapping[str, Any], options: TrainOptions) -> dict[str, Any]:
    variables = options.get("env_vars") or {}
    _check_variables(variables)
    launcher = resources.files(__package__).joinpath("launcher.py").read_text(encoding="utf-8")
    # A dollar is written twice: $(NAME) would be replaced by a variable.
    words = [word.replace("$", "$$") for word in (launcher, text, json.dumps(order))]
    environment = [{"name": name, "value": value.replace("$", "$$")} for name, value in variables.items()]
    return {
        "name": "tensorflow",
        "image": options.get("base_image") or image_name.TENSORFLOW + ("-gpu" if GPU in _amounts(options) else ""),
        "command": ["python", "-u", "-c", words[0]],
        "args": words[1:],
        "terminationMessagePolicy": "FallbackToLogsOnError",
        **({"env": environment} if environment else {}),
    }


def _check_variables(variables: object) -> None:
    entries = (*variables, *variables.values()) if isinstance(variables, Mapping) else (variables,)
    if not isinstance(variables, Mapping) or not all(isinstance(entry, str) for entry in entries):
        raise NotPossible('env_vars is a dictionary of strings, as in {"TF_CPP_MIN_LOG_LEVEL": "1"}')
