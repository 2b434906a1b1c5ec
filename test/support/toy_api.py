"""A served API as another project might have it: a list of roles, other names, and a status of one phase."""

import json
from dataclasses import dataclass, replace
from typing import Any

from tf_operator.dialects import record as codec
from tf_operator.dialects.fields import Fields, entries
from tf_operator.dialects.metadata import job_of
from tf_operator.dialects.served import Crd, JobSummary, ServedAPI
from tf_operator.job import defaults
from tf_operator.job.profile import ExitCodes, Labels, Profile
from tf_operator.job.record import FailureCause, ReplicaType
from tf_operator.job.report import EventKind, JobReport
from tf_operator.job.training_job import ReplicaSpec, RestartPolicy, TrainingJob
from tf_operator.meta import Body, GroupVersionResource

RESOURCE = GroupVersionResource("toys.example.org", "v1", "trainings", "Training")
NAMES: Any = {name: f"toys.example.org/{name}" for name in ("job", "type", "index", "role")}
LABELS = Labels(**NAMES, operator_name="toy-operator", master_role="boss")
PROFILE = Profile(RESOURCE.api_version, RESOURCE.kind, "main", "mesh", 7000, ExitCodes({75}), "spec.roles", LABELS)
_TYPES = {"boss": ReplicaType.CHIEF, "helper": ReplicaType.WORKER}


@dataclass(frozen=True, slots=True)
class ToyCrd(Crd):
    def text(self) -> str:
        text, anything = {"type": "string"}, {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        parts = {"apiVersion": text, "kind": text, "spec": anything, "status": anything}
        version = {"name": RESOURCE.version, "served": True, "storage": True, "subresources": {"status": {}}}
        version["schema"] = {"openAPIV3Schema": {"type": "object", "properties": parts}}
        names = {"kind": RESOURCE.kind, "plural": RESOURCE.plural}
        spec = {"group": RESOURCE.group, "scope": "Namespaced", "names": names, "versions": [version]}
        head = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
        return json.dumps({**head, "metadata": {"name": str(RESOURCE)}, "spec": spec})


def read(metadata: Body, spec: object, stored: object) -> TrainingJob:
    fields = Fields({"spec": spec}).below("spec")
    roles = [_read_role(Fields(role, "spec.roles", fields.problems)) for role in entries(fields.body.get("roles"))]
    job = job_of(metadata, stored, PROFILE)
    replicas = tuple(sorted(roles, key=lambda found: list(ReplicaType).index(found.type)))
    record, problems = codec.read(job.stored_status.get("operator")), tuple(fields.problems)
    return defaults.with_defaults(replace(job, replicas=replicas, record=record, problems=problems))


def _read_role(role: Fields) -> ReplicaSpec:
    kind, count = _TYPES.get(role.text("role"), ReplicaType.WORKER), role.integer("count") or 1
    template = {"spec": {"containers": [{"name": PROFILE.container, "image": role.text("image")}]}}
    return ReplicaSpec(kind, count, RestartPolicy.EXIT_CODE, template, role.path)


def write_status(report: JobReport, _: Body) -> dict[str, Any]:
    pods = {line.pod: line.phase for line in report.lines() if line.uid}
    return {"phase": report.record.phase.lower(), "pods": pods, "operator": codec.write(report.record)}


def summarize(_metadata: Any, _spec: bytes, status: bytes) -> JobSummary:  # noqa: ANN401
    return JobSummary(json.loads(status).get("phase", ""))


REASONS: Any = ({kind: kind.name.title() for kind in EventKind}, {cause: f"Toy{cause}" for cause in FailureCause})
API = ServedAPI(RESOURCE, (PROFILE,), read, write_status, summarize, ToyCrd("support"), *REASONS)
