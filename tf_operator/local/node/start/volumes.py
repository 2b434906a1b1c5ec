"""The volumes of a pod, as folders: what they are made from, and their content.

emptyDir, downwardAPI, configMap, secret and projected are folders of the pod, gone with it. A hostPath is the path
itself; a PVC is a folder of the node's state, which outlives pods. ConfigMaps and Secrets are read when the pod starts,
and not again when they change. There are no service account tokens: nothing of a pod talks to the API server.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from tf_operator.local.node.machine import Capacity
from tf_operator.local.node.pod import ContainerSpec, LocalPod, Volume, VolumeFile, VolumeSource
from tf_operator.local.node.runtime import Problem
from tf_operator.local.node.start.downward import field_value, resource_value
from tf_operator.local.node.start.program import CannotStart, Mount

Configs = Mapping[tuple[str, str], Mapping[str, bytes] | None]
CONFIG_MAP, SECRET, CLAIM = "ConfigMap", "Secret", "PersistentVolumeClaim"
_CONFIGS: Mapping[str, str] = {"configMap": CONFIG_MAP, "secret": SECRET}
_OWN_FOLDERS = frozenset({"emptyDir", "ephemeral", "projected", "downwardAPI", *_CONFIGS})
"""The kinds of volumes that are folders of the pod."""
_DEFAULT_MODE, _OWN_MODE = 0o644, 0o600
"""That of a volume which names none, by the API server; and what a Secret has then, for there is one user here."""


@dataclass(frozen=True, slots=True)
class VolumeSources:
    pod_folder: Path
    claims: Callable[[str, str], Path]
    """From the name and the UID of a PVC in the pod's namespace to its folder."""
    configs: Configs
    capacity: Capacity


_HOST_PATHS: Mapping[str, tuple[str, Callable[[Path], bool]]] = {
    "Directory": ("directory", Path.is_dir),
    "File": ("file", Path.is_file),
    "Socket": ("socket file", Path.is_socket),
    "CharDevice": ("character device", Path.is_char_device),
    "BlockDevice": ("block device", Path.is_block_device),
}
"""The types of a hostPath: how a kubelet calls them, and what is asked."""


@dataclass(frozen=True, slots=True)
class _File:
    content: bytes
    mode: int


def references(pod: LocalPod) -> set[tuple[str, str]]:
    """The ConfigMaps, Secrets and PVCs that the pod uses, by kind and name."""
    return {(kind, name) for kind, name in (*_of_volumes(pod), *_of_variables(pod)) if name}


def make_volumes(pod: LocalPod, sources: VolumeSources) -> dict[str, Path]:
    """The folder of each volume, with its content; raises ``CannotStart``."""
    return {volume.name: _make(pod, volume, sources) for volume in pod.volumes}


def mounts_of(spec: ContainerSpec, folders: Mapping[str, Path]) -> tuple[Mount, ...]:
    return tuple(_mounts(spec, folders))


def _mounts(spec: ContainerSpec, folders: Mapping[str, Path]) -> Iterator[Mount]:
    for entry in spec.volume_mounts:
        name, path = entry.name, "/" + entry.mount_path.strip("/")
        if entry.sub_path_expr:
            raise _mount_error(f"volume {name!r} is mounted by subPathExpr, which this node does not know: use subPath")
        if path == "/":
            raise _mount_error(f"volume {name!r} is mounted at '/', in place of the whole image: name a folder")
        source = folders.get(name)
        if source is None:
            raise _mount_error(f"there is no volume {name!r}")
        source = _inside(source, entry.sub_path)
        if not source.exists():
            source.mkdir(parents=True)
        yield Mount(name, path, str(source))


def _make(pod: LocalPod, volume: Volume, sources: VolumeSources) -> Path:
    name, kind, source = volume.name, volume.kind, volume.source
    if kind == "hostPath":
        return _host_path(source)
    if kind == "persistentVolumeClaim":
        return _claim(source.claim_name, sources)
    if kind not in _OWN_FOLDERS:
        raise _mount_error(f"volume {name!r} is of kind {kind}, which a node without a cluster cannot provide")
    folder = _inside(sources.pod_folder / "volumes", name)
    folder.mkdir(parents=True, exist_ok=True)
    files: dict[str, _File] = {}
    for part_kind, part in _parts(volume):
        files |= _files(pod, part_kind, part, sources, default=source.default_mode if kind == "projected" else None)
    _write(folder, files)
    return folder


def _parts(volume: Volume) -> Iterator[tuple[str, VolumeSource]]:
    if volume.kind == "projected":
        yield from (entry for part in volume.source.sources for entry in part.items())
    else:
        yield volume.kind, volume.source


def _files(
    pod: LocalPod, kind: str, source: VolumeSource, sources: VolumeSources, *, default: int | None
) -> dict[str, _File]:
    """The files of one source, by their path in the volume; ``default`` is the mode of a projected volume."""
    if kind == "downwardAPI":
        content = {item.path: _downward(pod, item, sources.capacity) for item in source.items}
    elif kind in _CONFIGS:
        content = _selected(source, _CONFIGS[kind], sources.configs)
    else:
        return {}  # a serviceAccountToken, or what is newer than this node
    of_all = _mode(source.default_mode, _mode(default, _DEFAULT_MODE))
    if kind == "secret" and of_all == _DEFAULT_MODE:
        of_all = _OWN_MODE
    modes = {item.path: _mode(item.mode, of_all) for item in source.items}
    return {path: _File(data, modes.get(path, of_all)) for path, data in content.items()}


def _mode(mode: int | None, default: int) -> int:
    return default if mode is None else mode & 0o777


def _selected(source: VolumeSource, kind: str, configs: Configs) -> dict[str, bytes]:
    name = source.secret_name or source.name
    data, items = configs.get((kind, name)), source.items
    if data is None:
        if source.optional:
            return {}
        raise _mount_error(f'{kind.lower()} "{name}" not found')
    if not items:
        return dict(data)
    missing = [item.key for item in items if item.key not in data]
    if missing and not source.optional:
        raise _mount_error(f'{kind.lower()} "{name}" references non-existent key: {missing[0]}')
    return {item.path: data[item.key] for item in items if item.key in data}


def _downward(pod: LocalPod, item: VolumeFile, capacity: Capacity) -> bytes:
    if item.resource_field_ref:
        return resource_value(pod, pod.containers[0], item.resource_field_ref, capacity).encode()
    return field_value(pod, item.field_ref.field_path if item.field_ref else "").encode()


def _host_path(source: VolumeSource) -> Path:
    path, kind = Path(source.path), source.type
    if kind == "DirectoryOrCreate":
        path.mkdir(parents=True, exist_ok=True)
    if kind == "FileOrCreate" and not path.exists():
        path.touch()
    if not path.exists():
        raise _mount_error(f"hostPath {path} does not exist on this machine; type DirectoryOrCreate makes it")
    words, is_so = _HOST_PATHS.get(kind.removesuffix("OrCreate"), ("", Path.exists))
    if not is_so(path):
        raise _mount_error(f"hostPath type check failed: {path} is not a {words}")
    return path


def _claim(name: str, sources: VolumeSources) -> Path:
    claim = sources.configs.get((CLAIM, name))
    if claim is None:
        raise _mount_error(f'persistentvolumeclaim "{name}" not found')
    folder = sources.claims(name, claim["uid"].decode())
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _write(folder: Path, files: Mapping[str, _File]) -> None:
    for name, entry in files.items():
        file = _inside(folder, name)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.unlink(missing_ok=True)  # of an attempt that failed, perhaps
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWN_MODE), "wb") as stream:
            stream.write(entry.content)
            os.fchmod(stream.fileno(), entry.mode)


def _inside(folder: Path, name: str) -> Path:
    """A path in the folder, and never out of it, whatever its name is."""
    if Path(name).is_absolute() or ".." in Path(name).parts:
        raise _mount_error(f"{name!r} leads out of the volume")
    return folder / name


def _mount_error(message: str) -> CannotStart:
    return CannotStart(Problem("ContainerCreating", message))


def _of_volumes(pod: LocalPod) -> Iterator[tuple[str, str]]:
    for volume in pod.volumes:
        for kind, source in _parts(volume):
            if kind in _CONFIGS:
                yield _CONFIGS[kind], source.secret_name or source.name
        yield CLAIM, volume.source.claim_name


def _of_variables(pod: LocalPod) -> Iterator[tuple[str, str]]:
    for container in pod.containers:
        sources = [entry.value_from for entry in container.spec.env if entry.value_from]
        maps = [entry.config_map_ref for entry in container.spec.env_from], [it.config_map_key_ref for it in sources]
        secrets = [entry.secret_ref for entry in container.spec.env_from], [it.secret_key_ref for it in sources]
        yield from ((CONFIG_MAP, reference.name) for reference in chain(*maps) if reference)
        yield from ((SECRET, reference.name) for reference in chain(*secrets) if reference)
