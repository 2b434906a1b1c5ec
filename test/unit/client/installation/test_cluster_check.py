"""Which releases of Kubernetes an installation is refused on."""

import json

import pytest

from tf_operator.client import NotPossible
from tf_operator.client.installation import cluster_check, objects


class Cluster:
    """An API server of some release."""

    def __init__(self, major, minor):
        self._release = {"major": major, "minor": minor}

    async def send(self, request):
        assert request.path == "/version"
        return json.dumps(self._release).encode()


async def test_a_release_that_is_older_than_supported_is_refused():
    major, minor = objects.oldest_release()

    with pytest.raises(NotPossible, match=rf"this is Kubernetes 1\.{minor - 1}, and the operator needs 1\.{minor}"):
        await cluster_check._check_release(Cluster(str(major), f"{minor - 1}+"))


@pytest.mark.parametrize("plus", [0, 1, 20])
async def test_the_oldest_supported_release_and_newer_ones_are_not(plus):
    major, minor = objects.oldest_release()

    await cluster_check._check_release(Cluster(str(major), f"{minor + plus}+"))
