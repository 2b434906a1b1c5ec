"""Authentication and authorization by reviews: only an explicit yes of the apiserver is one."""

import pytest

from tf_operator.machinery.transport import authn
from tf_operator.machinery.transport.authn import User


class Apiserver:
    """Answers each creation with the same status, and records it."""

    def __init__(self, status):
        self.status = status
        self.reviews = []

    async def create(self, resource, namespace, body):
        self.reviews.append((str(resource), namespace, body["spec"]))
        return {**body, "status": self.status}


async def test_a_reviewed_token_is_that_of_a_user():
    server = Apiserver(
        {
            "authenticated": True,
            "user": {"username": "anna", "uid": "u-1", "groups": ["a", "b"], "extra": {"pod": ["p"]}},
        }
    )

    assert await authn.review_token(server, "secret") == User("anna", "u-1", ("a", "b"), {"pod": ["p"]})
    assert server.reviews == [("tokenreviews.authentication.k8s.io", "", {"token": "secret"})]


@pytest.mark.parametrize(
    "status",
    [
        pytest.param({"authenticated": False, "error": "expired"}, id="refused"),
        pytest.param({"user": {"username": "anna"}}, id="not authenticated"),
        pytest.param({"authenticated": "true", "user": {"username": "anna"}}, id="authenticated by a string"),
        pytest.param({"authenticated": True}, id="no user"),
        pytest.param({"authenticated": True, "user": {"username": ""}}, id="no name"),
        pytest.param(None, id="no status"),
    ],
)
async def test_a_token_without_an_explicit_user_is_nobodys(status):
    assert await authn.review_token(Apiserver(status), "secret") is None


@pytest.mark.parametrize(("audiences", "is_theirs"), [(["reports", "other"], True), (["other"], False), (None, False)])
async def test_a_token_has_to_be_meant_for_who_asks(audiences, is_theirs):
    server = Apiserver({"authenticated": True, "audiences": audiences, "user": {"username": "anna"}})

    assert (await authn.review_token(server, "secret", audience="reports") is not None) == is_theirs
    assert server.reviews[0][2] == {"token": "secret", "audiences": ["reports"]}


async def test_invalid_groups_are_left_out():
    server = Apiserver({"authenticated": True, "user": {"username": "anna", "groups": "all", "extra": []}})

    assert await authn.review_token(server, "secret") == User("anna")


async def test_a_review_of_access_has_all_that_is_known_of_the_user():
    server = Apiserver({"allowed": True})
    anna = User("anna", "u-1", ("a",), {"pod": ["p"]})

    assert await authn.is_allowed(server, anna, verb="get", path="/metrics")
    (review,) = server.reviews
    assert review == (
        "subjectaccessreviews.authorization.k8s.io",
        "",
        {
            "user": "anna",
            "uid": "u-1",
            "groups": ["a"],
            "extra": {"pod": ["p"]},
            "nonResourceAttributes": {"verb": "get", "path": "/metrics"},
        },
    )


@pytest.mark.parametrize(
    "status",
    [
        pytest.param({"allowed": False}, id="no"),
        pytest.param({}, id="nothing"),
        pytest.param({"allowed": 1}, id="something"),
        pytest.param({"allowed": True, "denied": True}, id="both"),
        pytest.param([], id="no status"),
    ],
)
async def test_only_an_explicit_yes_allows_access(status):
    assert not await authn.is_allowed(Apiserver(status), User("anna"), verb="get", path="/metrics")
