"""The file of ``--controller-config-file``: what jobs of the first APIs get from their operator.

    accelerators:
      <resource>:
        volumes: [{name, hostPath, mountPath, readOnly}]
        envVars: [{name, value}]
        resource: <the resource that pods ask for instead>
    grpcServerFilePath: <the program of default parameter servers>
    tfImage: <their image, where the job names none>

Pure but for the file system. A wrong file is a ``ConfigFileError`` that names every field and its rule in one line.
Neighbour: ``config_file`` reads it again when it changes.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Final

import yaml

from tf_operator.dialects.fields import Fields, kind_of
from tf_operator.job.constants import TF_CONFIG
from tf_operator.planning.bodies.accelerators import Accelerator, HostVolume
from tf_operator.planning.snapshot import Settings
from tf_operator.text import one_line

LARGEST: Final = 64 * 1024
"""Bytes of each file: they are read every few seconds, and the program is in a ConfigMap of each job."""
DEEPEST: Final = 16
"""Lists and objects in each other: five are needed, and libyaml's composer overflows the stack at some thousands."""
OLD_PROGRAM: Final = "/opt/mlkube/grpc_tensorflow_server/grpc_tensorflow_server.py"
"""What the configurations of old deployments name: it was in the image of that operator, and is ours here."""
_RESOURCE: Final = re.compile(
    r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?", re.ASCII
)
_VOLUME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_VARIABLE: Final = re.compile(r"[ -<>-~]+")
_PATH: Final = re.compile(r"/(?!(.*/)?\.\.(/|$)).*")
_MOUNT_PATH: Final = re.compile(rf"(?!.*:){_PATH.pattern}")
_IMAGE: Final = re.compile(r"\S+")
_PATH_RULE: Final = "must be an absolute path without '..'"


class ConfigFileError(Exception):
    """The file cannot be used; the message is one line that says why."""


@dataclass(frozen=True, slots=True)
class ControllerConfig:
    """What such a file says."""

    accelerators: tuple[Accelerator, ...] = ()
    server_program: str = ""
    server_image: str = ""

    def added_to(self, settings: Settings) -> Settings:
        """What plans depend on, with what the file says."""
        return replace(
            settings,
            accelerators=self.accelerators,
            server_program=self.server_program,
            server_image=self.server_image,
        )


def read(path: Path) -> ControllerConfig:
    """Read the file, and the program that it names; ``ConfigFileError`` whatever else is there."""
    try:
        return _read(path)
    except ConfigFileError:
        raise
    # For tagged and for huge values PyYAML raises what int(), datetime() and its look-ups raise: KeyError,
    # AttributeError, IndexError, OverflowError and others.
    except Exception as error:
        reason = one_line(f"{type(error).__name__}: {error}")
        raise ConfigFileError(f"{path}: has a value that cannot be used: {reason}") from error


def _read(path: Path) -> ControllerConfig:
    fields = Fields(_parsed(path))
    _refuse_others(fields, "accelerators", "grpcServerFilePath", "tfImage")
    program = _program(fields, path.parent)
    config = ControllerConfig(
        accelerators=tuple(_accelerators(fields)),
        server_program=_program_text(fields, program) if program else "",
        server_image=_text(fields, "tfImage", _IMAGE, "must be the name of an image")
        if "tfImage" in fields.body
        else "",
    )
    if fields.problems:
        raise ConfigFileError(f"{path}: {'; '.join(map(str, fields.problems))}")
    return config


def _parsed(path: Path) -> dict[str, object]:
    try:
        content = _loaded(_content(path))
    except OSError as error:
        raise ConfigFileError(f"{path}: cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, ValueError) as error:
        raise ConfigFileError(f"{path}: is not YAML: {one_line(str(error))}") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigFileError(f"{path}: must be an object, is {kind_of(content)}")
    return {str(name): value for name, value in content.items()}


@lru_cache(maxsize=1)
def _loaded(content: str) -> object:
    """What is in the YAML. It is read every few seconds and seldom changes, so the last one is kept."""
    _refuse_depth(content)
    return yaml.load(content, yaml.CSafeLoader)


def _refuse_depth(content: str) -> None:
    depth = 0
    for event in yaml.parse(content, yaml.CSafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise ValueError(f"it is nested deeper than {DEEPEST}")


def _content(path: Path) -> str:
    with path.open("rb") as file:
        content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise ValueError(f"it has more than {LARGEST} bytes")
    return content.decode()


def _program(fields: Fields, folder: Path) -> Path | None:
    """The file of the program; ``None`` for ours."""
    name = fields.text("grpcServerFilePath")
    path = folder / name
    return None if not name or (name == OLD_PROGRAM and not path.exists()) else path


def _program_text(fields: Fields, path: Path) -> str:
    try:
        if content := _content(path):
            return content
        rule = "is empty"
    except OSError as error:
        rule = f"cannot be read: {error.strerror}"
    except ValueError as error:
        rule = f"cannot be used: {error}"
    fields.wrong("grpcServerFilePath", f"{path} {rule}")
    return ""


def _accelerators(fields: Fields) -> Iterable[Accelerator]:
    for name in fields.below("accelerators").body:
        where = f"accelerators[{name}]"
        entry = Fields({where: fields.below("accelerators").body[name]}, "", fields.problems).below(where)
        _refuse_others(entry, "volumes", "envVars", "resource")
        if not _RESOURCE.fullmatch(str(name)):
            fields.wrong(where, "must be the name of a resource, such as nvidia.com/gpu")
        volumes, variables = entry.items("volumes"), entry.items("envVars")
        yield Accelerator(
            resource=str(name),
            volumes=tuple(map(_volume, volumes)),
            variables=tuple(map(_variable, variables)),
            replacement=_replacement(entry) if "resource" in entry.body else "",
        )
        _refuse_twice(volumes, "name")
        _refuse_twice(volumes, "mountPath")
        _refuse_twice(variables, "name")


def _replacement(entry: Fields) -> str:
    return _text(entry, "resource", _RESOURCE, "must be the name of a resource, such as nvidia.com/gpu")


def _volume(entry: Fields) -> HostVolume:
    _refuse_others(entry, "name", "hostPath", "mountPath", "readOnly")
    return HostVolume(
        name=_text(entry, "name", _VOLUME, "must be lower-case letters, digits and '-', at most 63"),
        host_path=_text(entry, "hostPath", _PATH, _PATH_RULE),
        mount_path=_text(entry, "mountPath", _MOUNT_PATH, f"{_PATH_RULE} and ':'"),
        is_read_only=entry.body.get("readOnly") is None or entry.flag("readOnly"),
    )


def _variable(entry: Fields) -> tuple[str, str]:
    _refuse_others(entry, "name", "value")
    name = _text(entry, "name", _VARIABLE, "must be the name of an environment variable, without '='")
    if name == TF_CONFIG:
        entry.wrong("name", "must be another one: the operator sets TF_CONFIG")
    return name, entry.text("value")


def _text(entry: Fields, name: str, pattern: re.Pattern[str], rule: str) -> str:
    """A text that is needed, and has this form."""
    value = entry.body.get(name)
    if isinstance(value, str) and pattern.fullmatch(value):
        return value
    entry.wrong(name, f"{rule}, is {'missing' if value is None else kind_of(value)}")
    return ""


def _refuse_twice(entries: Iterable[Fields], name: str) -> None:
    values = set[str]()
    for entry in entries:
        value = entry.body.get(name)
        if isinstance(value, str) and value in values:
            entry.wrong(name, f"is {kind_of(value)} again")
        values.add(str(value))


def _refuse_others(entry: Fields, *names: str) -> None:
    for name in entry.body:
        if name not in names:
            entry.wrong(str(name), f"is unknown: there are {', '.join(names)}")
