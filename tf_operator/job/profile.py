"""What a served API fixes for all its jobs. Code asks the profile and never for the name of an API."""

from dataclasses import dataclass
from typing import Final

OPERATOR_LABEL: Final = "training.kubeflow.org/operator-name"
"""On all children: which controller they belong to. All served APIs share its name, so one watch serves them all."""
JOB_UID_LABEL: Final = "training.kubeflow.org/job-uid"
"""On Services: lets all Services of one job, and of no job before or after it, be deleted by one request."""


@dataclass(frozen=True, slots=True)
class Labels:
    """The labels of children: the names that an API's users select by."""

    job: str
    type: str
    index: str
    role: str
    operator_name: str
    """The controller's name, which is the value of ``OPERATOR_LABEL``.

    It differs by API, so that the Services of jobs of one name in two APIs never select each other's pods.
    """
    master_role: str = "master"

    @property
    def selector(self) -> dict[str, str]:
        """What all children of an API's jobs carry."""
        return {OPERATOR_LABEL: self.operator_name}


@dataclass(frozen=True, slots=True)
class Profile:
    """The constants of one served API."""

    api_version: str
    kind: str
    container: str
    """The container that decides: its exit is the replica's."""
    port_name: str
    port: int
    retryable_exit_codes: range
    """Under ``ExitCode`` these are tried again; the other codes but 0 are final."""
    replicas_field: str
    """Where a user writes the replicas; for messages that are not about one type."""
    labels: Labels
