"""In how many older versions objects may still be stored."""

import asyncio

import pytest

from tf_operator.app.webhook import stored_versions
from tf_operator.machinery.transport.errors import Forbidden, Status, Unreachable


class Cluster:
    """Answers with the next of these, and with the last one for ever."""

    def __init__(self, *answers):
        self.answers = list(answers)

    async def get(self, _resource, _key):
        found = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(found, Exception):
            raise found
        versions = [{"name": name, "storage": name == "v1"} for name in ("v1", "v1beta1", "v1alpha1")]
        return {"spec": {"versions": versions}, "status": {"storedVersions": found}}


DENIED = Forbidden(403, Status(message="not you"))


@pytest.mark.parametrize(
    ("answers", "reported"),
    [
        ([["v1alpha1", "v1beta1", "v1"], ["v1"]], [2, 0, 0]),
        ([Unreachable("away"), ["v1beta1"]], [1, 1]),
        ([DENIED, ["v1beta1"]], []),
    ],
    ids=["until they are migrated", "when the API server is back", "nothing without the right"],
)
async def test_older_stored_versions_are_reported(clock, answers, reported):
    found, cluster = [], Cluster(*answers)
    watching = asyncio.create_task(
        stored_versions.watch(["tfjobs.x"], cluster, clock, lambda crd, older: found.append((crd, older)))
    )
    await clock.advance(2 * stored_versions.EVERY)
    watching.cancel()

    assert found == [("tfjobs.x", older) for older in reported]
