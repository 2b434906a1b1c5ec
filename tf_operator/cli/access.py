"""Asks the API server what its user may do, by a SelfSubjectAccessReview, which everybody may create."""

from typing import Final

from tf_operator.cli.diagnosis import Permission
from tf_operator.client import AsyncTFJobs
from tf_operator.machinery.transport.requests import Resource
from tf_operator.meta import mapping_of

_REVIEWS: Final = Resource(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", is_namespaced=False
)


async def is_allowed(jobs: AsyncTFJobs, permission: Permission, name: str = "") -> bool:
    """Whether the user has a permission in the namespace of the jobs, for the object of this name or for all."""
    reply = await jobs.client.create(_REVIEWS, "", permission.review(jobs.namespace, name))
    return mapping_of(reply.get("status")).get("allowed") is True
