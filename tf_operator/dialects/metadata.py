"""What a job has of every Kubernetes object: the part of ``ServedAPI.read`` that is the same for all APIs."""

from collections.abc import Mapping
from typing import Any, Final

from tf_operator.job.profile import Profile
from tf_operator.job.training_job import TrainingJob
from tf_operator.meta import Body, ObjectKey, labels_of, text_of

_PORTABLE: Final = ("name", "generateName", "namespace", "labels", "annotations")


def portable(metadata: Body) -> dict[str, Any]:
    """What of it a user has written, and another object can have, too."""
    return {name: metadata[name] for name in _PORTABLE if name in metadata}


def job_of(metadata: Body, stored_status: object, profile: Profile) -> TrainingJob:
    """A job with this metadata, and with the status that is stored; its spec and its record are yet to be read."""
    annotations, generation = metadata.get("annotations"), metadata.get("generation")
    return TrainingJob(
        key=ObjectKey(text_of(metadata, "namespace"), text_of(metadata, "name")),
        uid=text_of(metadata, "uid"),
        resource_version=text_of(metadata, "resourceVersion"),
        profile=profile,
        annotations=annotations if isinstance(annotations, Mapping) else {},
        labels=labels_of({"metadata": metadata}),
        generation=generation if isinstance(generation, int) else 0,
        is_being_deleted=metadata.get("deletionTimestamp") is not None,
        stored_status=stored_status if isinstance(stored_status, Mapping) else {},
    )
