"""Older versions of TFJob on a real API server: the webhook of a real operator converts them."""

import asyncio
import base64
from datetime import UTC, datetime, timedelta

import pytest

from lab.control_plane.api import ApiRefusedError
from support import builders
from support.older_versions import HOST, SECRET, define, path, serving
from support.operator_process import operator
from support.resources import SECRETS, TFJOBS
from support.settle import eventually
from tf_operator.app.webhook import keys
from tf_operator.dialects.kubeflow.versions.conversion import OLDER


@pytest.fixture
def namespace(plane):
    return plane.make_namespace("older-versions")


@pytest.fixture(scope="module")
def older_versions(shared_plane):
    """The versions alone: what a version itself refuses needs no webhook."""
    define(shared_plane, f"--older-versions={','.join(OLDER)}", f"--webhook=https://{HOST}:1")
    yield
    define(shared_plane)


async def test_users_of_v1_do_not_notice_that_the_webhook_is_down(plane, namespace, older_versions):
    async with operator(plane, namespaces=[namespace], user="admin"):
        plane.admin.create(TFJOBS.path(namespace), builders.tfjob("j").workers(1).body())
        await asyncio.to_thread(plane.admin.wait_for, f"/api/v1/namespaces/{namespace}/pods/j-worker-0")

        assert [item["metadata"]["name"] for item in plane.admin.get(TFJOBS.path(namespace))["items"]] == ["j"]
        with pytest.raises(ApiRefusedError, match=r"conversion webhook for kubeflow.org/v1, Kind=TFJob failed"):
            plane.admin.get(path("v1beta1", namespace, "j"))


async def test_no_request_fails_while_the_certificate_is_renewed(plane, namespace):
    now = datetime.now(UTC)
    old = keys.next_keys(keys.Keys(), HOST, now - keys.VALID_FOR * 0.7)
    due = keys.next_keys(old, HOST, now - keys.KNOWN_AFTER + timedelta(seconds=15))
    async with serving(plane, namespace, due):
        plane.admin.create(TFJOBS.path(namespace), builders.tfjob("j").workers(1).body())

        def has_changed():
            plane.admin.get(path("v1beta1", namespace, "j"))
            found = plane.admin.get(SECRETS.path(namespace, SECRET))["data"]
            return base64.b64decode(found["tls.crt"]) == due.waiting.certificate

        assert not has_changed()
        await eventually(has_changed, within=60)
        for _ in range(10):
            plane.admin.get(path("v1beta1", namespace, "j"))
