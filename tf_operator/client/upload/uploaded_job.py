"""A job whose files go along: its manifest with what unpacks them, and the ConfigMap that carries them.

The ConfigMap belongs to the job and goes with it. An init container unpacks it into the working directory of each
replica, with the image of the replica, which needs nothing but its ``python3``.
"""

import base64
import copy
import uuid
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from tf_operator.client.job import Job, NotPossible
from tf_operator.client.manifests import templates
from tf_operator.dialects import registry
from tf_operator.meta import Body, mapping_of, metadata_of, objects_of, text_of

if TYPE_CHECKING:
    from tf_operator.client.upload.archive import Archive

ANNOTATION: Final = "tf-operator.kubeflow.org/upload"
"""On a job, and on its ConfigMap: the digest of the files that went along."""
_ARCHIVE, _FILES = "tfjob-upload", "tfjob-upload-files"
_OWN: Final = frozenset({_ARCHIVE, _FILES})
"""Names of the volumes; the init container has the first one."""
_ARCHIVE_KEY: Final = "files.tar.gz"
_FOLDER: Final = "/app"
"""Where the files are if no ``workingDir`` is named, as in images that ``tfjob image push`` makes."""
_UNPACK: Final = "import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2])"
_COPIED: Final = ("image", "imagePullPolicy", "securityContext")
"""Fields of the container: the files belong to the user as whom it runs."""
_COUNTED: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
"""Resources without which quotas refuse a container. A pod does not need more because its init container has them."""


def with_files(body: Body, archive: "Archive") -> dict[str, Any]:
    """The job with its files in the working directory of every replica; ``NotPossible`` where there is no place.

    The name of the ConfigMap is new each time: one of an earlier job of this name may just be about to go with it.
    """
    changed = copy.deepcopy(dict(body))
    api = registry.api_of(body) or registry.DEFAULT
    metadata = changed["metadata"] = dict(metadata_of(body))
    metadata["annotations"] = {**mapping_of(metadata.get("annotations")), ANNOTATION: archive.digest}
    job = text_of(metadata, "name") or text_of(metadata, "generateName").rstrip("-")
    name = f"{job}-upload-{uuid.uuid4().hex[:8]}"
    for pod in templates.specs(templates.of(changed)):
        for container in pod["containers"]:
            if isinstance(container, dict) and container.get("name") == api.profile.container:
                _add_files(pod, container, name)
    return changed


def config_map(job: Job, archive: "Archive") -> dict[str, Any]:
    """What the pods of the job wait for."""
    owner = {"apiVersion": text_of(job.body, "apiVersion"), "kind": job.kind, "name": job.name, "uid": job.uid}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": config_map_name(job.body),
            "namespace": job.namespace,
            "annotations": {ANNOTATION: archive.digest},
            "ownerReferences": [owner],
        },
        "immutable": True,
        "binaryData": {_ARCHIVE_KEY: base64.b64encode(archive.content).decode()},
    }


def archive_in(config_map: Body) -> "Archive":
    """What a ConfigMap carries; a job that is tried again takes it along."""
    from tf_operator.client.upload.archive import Archive  # noqa: PLC0415 (tfjob explain packs nothing)

    content = text_of(mapping_of(config_map.get("binaryData")), _ARCHIVE_KEY)
    return Archive(digest(config_map), base64.b64decode(content))


def config_map_name(body: Body) -> str:
    """The name of the ConfigMap with the files of a job; empty for a job without."""
    volumes = (volume for template in templates.of(body) for volume in objects_of(template["spec"].get("volumes")))
    sources = (mapping_of(volume.get("configMap")) for volume in volumes if volume.get("name") == _ARCHIVE)
    return next((name for source in sources if (name := text_of(source, "name"))), "")


def digest(body: Body) -> str:
    """That of the files of a job; empty for a job without."""
    return text_of(mapping_of(metadata_of(body).get("annotations")), ANNOTATION)


def _add_files(pod: dict[str, Any], container: dict[str, Any], config_map: str) -> None:
    folder = _folder(container)
    mount = {"name": _FILES, "mountPath": folder}
    archive = f"/{_ARCHIVE}/{_ARCHIVE_KEY}"
    unpacking: dict[str, Any] = {field: container[field] for field in _COPIED if field in container}
    unpacking |= {
        "name": _ARCHIVE,
        "command": ["python3", "-I", "-W", "ignore", "-c", _UNPACK, archive, folder],
        "resources": _resources(container),
        "volumeMounts": [{"name": _ARCHIVE, "mountPath": f"/{_ARCHIVE}"}, mount],
    }
    pod["volumes"] = [
        *_others(pod.get("volumes")),
        {"name": _ARCHIVE, "configMap": {"name": config_map}},
        {"name": _FILES, "emptyDir": {}},
    ]
    pod["initContainers"] = [unpacking, *_others(pod.get("initContainers"))]
    container["workingDir"] = folder
    container["volumeMounts"] = [*_others(container.get("volumeMounts")), mount]


def _folder(container: Body) -> str:
    folder = PurePosixPath(text_of(container, "workingDir") or _FOLDER)
    if not folder.is_absolute() or folder == PurePosixPath("/"):
        raise NotPossible(f"--upload puts the files into workingDir, which is {folder}: name a folder, as in {_FOLDER}")
    for mount in _others(container.get("volumeMounts")):
        if PurePosixPath(text_of(mount, "mountPath")) == folder:
            volume = text_of(mount, "name")
            raise NotPossible(
                f"--upload puts the files into workingDir, {folder}, where the volume {volume} is: name another"
            )
    return str(folder)


def _resources(container: Body) -> dict[str, Any]:
    resources = mapping_of(container.get("resources"))
    return {
        field: {name: amount for name, amount in mapping_of(resources.get(field)).items() if name in _COUNTED}
        for field in ("limits", "requests")
        if field in resources
    }


def _others(entries: object) -> Iterable[Body]:
    """Those of the user; a manifest that was read from a cluster may have ours, too."""
    return [entry for entry in objects_of(entries) if entry.get("name") not in _OWN]
