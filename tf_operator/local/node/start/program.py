"""From a container of a pod to the program that is started for it: command, arguments, environment, folder. Pure.

Images are not used. The program runs in an environment of this machine (``Interpreter``): the first word ``python`` or
``python3`` is its interpreter, whose folder comes first in ``PATH``; its variables are there before the container's.

A process of the user has no mounts of its own, so a path of the container is replaced by the folder that stands for it
wherever it occurs as whole path components: in the command, the arguments, the environment and the working directory.
That is true of each ``mountPath`` and of ``terminationMessagePath``. A program that has such a path written in its code
finds the folder in ``TF_OPERATOR_VOLUME_<NAME OF THE VOLUME>``, and the file in ``TF_OPERATOR_TERMINATION_LOG``. Mount
namespaces would need no replacing, but unprivileged ones are missing on macOS and switched off on many Linux machines:
one way that works everywhere is better than two.
"""

import base64
import os
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from tf_operator.job.constants import TF_CONFIG
from tf_operator.local.node.machine import Capacity, Interpreter
from tf_operator.local.node.pod import ContainerSpec, LocalContainer, LocalPod, SourceReference, ValueSource
from tf_operator.local.node.processes.supervisor import Launch
from tf_operator.local.node.runtime import Problem
from tf_operator.local.node.start.downward import field_value, resource_value

DEFAULT_MESSAGE_PATH = "/dev/termination-log"
_VARIABLE = re.compile(r"\$\$|\$\((?P<name>[-._a-zA-Z0-9]+)\)")
_PYTHON = re.compile(r"python3?")
_PORT_VARIABLE = "TF_OPERATOR_PORT_"
_NOT_IN_NAME = re.compile(r"[^A-Za-z0-9]")


class CannotStart(Exception):
    """The container cannot be started as things are."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


@dataclass(frozen=True, slots=True)
class Mount:
    """A path of the container, and the folder or file that stands for it."""

    volume: str
    path: str
    source: str


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a container finds around it."""

    interpreter: Interpreter
    mounts: tuple[Mount, ...]
    folder: str
    """A folder of its own: its home, and where it runs if nothing else is named."""
    temporary: str
    """For temporary files, gone with the pod as ``/tmp`` is in a container."""
    message_file: str
    configs: Mapping[tuple[str, str], Mapping[str, bytes] | None]
    """ConfigMaps and Secrets, by kind and name; ``None``: there is none."""
    replaced: Callable[[str], str]
    """Puts addresses in place of names."""
    capacity: Capacity
    ports: Mapping[int, int]
    """Where the container ports of the pod are."""
    gpus: dict[str, str]
    """The variables that say which GPUs it sees. No other value of them counts: it would be another pod's GPU."""


def launch(pod: LocalPod, container: LocalContainer, around: Surroundings) -> Launch:
    spec = container.spec
    if not spec.command:
        message = f"container {container.name!r} has no command: images are not used here, so name its program there"
        raise CannotStart(Problem("CreateContainerError", message))
    variables = environment(pod, container, around)
    paths = _Paths(around, spec.termination_message_path)

    def visible(text: str) -> str:
        return around.replaced(paths.replaced(text))

    argv = [visible(expanded(word, variables)) for word in (*spec.command, *spec.args)]
    if _PYTHON.fullmatch(argv[0]):
        argv[0] = around.interpreter.python
    env = _inherited(around) | {name: visible(value) for name, value in variables.items()} | around.gpus
    cwd = visible(spec.working_dir) or around.interpreter.folder or around.folder
    return Launch(argv, env, cwd, visible)


def environment(pod: LocalPod, container: LocalContainer, around: Surroundings) -> dict[str, str]:
    """The variables of the container, as it declares them: ``envFrom`` first, each of ``env`` may use those before."""
    variables: dict[str, str] = {}
    for source in container.spec.env_from:
        for kind, reference in (("ConfigMap", source.config_map_ref), ("Secret", source.secret_ref)):
            data = _config(around, kind, reference) if reference else None
            variables |= {source.prefix + name: value.decode(errors="replace") for name, value in (data or {}).items()}
    for entry in container.spec.env:
        origin = entry.value_from
        value = _value_from(pod, container, around, origin) if origin else expanded(entry.value, variables)
        if value is not None:
            variables[entry.name] = value
    return variables


def expanded(text: str, variables: Mapping[str, str]) -> str:
    """``$(NAME)`` replaced by the variable, if there is one; ``$$`` is a dollar."""
    return _VARIABLE.sub(lambda match: variables.get(match["name"], match[0]) if match["name"] else "$", text)


def unseen_mounts(container: LocalContainer, mounts: tuple[Mount, ...]) -> list[str]:
    """The volumes whose path the container mentions nowhere: its program must find it by the variable."""
    text = "\n".join(_texts(container.spec))
    return [mount.volume for mount in mounts if not _path_pattern([mount.path]).search(text)]


def bare_ports(container: LocalContainer, ports: Collection[int]) -> list[int]:
    """The ports of the pod that the container mentions without a host: such a number may be anything, and stays.

    Not those whose variable it knows.
    """
    text = "\n".join(_texts(container.spec))
    unknown = [port for port in sorted(ports) if f"{_PORT_VARIABLE}{port}" not in text]
    return [port for port in unknown if re.search(rf"(?<![\w.:\-]){port}(?![\w.:\-])", text)]


def file_values(data: Mapping[str, Any], *, is_binary: bool) -> dict[str, bytes]:
    """The values of a ConfigMap (``data``) or a Secret, whose text is base64."""
    return {
        name: base64.b64decode(value) if is_binary else value.encode()
        for name, value in data.items()
        if isinstance(value, str)
    }


def _texts(spec: ContainerSpec) -> list[str]:
    return [*spec.command, *spec.args, spec.working_dir, *(entry.value for entry in spec.env)]


def _inherited(around: Surroundings) -> dict[str, str]:
    # Without a cluster of the user's own: a lone program would wait for it.
    variables = {name: value for name, value in around.interpreter.variables.items() if name != TF_CONFIG}
    folder = os.path.dirname(around.interpreter.python)  # noqa: PTH120 (a virtual environment's link is not resolved)
    volumes = {f"TF_OPERATOR_VOLUME_{_variable(mount.volume)}": mount.source for mount in around.mounts}
    ports = {f"{_PORT_VARIABLE}{port}": str(real) for port, real in around.ports.items()}
    path = ":".join(part for part in (folder, variables.get("PATH", os.defpath)) if part)
    own = {"PATH": path, "TMPDIR": around.temporary, "TF_OPERATOR_TERMINATION_LOG": around.message_file}
    return {"HOME": around.folder, "PYTHONUNBUFFERED": "1"} | variables | own | volumes | ports


def _variable(name: str) -> str:
    return _NOT_IN_NAME.sub("_", name).upper()


def _value_from(pod: LocalPod, container: LocalContainer, around: Surroundings, source: ValueSource) -> str | None:
    """A value from somewhere else; ``None`` if it is optional and missing."""
    if source.field_ref:
        return field_value(pod, source.field_ref.field_path)
    if source.resource_field_ref:
        return resource_value(pod, container, source.resource_field_ref, around.capacity)
    for kind, reference in (("ConfigMap", source.config_map_key_ref), ("Secret", source.secret_key_ref)):
        if reference:
            data, key = _config(around, kind, reference), reference.key
            if data is not None and key in data:
                return data[key].decode(errors="replace")
            if not reference.optional:
                where = f"{kind} {pod.key.namespace}/{reference.name}"
                raise CannotStart(_config_error(f"couldn't find key {key} in {where}"))
            return None
    raise CannotStart(_config_error("a variable has a source that this node does not know"))


def _config(around: Surroundings, kind: str, reference: SourceReference) -> Mapping[str, bytes] | None:
    data = around.configs.get((kind, reference.name))
    if data is None and not reference.optional:
        raise CannotStart(_config_error(f'{kind.lower()} "{reference.name}" not found'))
    return data


def _config_error(message: str) -> Problem:
    return Problem("CreateContainerConfigError", message)


class _Paths:
    """The paths of the container, replaced by those of the machine; the longest one that fits counts."""

    def __init__(self, around: Surroundings, message_path: str) -> None:
        self._sources = {message_path or DEFAULT_MESSAGE_PATH: around.message_file}
        self._sources |= {mount.path: mount.source for mount in around.mounts}
        self._pattern = _path_pattern(self._sources)

    def replaced(self, text: str) -> str:
        return self._pattern.sub(lambda match: self._sources[match[0]], text)


def _path_pattern(paths: Mapping[str, str] | list[str]) -> re.Pattern[str]:
    """Finds any of these paths as whole components; also behind ``file://``."""
    longest_first = sorted(paths, key=len, reverse=True)
    return re.compile(rf"(?:(?<![\w.\-/])|(?<=file://))(?:{'|'.join(map(re.escape, longest_first))})(?![\w.\-])")
