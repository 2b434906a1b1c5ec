"""Two served APIs as other projects might have them: a list of roles, other names, and a status of one phase.

Their profiles differ from that of kubeflow.org/v1, and from each other, in every value.
"""

import json
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from msgspec import structs

from tf_operator.dialects import record as codec
from tf_operator.dialects.fields import Fields
from tf_operator.dialects.metadata import job_of
from tf_operator.dialects.served import Crd, JobSummary, ServedAPI
from tf_operator.job import defaults
from tf_operator.job.profile import (
    AfterEnd,
    ExitCodes,
    FailureScope,
    Labels,
    NameStyle,
    Profile,
    RestartBy,
    Words,
)
from tf_operator.job.record import FailureCause, ReplicaType
from tf_operator.job.report import EventKind, JobReport
from tf_operator.job.training_job import CleanPodPolicy, ReplicaSpec, RestartPolicy, RunPolicy, TrainingJob
from tf_operator.meta import Body, GroupVersionResource, objects_of

RESOURCE = GroupVersionResource("toys.example.org", "v1", "trainings", "Training")
NAMES: Any = {name: f"toys.example.org/{name}" for name in ("job", "type", "index", "role")}
LABELS = Labels(**NAMES, operator_name="toy-operator", master_role="boss")
PROFILE = Profile(
    *(RESOURCE.api_version, RESOURCE.kind, "main", "mesh", 7000, ExitCodes({75}), Words("spec.roles"), LABELS),
    restart_by=RestartBy.NEW_POD,
    after_end=AfterEnd.REPLICAS,
)
PLAYS = GroupVersionResource("toys.example.org", "v1", "plays", "Play")
PLAY_PROFILE = Profile(
    *(PLAYS.api_version, PLAYS.kind, "actor", "cue", 7001, ExitCodes({3}, is_oom_final=True)),
    Words(
        "spec.roles", clean_up="afterwards", clean_up_values={CleanPodPolicy.STOP: "no encore"}, suspended="on a break"
    ),
    Labels("play-operator", "job", "type", "index", "role", extra=(("play", "{job}-{runtime_id}"),)),
    names=NameStyle.GENERATED,
    failure_scope=FailureScope.DECIDING,
    restart_by=RestartBy.TEMPLATE,
    after_end=AfterEnd.CLEAN_UP,
    has_cluster_always=True,
    service_port_name="stage",
    has_operator_config=True,
    has_tensorboard_spec=True,
    server_image="prompter:1",
)
_TYPES = {"boss": ReplicaType.CHIEF, "helper": ReplicaType.WORKER}
_POLICIES = {
    RestartBy.NEW_POD: (RestartPolicy.EXIT_CODE, CleanPodPolicy.NONE),
    RestartBy.TEMPLATE: (RestartPolicy.NEVER, CleanPodPolicy.STOP),
}


@dataclass(frozen=True, slots=True)
class ToyCrd(Crd):
    resource: GroupVersionResource = RESOURCE

    def text(self) -> str:
        text, anything = {"type": "string"}, {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        parts = {"apiVersion": text, "kind": text, "spec": anything, "status": anything}
        version = {"name": self.resource.version, "served": True, "storage": True, "subresources": {"status": {}}}
        version["schema"] = {"openAPIV3Schema": {"type": "object", "properties": parts}}
        names = {"kind": self.resource.kind, "plural": self.resource.plural}
        spec = {"group": self.resource.group, "scope": "Namespaced", "names": names, "versions": [version]}
        head = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
        return json.dumps({**head, "metadata": {"name": str(self.resource)}, "spec": spec})


def read(profile: Profile, metadata: Body, spec: object, stored: object) -> TrainingJob:
    fields = Fields({"spec": spec}).below("spec")
    role_fields = [Fields(role, "spec.roles", fields.problems) for role in objects_of(fields.body.get("roles"))]
    restart, clean_pods = _POLICIES[profile.restart_by]
    roles = [_read_role(role, profile.container, restart) for role in role_fields]
    job = job_of(metadata, stored, profile)
    job = structs.replace(
        job,
        replicas=tuple(sorted(roles, key=lambda replica: list(ReplicaType).index(replica.type))),
        run_policy=RunPolicy(clean_pods=clean_pods),
        runtime_id=job.uid[:4],
        record=codec.read(job.stored_status.get("operator")),
        problems=tuple(fields.problems),
    )
    return defaults.with_defaults(job)


def _read_role(role: Fields, container: str, restart: RestartPolicy) -> ReplicaSpec:
    kind, count = _TYPES.get(role.text("role"), ReplicaType.WORKER), role.integer("count") or 1
    template = {"spec": {"containers": [{"name": container, "image": role.text("image")}]}}
    return ReplicaSpec(kind, count, restart, template, role.path)


def write_status(report: JobReport, stored: Body) -> dict[str, Any]:
    pods = {line.pod: line.phase for line in report.lines() if line.uid} or stored.get("pods", {})
    return {"phase": report.record.phase.lower(), "pods": pods, "operator": codec.write(report.record)}


def summarize(_metadata: Any, _spec: bytes, status: bytes) -> JobSummary:  # noqa: ANN401
    return JobSummary(json.loads(status).get("phase", ""))


REASONS: Any = ({kind: kind.name.title() for kind in EventKind}, {cause: f"Toy{cause}" for cause in FailureCause})
API = ServedAPI(RESOURCE, (PROFILE,), partial(read, PROFILE), write_status, summarize, ToyCrd("support"), *REASONS)
PLAY_API = replace(
    API,
    resource=PLAYS,
    profiles=(PLAY_PROFILE,),
    read=partial(read, PLAY_PROFILE),
    crd=ToyCrd("support", resource=PLAYS),
)
