"""A kind of child as another project might add it: a Reminder of how long a job stays when it has ended.

Also a program: the operator of this tree with that kind, as a fork has it that adds a module and a line.
"""

import sys

from support.resources import Json
from tf_operator.app import command
from tf_operator.job.training_job import TrainingJob
from tf_operator.meta import GroupVersionResource
from tf_operator.planning.child_kinds import kinds
from tf_operator.planning.child_kinds.kind import ChildKind

RESOURCE = GroupVersionResource("toys.example.org", "v1", "reminders", "Reminder")


def _spec(job: TrainingJob) -> Json | None:
    seconds = job.run_policy.ttl_seconds
    return None if seconds is None else {"of": job.key.name, "seconds": seconds}


KIND = ChildKind(RESOURCE, spec=_spec)
WITH_REMINDERS = (*kinds.ALL, KIND)


def crd() -> Json:
    """It takes no more than an hour."""
    anything, hour = (
        {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        {"type": "integer", "maximum": 3600},
    )
    schema = {"type": "object", "properties": {"spec": {**anything, "properties": {"seconds": hour}}}}
    version = {"name": RESOURCE.version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"kind": RESOURCE.kind, "plural": RESOURCE.plural}
    spec = {"group": RESOURCE.group, "scope": "Namespaced", "names": names, "versions": [version]}
    head = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    return {**head, "metadata": {"name": str(RESOURCE)}, "spec": spec}


if __name__ == "__main__":
    kinds.ALL = WITH_REMINDERS  # type: ignore[misc]
    sys.exit(command.main())
