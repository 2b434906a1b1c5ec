"""Builder of pod templates: the containers of a replica or of a pod; see ``builders``."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any, Self

from support.resources import Json

MAIN_CONTAINER = "tensorflow"
"""The container that decides what becomes of a replica."""

_IMAGE = "training:test"  # nothing pulls it: no kubelet runs, the driver plays one
_NOTHING: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True)
class Template:
    """A pod template; immutable, every method returns a new one. Starts with one container ``tensorflow``."""

    containers: tuple[Json, ...] = field(default_factory=lambda: (_container(MAIN_CONTAINER),))
    init_containers: tuple[Json, ...] = ()
    more_spec: Mapping[str, Any] = field(default_factory=dict)
    label_map: Mapping[str, str] = field(default_factory=dict)
    annotation_map: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, body: Json) -> Self:
        """The builder of an existing template or pod; of its metadata, labels and annotations are kept."""
        spec = deepcopy(body["spec"])
        metadata = body.get("metadata", {})
        return cls(
            containers=tuple(spec.pop("containers")),
            init_containers=tuple(spec.pop("initContainers", ())),
            more_spec=spec,
            label_map=metadata.get("labels", {}),
            annotation_map=metadata.get("annotations", {}),
        )

    def main(self, **fields: object) -> Self:
        """Set raw fields of the container ``tensorflow``."""
        return replace(
            self,
            containers=tuple(
                {**entry, **deepcopy(fields)} if entry["name"] == MAIN_CONTAINER else entry for entry in self.containers
            ),
        )

    def image(self, image: str) -> Self:
        return self.main(image=image)

    def command(self, *command: str) -> Self:
        return self.main(command=list(command))

    def env(self, variables: Mapping[str, str]) -> Self:
        """Add environment variables to the main container, in this order."""
        added = [{"name": name, "value": value} for name, value in variables.items()]
        return self.main(env=[*self._main().get("env", ()), *added])

    def port(self, name: str, number: int) -> Self:
        """Add a port to the main container; ``tfjob-port`` is the one that TF_CONFIG names."""
        return self.main(ports=[*self._main().get("ports", ()), {"name": name, "containerPort": number}])

    def resources(self, *, requests: Mapping[str, str] = _NOTHING, limits: Mapping[str, str] = _NOTHING) -> Self:
        given = {"requests": dict(requests), "limits": dict(limits)}
        return self.main(resources={name: value for name, value in given.items() if value})

    def sidecar(self, name: str = "sidecar", *, native: bool = False) -> Self:
        """Add a container beside the main one; ``native``: an init container that is kept running."""
        if native:
            return self.init(name, restartPolicy="Always")
        return replace(self, containers=(*self.containers, _container(name)))

    def init(self, name: str = "init", **fields: object) -> Self:
        return replace(self, init_containers=(*self.init_containers, {**_container(name), **fields}))

    def without_main(self) -> Self:
        """Rename the main container, so that none is called ``tensorflow``: a job that is wrong."""
        return self.main(name="other")

    def spec(self, **fields: object) -> Self:
        """Set raw fields of the pod spec: ``nodeSelector``, ``schedulerName``, ``volumes``, ..."""
        return replace(self, more_spec={**self.more_spec, **deepcopy(fields)})

    def labels(self, labels: Mapping[str, str]) -> Self:
        """Add labels to the template's metadata."""
        return replace(self, label_map={**self.label_map, **labels})

    def annotations(self, annotations: Mapping[str, str]) -> Self:
        """Add annotations to the template's metadata."""
        return replace(self, annotation_map={**self.annotation_map, **annotations})

    def body(self) -> Json:
        spec: Json = {"containers": list(self.containers), **self.more_spec}
        if self.init_containers:
            spec["initContainers"] = list(self.init_containers)
        given = {"labels": dict(self.label_map), "annotations": dict(self.annotation_map)}
        metadata = {name: value for name, value in given.items() if value}
        return deepcopy({"metadata": metadata, "spec": spec} if metadata else {"spec": spec})

    def _main(self) -> Json:
        return next(entry for entry in self.containers if entry["name"] == MAIN_CONTAINER)


def _container(name: str) -> Json:
    return {"name": name, "image": _IMAGE}
