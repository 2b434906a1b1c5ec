"""What is in the pod template of a replica type: its containers and their ports.

A template is the user's JSON, and open in the schema: what is not of the type that it should be is passed over.
"""

from collections.abc import Iterable
from typing import Final

from tf_operator.job.training_job import ReplicaSpec
from tf_operator.meta import Body, mapping_of, objects_of

DEFAULT_GRACE: Final = 30
"""Seconds: that of Kubernetes."""


def pod_of(spec: ReplicaSpec) -> Body:
    """The spec of its pods, as the template says it; empty if that is none."""
    return mapping_of(spec.template.get("spec"))


def grace_seconds(spec: ReplicaSpec) -> int:
    """How long a pod of it that is deleted or evicted has to stop."""
    seconds = pod_of(spec).get("terminationGracePeriodSeconds")
    return seconds if isinstance(seconds, int) else DEFAULT_GRACE


def has_host_network(specs: Iterable[ReplicaSpec]) -> bool:
    """Whether pods of these have the network of their node, where no NetworkPolicy applies to them."""
    return any(pod_of(spec).get("hostNetwork") for spec in specs)


def main_containers(spec: ReplicaSpec, name: str) -> list[Body]:
    """The containers of this name in the template, whatever else is there."""
    return [entry for entry in containers_of(spec) if entry.get("name") == name]


def main_ports(spec: ReplicaSpec, name: str) -> list[Body]:
    return [port for main in main_containers(spec, name)[:1] for port in objects_of(main.get("ports"))]


def containers_of(spec: ReplicaSpec) -> list[Body]:
    """All containers of the template; what is none in their list is passed over."""
    return objects_of(pod_of(spec).get("containers"))


def init_containers_of(spec: ReplicaSpec) -> list[Body]:
    return objects_of(pod_of(spec).get("initContainers"))
