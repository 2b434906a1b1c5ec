"""A pod's own account at a real apiserver; how an operator gets over other changes of credentials is in test/faults."""

import math
from urllib.parse import urlsplit

import pytest

from support.settle import eventually
from tf_operator.machinery.clock import SystemClock
from tf_operator.machinery.ratelimit import TokenBucket
from tf_operator.machinery.transport.client import ApiClient
from tf_operator.machinery.transport.connection import Connection
from tf_operator.machinery.transport.in_cluster import InCluster
from tf_operator.machinery.transport.requests import Resource
from tf_operator.meta import uid_of

REVIEWS = Resource("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", is_namespaced=False)


@pytest.fixture
def bound_token(admin, namespace):
    """A function that gives a token of the namespace's default account, valid as long as a Secret exists."""

    async def make(secret):
        owner = await admin.create(f"/api/v1/namespaces/{namespace}/secrets", {"metadata": {"name": secret}})
        bound = {"apiVersion": "v1", "kind": "Secret", "name": secret, "uid": uid_of(owner)}
        request = {"spec": {"boundObjectRef": bound, "expirationSeconds": 3600}}
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default/token"
        return (await admin.create(path, request))["status"]["token"]

    return make


@pytest.mark.real_server("tokens of service accounts")
async def test_a_token_that_is_revoked_is_replaced_in_the_middle_of_a_call(
    control_plane, namespace, admin, bound_token, tmp_path
):
    (tmp_path / "token").write_text(await bound_token("first"))
    (tmp_path / "ca.crt").write_bytes(control_plane.ca_file.read_bytes())
    address, clock = urlsplit(control_plane.api_url), SystemClock()
    environment = {"KUBERNETES_SERVICE_HOST": address.hostname, "KUBERNETES_SERVICE_PORT": str(address.port)}
    async with Connection(InCluster(environment, directory=tmp_path), clock=clock) as connection:
        api = ApiClient(connection, clock=clock, budget=TokenBucket(clock, qps=math.inf, burst=1))

        async def credential():
            user = (await api.create(REVIEWS, "", {}))["status"]["userInfo"]
            assert user["username"] == f"system:serviceaccount:{namespace}:default"
            return user["extra"]["authentication.kubernetes.io/credential-id"]

        async def is_replaced():
            return await credential() != first

        first = await credential()
        (tmp_path / "token").write_text(await bound_token("second"))
        await admin.delete(f"/api/v1/namespaces/{namespace}/secrets/first")
        # The apiserver remembers for ten seconds that a token was valid; without a 401 the file is read after a minute.
        await eventually(is_replaced, within=30, every=0.5)
