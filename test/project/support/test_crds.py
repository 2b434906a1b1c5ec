"""Waiting for a new kind, on the answers that an apiserver gives while it is not yet served."""

import pytest

from support.api import RefusedError
from support.crds import create_crd

CRD = {
    "spec": {
        "group": "example.test",
        "names": {"plural": "things"},
        "versions": [
            {"name": "v1", "served": True, "storage": False},
            {"name": "v2", "served": True, "storage": True},
            {"name": "v3", "served": False, "storage": False},
        ],
    }
}


class FakeApi:
    """Answers each list with the next status of its path, and 200 after the last."""

    def __init__(self, **statuses: list[int]) -> None:
        self.statuses = statuses
        self.asked: list[str] = []

    async def create(self, path: str, body: dict) -> dict:
        return body

    async def get(self, path: str, **params: str) -> dict:
        version = path.split("/")[3]
        self.asked.append(version)
        if left := self.statuses.get(version):
            raise RefusedError("GET", left.pop(0), {})
        return {}


async def test_every_served_version_is_asked_for_until_it_is_there():
    api = FakeApi(v1=[404, 429], v2=[429])

    things = await create_crd(api, CRD)

    assert things.path() == "/apis/example.test/v2/things"
    assert api.asked == ["v1", "v1", "v1", "v2", "v2"]


async def test_an_answer_that_is_no_sign_of_initialising_ends_the_wait():
    with pytest.raises(RefusedError, match="403"):
        await create_crd(FakeApi(v1=[403]), CRD)


async def test_the_wait_is_bounded():
    with pytest.raises(TimeoutError):
        await create_crd(FakeApi(v1=[404] * 100), CRD, within=0.1)
