"""``kubeflow.org/hub``: TFJobs of v1 under a version that is no number, so that ``kubectl`` prefers any other.

For clusters that show one of the older versions and no v1, as in ``manifests/overlays/period-v1alpha1``: there
``kubectl get tfjobs`` means the older version. Objects are stored and reconciled in this one, and it differs from v1 in
nothing but its name, which is in requests, owner references and events.
"""

from dataclasses import replace
from typing import Any, Final

from msgspec import structs

from tf_operator.dialects.kubeflow import v1
from tf_operator.dialects.served import Crd, ServedAPI
from tf_operator.job.training_job import TrainingJob
from tf_operator.meta import Body, GroupVersionResource, text_of

RESOURCE: Final = structs.replace(v1.RESOURCE, version="hub")


def convert(body: Body, version: str, *, is_written: bool | None = None) -> dict[str, Any]:
    """As for v1, which is in no object here."""
    v1_body = _rename(body, RESOURCE, v1.RESOURCE)
    result = v1.API.conversion.convert(v1_body, _version(version), is_written=is_written)
    return _rename(result, v1.RESOURCE, RESOURCE)


def _version(name: str) -> str:
    return v1.RESOURCE.version if name == RESOURCE.version else name


def _rename(body: Body, old: GroupVersionResource, new: GroupVersionResource) -> dict[str, Any]:
    is_old = text_of(body, "apiVersion") == old.api_version
    return {**body, "apiVersion": new.api_version} if is_old else dict(body)


def _under_this_name(api: ServedAPI) -> ServedAPI:
    profiles = {profile: replace(profile, api_version=RESOURCE.api_version) for profile in api.profiles}

    def read(metadata: Body, spec: object, stored_status: object) -> TrainingJob:
        job = api.read(metadata, spec, stored_status)
        return structs.replace(job, profile=profiles[job.profile])

    return replace(
        api,
        resource=RESOURCE,
        profiles=tuple(profiles.values()),
        read=read,
        crd=Crd(__package__, file="hub.json", older="older_versions.json"),
        conversion=replace(api.conversion, convert=convert),
    )


API: Final = _under_this_name(v1.API)
FORK_API: Final = _under_this_name(v1.FORK_API)
