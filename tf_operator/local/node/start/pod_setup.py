"""What a pod's containers need before they start: ConfigMaps, Secrets, PVCs, volumes, addresses."""

import os
from collections.abc import Mapping
from pathlib import Path

from tf_operator.local import short_paths
from tf_operator.local.node.addresses import PodNames
from tf_operator.local.node.claims import CLAIMS
from tf_operator.local.node.node_parts import NodeParts
from tf_operator.local.node.pod import LocalContainer, LocalPod
from tf_operator.local.node.processes.supervisor import Launch
from tf_operator.local.node.runtime import Problem
from tf_operator.local.node.start import volumes
from tf_operator.local.node.start.program import CannotStart, Surroundings, file_values
from tf_operator.local.node.start.volumes import CLAIM, SECRET, VolumeSources
from tf_operator.machinery.transport import errors
from tf_operator.machinery.transport.requests import Resource
from tf_operator.meta import Body, ObjectKey, uid_of

_RESOURCES = {
    volumes.CONFIG_MAP: Resource("", "v1", "configmaps", "ConfigMap"),
    volumes.SECRET: Resource("", "v1", "secrets", "Secret"),
    volumes.CLAIM: CLAIMS,
}


class PodSetup:
    """What the containers of one pod find around them."""

    def __init__(self, parts: NodeParts, pod: LocalPod, names: PodNames) -> None:
        self._parts = parts
        self._pod = pod
        self._names = names
        self._folders: dict[str, Path] | None = None

    async def read_configs(self) -> volumes.Configs:
        """The ConfigMaps and Secrets of the pod as they are now; raises ``CannotStart`` if they cannot be read."""
        return {(kind, name): await self._config(kind, name) for kind, name in sorted(volumes.references(self._pod))}

    async def join_network(self) -> tuple[str, ...]:
        """The paths of the network of its job, if it is isolated; raises ``CannotStart`` if there can be none."""
        try:
            return await self._parts.networks.join(self._pod)
        except OSError as error:
            rule = f"spec.networkPolicy: Job needs a network of the job's own, which this machine refuses ({error})"
            raise CannotStart(Problem("CreateContainerConfigError", rule)) from error

    def surroundings(self, container: LocalContainer, configs: volumes.Configs) -> Surroundings:
        """What a container finds; raises ``CannotStart``. Volumes are made once, for all containers."""
        settings, folder = self._parts.settings, self._parts.settings.pod_folder(self._pod)
        if self._folders is None:
            sources = VolumeSources(folder, self._claim_folder, configs, settings.capacity)
            self._folders = _make_volumes(self._pod, sources)
        work = folder / "work" / container.name
        work.mkdir(parents=True, exist_ok=True)
        temporary = folder / "tmp"
        temporary.mkdir(exist_ok=True)
        return Surroundings(
            interpreter=settings.interpreter.of(self._pod),
            mounts=volumes.mounts_of(container.spec, self._folders),
            folder=str(work),
            temporary=str(short_paths.short(temporary, within=settings.folder)),
            message_file=str(self.message_file(container)),
            configs=configs,
            replaced=self._names.replaced,
            capacity=settings.capacity,
            ports={port: self._names.port_of(port) for port in self._names.own_ports},
            gpus=self._parts.gpus.variables(self._pod, container) if self._parts.gpus else {},
        )

    def check_folder(self, container: LocalContainer, program: Launch) -> None:
        if os.path.isdir(program.cwd):  # noqa: PTH112 (a name with a null byte is no folder either)
            return
        if folder := container.spec.working_dir:
            problem = f"workingDir {folder} does not exist on this machine: images are not used, so make the folder"
        else:
            problem = (
                f"the folder {program.cwd} does not exist any more, in which programs run without a workingDir: make it"
                " again, or type 'tfjob local down' and then 'tfjob local up' in another folder"
            )
        raise CannotStart(Problem("CreateContainerConfigError", problem))

    def message_file(self, container: LocalContainer) -> Path:
        return self._parts.settings.pod_folder(self._pod) / "messages" / container.name

    def _claim_folder(self, name: str, uid: str) -> Path:
        return self._parts.settings.claim_folder(ObjectKey(self._pod.key.namespace, name), uid)

    async def _config(self, kind: str, name: str) -> Mapping[str, bytes] | None:
        key = ObjectKey(self._pod.key.namespace, name)
        try:
            body = await self._parts.client.get(_RESOURCES[kind], key)
        except errors.NotFound:
            return None
        except errors.ApiError as error:
            raise CannotStart(Problem("CreateContainerConfigError", f"{kind} {key} cannot be read: {error}")) from error
        return {"uid": uid_of(body).encode()} if kind == CLAIM else _data(body, is_secret=kind == SECRET)


def container_ports(pod: LocalPod) -> frozenset[int]:
    return frozenset(port.container_port for container in pod.containers for port in container.spec.ports)


def _data(body: Body, *, is_secret: bool) -> dict[str, bytes]:
    plain = file_values(body.get("data") or {}, is_binary=is_secret)
    return plain | file_values(body.get("binaryData") or {}, is_binary=True)


def _make_volumes(pod: LocalPod, sources: VolumeSources) -> dict[str, Path]:
    try:
        return volumes.make_volumes(pod, sources)
    except OSError as error:
        raise CannotStart(Problem("ContainerCreating", f"a volume cannot be made: {error}")) from error
