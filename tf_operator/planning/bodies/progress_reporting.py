"""What the deciding pod of a job has so that its program can report how far it is, as in Kubeflow Trainer (KEP-2779).

Three variables lead to a URL, a token and an authority; clients of Kubeflow Trainer find them by these names. In a
cluster the token is the kubelet's: of the pod's service account, for one audience, and bound to the pod. The authority
is an annotation of the pod, shown as a file, so there is no object beside the pod. On a machine without a cluster the
token is an annotation, and nothing needs an authority.
"""

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tf_operator.job.record import ReplicaType
from tf_operator.job.training_job import TrainingJob
from tf_operator.meta import list_of

URL_VARIABLE: Final = "KUBEFLOW_TRAINER_SERVER_URL"
TOKEN_VARIABLE: Final = "KUBEFLOW_TRAINER_SERVER_TOKEN"  # noqa: S105 (the name of a variable)
AUTHORITY_VARIABLE: Final = "KUBEFLOW_TRAINER_SERVER_CA_CERT"
AUDIENCE: Final = "tf-operator.kubeflow.org/progress"
TOKEN_SECONDS: Final = 3600
"""The kubelet renews a token when a fifth of its time is left."""
AUTHORITY_ANNOTATION: Final = "tf-operator.kubeflow.org/progress-ca"
TOKEN_ANNOTATION: Final = "tf-operator.kubeflow.org/progress-token"  # noqa: S105 (the name of an annotation)
VOLUME: Final = "tf-operator-progress"
FOLDER: Final = "/var/run/secrets/kubeflow/trainer"
_AUTHORITY_FILE: Final = "ca.crt"
_TOKEN_FILE: Final = "token"  # noqa: S105 (the name of a file)


@dataclass(frozen=True, slots=True)
class ProgressServer:
    """Where programs report how far they are."""

    url: str
    """Without a path."""
    secret: str = ""
    """What the tokens of jobs are derived from, where there is no cluster that has tokens for pods: it costs nothing
    there, so every job has one."""
    authority: str = ""
    """The certificate of who has signed the server's, as PEM; empty where there is a secret."""

    def token_of(self, job_uid: str) -> str:
        return f"{job_uid}.{hmac.digest(self.secret.encode(), job_uid.encode(), 'sha256').hex()}"

    def job_of(self, token: str) -> str:
        """The UID of the job whose token this is; empty if it is nobody's."""
        uid = token.partition(".")[0]
        return uid if hmac.compare_digest(token.encode(), self.token_of(uid).encode()) else ""


def server_of(job: TrainingJob, kind: ReplicaType, index: int, server: ProgressServer | None) -> ProgressServer | None:
    """Where this replica reports, if it does: only the deciding one, so that a job has one reporter."""
    if server is None or not job.profile.takes_reports or job.main_replica != (kind, index):
        return None
    return server if server.secret or job.run_policy.progress.reports else None


def added(pod: Mapping[str, Any], job: TrainingJob, server: ProgressServer) -> dict[str, Any]:
    """The pod with what its program needs to report."""
    metadata, spec = pod["metadata"], pod["spec"]
    own, sources = _files(job, server)
    annotations = {**metadata.get("annotations", {}), **own}
    volume = {"name": VOLUME, "projected": {"sources": sources}}
    containers = [_reporting(entry, job, server) for entry in spec["containers"]]
    return {
        **pod,
        "metadata": {**metadata, "annotations": annotations},
        "spec": {**spec, "volumes": [*list_of(spec.get("volumes")), volume], "containers": containers},
    }


def path_of(job: TrainingJob) -> str:
    """Where reports of a job are sent at the server."""
    profile, key = job.profile, job.key
    return f"/apis/{profile.api_version}/namespaces/{key.namespace}/{profile.kind.lower()}s/{key.name}/status"


def _files(job: TrainingJob, server: ProgressServer) -> tuple[dict[str, str], list[dict[str, Any]]]:
    """The annotations that files are made of, and the sources of the volume."""
    if server.secret:
        items = [_item(_TOKEN_FILE, TOKEN_ANNOTATION)]
        return {TOKEN_ANNOTATION: server.token_of(job.uid)}, [{"downwardAPI": {"items": items}}]
    token = {"path": _TOKEN_FILE, "audience": AUDIENCE, "expirationSeconds": TOKEN_SECONDS}
    items = [_item(_AUTHORITY_FILE, AUTHORITY_ANNOTATION)]
    return {AUTHORITY_ANNOTATION: server.authority}, [{"serviceAccountToken": token}, {"downwardAPI": {"items": items}}]


def _item(file: str, annotation: str) -> dict[str, Any]:
    return {"path": file, "fieldRef": {"fieldPath": f"metadata.annotations['{annotation}']"}}


def _reporting(container: object, job: TrainingJob, server: ProgressServer) -> object:
    """The container with the variables, if it is the one that decides; a user's own URL stays."""
    if not isinstance(container, Mapping) or container.get("name") != job.profile.container:
        return container
    env = list_of(container.get("env"))
    if any(isinstance(entry, Mapping) and entry.get("name") == URL_VARIABLE for entry in env):
        return container
    variables = {URL_VARIABLE: server.url + path_of(job), TOKEN_VARIABLE: f"{FOLDER}/{_TOKEN_FILE}"}
    if server.authority:
        variables[AUTHORITY_VARIABLE] = f"{FOLDER}/{_AUTHORITY_FILE}"
    more = [{"name": name, "value": value} for name, value in variables.items()]
    mount = {"name": VOLUME, "mountPath": FOLDER, "readOnly": True}
    return {**container, "env": [*env, *more], "volumeMounts": [*list_of(container.get("volumeMounts")), mount]}
