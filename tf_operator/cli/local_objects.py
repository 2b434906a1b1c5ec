"""What ``tfjob run`` adds to a manifest that is run on this machine: nothing that a cluster would not take, too.

An image brings its programs and its Python along. Here no image is used, so both are somewhere on this machine:
``--mount /training=programs`` puts a folder where the manifest expects it, ``--python venv`` names the interpreter, and
``--env-file`` the variables that an image would set.
"""

import argparse
import copy
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from tf_operator.cli import session
from tf_operator.local.node.launch import PYTHON_ANNOTATION, python_at, user_python
from tf_operator.meta import Body

_VOLUME: Final = "tfjob-run"
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LISTS: Final = ("initContainers", "containers")


class LocalFlagError(Exception):
    """A flag is invalid; the message says which and why."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Put the flags into the grammar of a command."""
    group = parser.add_argument_group("on this machine")
    group.add_argument(
        "--python",
        metavar="PATH",
        help="interpreter, or virtual environment, of the programs; default: the virtual environment that is active in"
        " the shell, else that of tfjob",
    )
    group.add_argument(
        "--mount",
        action="append",
        default=[],
        metavar="PATH=FOLDER",
        help="what the image has in PATH is in FOLDER here, as in /training=programs; may be repeated",
    )
    group.add_argument(
        "--env-file",
        metavar="FILE",
        help="variables of the programs, NAME=VALUE on each line; those of the manifest win",
    )


def explain_images(where: str, arguments: argparse.Namespace) -> None:
    """Say what stands for images, and how it is chosen."""
    python = arguments.python or user_python(os.environ)
    session.say(f"{where}: images are not used, programs run with {python} (--python chooses)")


def prepared(body: Body, arguments: argparse.Namespace, *, folder: str = "") -> dict[str, Any]:
    """The object, with mounts, variables and interpreter of the flags in all of its pod templates.

    ``folder`` is where programs run that name no ``workingDir``.
    """
    mounts = dict(map(parse_mount, arguments.mount))
    variables = _variables(arguments.env_file) if arguments.env_file else {}
    python = parse_python(arguments.python) if arguments.python else None
    changed = copy.deepcopy(dict(body))
    templates = list(_templates(changed))
    for spec in {id(template["spec"]): template["spec"] for template in templates}.values():  # aliases share some
        _add_mounts(spec, mounts)
        for container in _containers(spec) if variables else ():
            own = container.get("env") or []
            # In front: a variable of the manifest may use them.
            container["env"] = [*({"name": name, "value": value} for name, value in variables.items()), *own]
        for container in _containers(spec) if folder else ():
            container["workingDir"] = container.get("workingDir") or folder
    for template in templates if python else ():
        metadata = template["metadata"] = dict(template.get("metadata") or {})
        metadata["annotations"] = {**(metadata.get("annotations") or {}), PYTHON_ANNOTATION: str(python)}
    return changed


def values_of(body: Body, variable: str) -> set[str]:
    """The values that containers in the object give to a variable."""
    containers = (container for template in _templates(body) for container in _containers(template["spec"]))
    entries = (entry for container in containers for entry in container.get("env") or ())
    return {str(entry["value"]) for entry in entries if entry.get("name") == variable and "value" in entry}


def parse_mount(text: str) -> tuple[str, Path]:
    """``/training=programs``: a path of the image, and the folder or file that stands for it."""
    inside, _, here = text.partition("=")
    if not inside.startswith("/") or inside == "/" or not here:
        rule = "must be PATH=FOLDER, where PATH is the path in the image, as in /training"
        raise LocalFlagError(f"--mount {text}: {rule}")
    return inside.rstrip("/"), _found(here, f"--mount {text}")


def parse_python(text: str) -> Path:
    """An interpreter or a virtual environment, which has one."""
    program = Path(python_at(text))
    if not os.access(program, os.X_OK) or program.is_dir():
        raise LocalFlagError(f"--python {text}: there is no program {program}")
    return Path(text).absolute()


def _variables(name: str) -> dict[str, str]:
    """The variables of a file; empty lines and those that begin with ``#`` mean nothing. A ``$`` is one."""
    found = dict[str, str]()
    for number, line in enumerate(_found(name, f"--env-file {name}").read_text(encoding="utf-8").splitlines(), 1):
        if line.strip() and not line.lstrip().startswith("#"):
            variable, equals, value = line.partition("=")
            if not equals or not _VARIABLE.fullmatch(variable.strip()):
                raise LocalFlagError(f"--env-file {name}: line {number} must be NAME=VALUE")
            found[variable.strip()] = value.replace("$", "$$")
    return found


def _containers(spec: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    return (entry for field in _LISTS for entry in spec.get(field) or ())


def _found(name: str, flag: str) -> Path:
    if not Path(name).exists():
        raise LocalFlagError(f"{flag}: there is no {name}")
    return Path(name).absolute()


def _add_mounts(spec: dict[str, Any], mounts: Mapping[str, Path]) -> None:
    """A hostPath volume for each mount, seen by every container."""
    for number, (inside, here) in enumerate(mounts.items()):
        name = f"{_VOLUME}-{number}"
        spec["volumes"] = [*(spec.get("volumes") or ()), {"name": name, "hostPath": {"path": str(here)}}]
        for container in _containers(spec):
            mount = {"name": name, "mountPath": inside}
            container["volumeMounts"] = [*(container.get("volumeMounts") or ()), mount]


def _templates(value: object) -> Iterator[dict[str, Any]]:
    """The pod templates in an object of any API."""
    if isinstance(value, dict):
        spec = value.get("spec")
        if isinstance(spec, dict) and isinstance(spec.get("containers"), list):
            yield value
        else:
            for found in value.values():
                yield from _templates(found)
    elif isinstance(value, list):
        for found in value:
            yield from _templates(found)
