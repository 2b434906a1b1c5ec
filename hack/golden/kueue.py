"""What a case says of Kueue."""

from typing import Any

from tf_operator.job.training_job import TrainingJob
from tf_operator.planning.kueue import state, workload
from tf_operator.planning.kueue.state import Flavor, KueueState, Priority, Workload

Yaml = dict[str, Any]


def read(entry: Yaml, job: TrainingJob) -> KueueState:
    """Kueue as it is observed; a class of priority is its name, value, and whether it is one of pods."""
    fields: Yaml = {"version": state.VERSIONS[0], "priority": ["", 0], "flavors": {}} | entry
    flavors = fields["flavors"].items()
    priority = fields["priority"]
    return KueueState(
        **fields
        | {
            "workload": _workload(entry["workload"], job) if "workload" in entry else None,
            "priority": None if priority is None else Priority(*priority),
            "flavors": {name: Flavor(flavor["nodeLabels"], tuple(flavor["tolerations"])) for name, flavor in flavors},
        }
    )


def _workload(entry: Yaml, job: TrainingJob) -> Workload:
    """That of the job; made for what it asks for now, if the case does not say otherwise."""
    defaults: Yaml = {"digest": workload.digest(job), "spec": workload.place(job, KueueState()), "status": {}}
    fields = defaults | entry
    finalizers = tuple(fields.get("finalizers", ()))
    return Workload(workload.name_of(job), "uid-of-the-workload", "9", **fields | {"finalizers": finalizers})
