"""Who is it, and may they? Asked of the apiserver, which alone knows.

TokenReview says whose a bearer token is, SubjectAccessReview whether that user may do something that is no object but
a path, as ``nonResourceURLs`` in a ClusterRole allow it. So a server of a page needs neither users nor
rules of its own. Both are creations that store nothing; they need rights that an operator has only when it is to ask.

A token is a secret: it goes into the body of one request and nowhere else, no error and no ``repr`` shows it. What the
reviews say is read without being believed: only a clear yes is one. Who remembers the answers, and for how long, is
the caller's affair (``app.http.metrics_auth``).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tf_operator.machinery.transport.client import ApiClient
from tf_operator.machinery.transport.requests import Resource
from tf_operator.meta import list_of, mapping_of, text_of

TOKEN_REVIEWS = Resource("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", is_namespaced=False)
ACCESS_REVIEWS = Resource(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", is_namespaced=False
)


@dataclass(frozen=True, slots=True)
class User:
    """Somebody, as the apiserver knows them."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)
    """What the authenticator adds, such as the pod that a token is bound to; authorizers may read it."""


async def review_token(client: ApiClient, token: str, *, audience: str = "") -> User | None:
    """The user that a token stands for; ``None`` when it is nobody's, or meant for another audience."""
    spec = {"token": token} | ({"audiences": [audience]} if audience else {})
    reply = await client.create(TOKEN_REVIEWS, "", {"spec": spec})
    status = mapping_of(reply.get("status"))
    user = mapping_of(status.get("user"))
    name = text_of(user, "username")
    if status.get("authenticated") is not True or not name:
        return None
    if audience and audience not in list_of(status.get("audiences")):
        return None  # whoever answered knows nothing of audiences
    groups = user.get("groups")
    return User(
        name=name,
        uid=text_of(user, "uid"),
        groups=tuple(group for group in groups if isinstance(group, str)) if isinstance(groups, list) else (),
        extra=mapping_of(user.get("extra")),
    )


async def is_allowed(client: ApiClient, user: User, *, verb: str, path: str) -> bool:
    """Whether a user may do this to a path that is no resource."""
    spec = {
        "user": user.name,
        "uid": user.uid,
        "groups": list(user.groups),
        "extra": dict(user.extra),
        "nonResourceAttributes": {"verb": verb, "path": path},
    }
    reply = await client.create(ACCESS_REVIEWS, "", {"spec": spec})
    status = mapping_of(reply.get("status"))
    return status.get("allowed") is True and status.get("denied") is not True
