"""What is in force where a job says nothing.

The CRD's schema fills in most of this, so that users see it. Objects that were stored under an older schema lack
it, and the port is not in any schema: so it is done again here, on every read, and doing it twice changes nothing.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import structs

from tf_operator.job.profile import Profile
from tf_operator.job.training_job import ReplicaSpec, TrainingJob
from tf_operator.meta import MAPPINGS, Body

REPLICAS = 1
GROWTH_PERCENT = 50


def with_defaults(job: TrainingJob) -> TrainingJob:
    """The job with the port of the cluster in the deciding container of each template."""
    specs = tuple(structs.replace(spec, template=_with_port(spec, job.profile)) for spec in job.replicas)
    return job if specs == job.replicas else structs.replace(job, replicas=specs)


def port_of(spec: ReplicaSpec, profile: Profile) -> int:
    """The port of the cluster, as long as the container names no other."""
    return profile.port if spec.port is None else spec.port


def _with_port(spec: ReplicaSpec, profile: Profile) -> Body:
    """A port of the agreed name is added where there is none; a user's own of that name stays as it is."""
    template, port = spec.template, {"name": profile.port_name, "containerPort": port_of(spec, profile)}
    pod = template.get("spec")
    containers = pod.get("containers") if isinstance(pod, MAPPINGS) else None
    if not isinstance(pod, MAPPINGS) or not isinstance(containers, list):
        return template
    uses_host = pod.get("hostNetwork") is True
    new_containers = [
        _open_port(entry, port, uses_host=uses_host) if _is_main(entry, profile) else entry for entry in containers
    ]
    return template if new_containers == containers else {**template, "spec": {**pod, "containers": new_containers}}


def _is_main(container: object, profile: Profile) -> bool:
    return isinstance(container, MAPPINGS) and container.get("name") == profile.container


def _open_port(container: Mapping[str, Any], port: Body, *, uses_host: bool) -> Mapping[str, Any]:
    """On the network of its node each port of a pod is one of the node, and may be named only once."""
    ports = container.get("ports") or []
    if not isinstance(ports, list):
        return container
    entries = [entry for entry in ports if isinstance(entry, MAPPINGS)]
    if any(entry.get("name") == port["name"] or (uses_host and _is_same(entry, port)) for entry in entries):
        return container
    return {**container, "ports": [*ports, port]}


def _is_same(entry: Mapping[str, Any], port: Body) -> bool:
    return entry.get("containerPort") == port["containerPort"] and (entry.get("protocol") or "TCP") == "TCP"
