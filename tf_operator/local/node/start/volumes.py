"""The volumes of a pod, as folders: what they are made from, and their content.

emptyDir, downwardAPI, configMap, secret and projected are folders of the pod, gone with it. A hostPath is the path
itself; a PVC is a folder of the node's state, which outlives pods. ConfigMaps and Secrets are read when the pod starts,
and not again when they change. There are no service account tokens: nothing of a pod talks to the API server.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tf_operator.local.node.containers import LocalPod, Problem, list_of, mapping_of
from tf_operator.local.node.start.downward import Capacity, field_value, resource_value
from tf_operator.local.node.start.program import CannotStart, Mount
from tf_operator.meta import Body, text_of

Configs = Mapping[tuple[str, str], Mapping[str, bytes] | None]
CONFIG_MAP, SECRET, CLAIM = "ConfigMap", "Secret", "PersistentVolumeClaim"
_DEFAULT_MODE, _OWN_MODE = 0o644, 0o600
"""That of a volume which names none, by the API server; and what a Secret has then, for there is one user here."""


@dataclass(frozen=True, slots=True)
class VolumeSources:
    """What volumes are made from."""

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
    """A file of a volume."""

    content: bytes
    mode: int


def references(pod: LocalPod) -> set[tuple[str, str]]:
    """The ConfigMaps, Secrets and PVCs that the pod uses, by kind and name."""
    return {(kind, name) for kind, name in (*_of_volumes(pod), *_of_variables(pod)) if name}


def make_volumes(pod: LocalPod, sources: VolumeSources) -> dict[str, Path]:
    """The folder of each volume, with its content; raises ``CannotStart``."""
    folders = {}
    for volume in list_of(pod.spec, "volumes"):
        name = text_of(volume, "name")
        folders[name] = _make(pod, volume, sources)
    return folders


def mounts_of(spec: Body, folders: Mapping[str, Path]) -> tuple[Mount, ...]:
    """What stands for each path where a container mounts a volume."""
    return tuple(_mounts(spec, folders))


def _mounts(spec: Body, folders: Mapping[str, Path]) -> Iterator[Mount]:
    for entry in list_of(spec, "volumeMounts"):
        name, path = text_of(entry, "name"), "/" + text_of(entry, "mountPath").strip("/")
        if entry.get("subPathExpr"):
            raise _mount_error(f"volume {name!r} is mounted by subPathExpr, which this node does not know: use subPath")
        if path == "/":
            raise _mount_error(f"volume {name!r} is mounted at '/', in place of the whole image: name a folder")
        source = folders.get(name)
        if source is None:
            raise _mount_error(f"there is no volume {name!r}")
        source = _inside(source, text_of(entry, "subPath"))
        if not source.exists():
            source.mkdir(parents=True)
        yield Mount(name, path, str(source))


def _make(pod: LocalPod, volume: Body, sources: VolumeSources) -> Path:
    name = text_of(volume, "name")
    if host := mapping_of(volume, "hostPath"):
        return _host_path(host)
    if claim := mapping_of(volume, "persistentVolumeClaim"):
        return _claim(text_of(claim, "claimName"), sources)
    folder = _inside(sources.pod_folder / "volumes", name)
    folder.mkdir(parents=True, exist_ok=True)
    projected = mapping_of(volume, "projected")
    kinds = {"configMap", "secret", "downwardAPI"}.intersection(volume)
    if projected or kinds:
        files: dict[str, _File] = {}
        for part in list_of(projected, "sources") if projected else [{kind: volume[kind] for kind in kinds}]:
            files |= _files(pod, part, sources, default=projected.get("defaultMode"))
        _write(folder, files)
    elif not {"emptyDir", "ephemeral"}.intersection(volume):
        kind = next((field for field in volume if field != "name"), "emptyDir")
        if kind != "emptyDir":
            raise _mount_error(f"volume {name!r} is of kind {kind}, which a node without a cluster cannot provide")
    return folder


def _files(pod: LocalPod, part: Body, sources: VolumeSources, *, default: object) -> dict[str, _File]:
    """The files of one source, by their path in the volume; ``default`` is the mode of a projected volume."""
    field = next((field for field in ("downwardAPI", "configMap", "secret") if field in part), "")
    source = mapping_of(part, field)
    if field == "downwardAPI":
        items = list_of(source, "items")
        content = {text_of(item, "path"): _downward(pod, item, sources.capacity) for item in items}
    elif field:
        kind = {"configMap": CONFIG_MAP, "secret": SECRET}[field]
        content = _selected(source, kind, text_of(source, "name") or text_of(source, "secretName"), sources.configs)
    else:
        content = {}  # a serviceAccountToken, or what is newer than this node
    of_all = _mode(source.get("defaultMode"), _mode(default, _DEFAULT_MODE))
    if field == "secret" and of_all == _DEFAULT_MODE:
        of_all = _OWN_MODE
    modes = {text_of(item, "path"): _mode(item.get("mode"), of_all) for item in list_of(source, "items")}
    return {path: _File(data, modes.get(path, of_all)) for path, data in content.items()}


def _mode(mode: object, default: int) -> int:
    return mode & 0o777 if isinstance(mode, int) else default


def _selected(source: Body, kind: str, name: str, configs: Configs) -> dict[str, bytes]:
    data, is_optional = configs.get((kind, name)), source.get("optional") is True
    if data is None:
        if is_optional:
            return {}
        raise _mount_error(f'{kind.lower()} "{name}" not found')
    items = list_of(source, "items")
    if not items:
        return dict(data)
    missing = [text_of(item, "key") for item in items if text_of(item, "key") not in data]
    if missing and not is_optional:
        raise _mount_error(f'{kind.lower()} "{name}" references non-existent key: {missing[0]}')
    return {text_of(item, "path"): data[text_of(item, "key")] for item in items if text_of(item, "key") in data}


def _downward(pod: LocalPod, item: Body, capacity: Capacity) -> bytes:
    if reference := mapping_of(item, "resourceFieldRef"):
        return resource_value(pod, pod.containers[0], reference, capacity).encode()
    return field_value(pod, text_of(mapping_of(item, "fieldRef"), "fieldPath")).encode()


def _host_path(source: Body) -> Path:
    path, kind = Path(text_of(source, "path")), text_of(source, "type")
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
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWN_MODE), "wb") as opened:
            opened.write(entry.content)
            os.fchmod(opened.fileno(), entry.mode)


def _inside(folder: Path, name: str) -> Path:
    """A path in the folder, and never out of it, whatever its name is."""
    if Path(name).is_absolute() or ".." in Path(name).parts:
        raise _mount_error(f"{name!r} leads out of the volume")
    return folder / name


def _mount_error(message: str) -> CannotStart:
    return CannotStart(Problem("ContainerCreating", message))


def _of_volumes(pod: LocalPod) -> Iterator[tuple[str, str]]:
    for volume in list_of(pod.spec, "volumes"):
        for part in (volume, *list_of(mapping_of(volume, "projected"), "sources")):
            yield CONFIG_MAP, text_of(mapping_of(part, "configMap"), "name")
            secret = mapping_of(part, "secret")
            yield SECRET, text_of(secret, "secretName") or text_of(secret, "name")
        yield CLAIM, text_of(mapping_of(volume, "persistentVolumeClaim"), "claimName")


def _of_variables(pod: LocalPod) -> Iterator[tuple[str, str]]:
    for container in pod.containers:
        for entry in list_of(container.spec, "envFrom"):
            yield CONFIG_MAP, text_of(mapping_of(entry, "configMapRef"), "name")
            yield SECRET, text_of(mapping_of(entry, "secretRef"), "name")
        for entry in list_of(container.spec, "env"):
            source = mapping_of(entry, "valueFrom")
            yield CONFIG_MAP, text_of(mapping_of(source, "configMapKeyRef"), "name")
            yield SECRET, text_of(mapping_of(source, "secretKeyRef"), "name")
