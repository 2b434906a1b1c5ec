"""What is in the pod template of a replica type: its containers and their ports.

A template is the user's JSON, and open in the schema: what is not of the type that it should be is passed over.
"""

from collections.abc import Mapping

from tf_operator.job.training_job import ReplicaSpec


def main_containers(spec: ReplicaSpec, name: str) -> list[Mapping[str, object]]:
    """The containers of this name in the template, whatever else is there."""
    return [entry for entry in containers_of(spec) if entry.get("name") == name]


def main_ports(spec: ReplicaSpec, name: str) -> list[Mapping[str, object]]:
    return [port for main in main_containers(spec, name)[:1] for port in _objects(main.get("ports"))]


def containers_of(spec: ReplicaSpec) -> list[Mapping[str, object]]:
    """All containers of the template; what is none in their list is passed over."""
    pod = spec.template.get("spec")
    return _objects(pod.get("containers")) if isinstance(pod, Mapping) else []


def init_containers_of(spec: ReplicaSpec) -> list[Mapping[str, object]]:
    pod = spec.template.get("spec")
    return _objects(pod.get("initContainers")) if isinstance(pod, Mapping) else []


def _objects(value: object) -> list[Mapping[str, object]]:
    return [entry for entry in value if isinstance(entry, Mapping)] if isinstance(value, list) else []
