"""Older versions of TFJob on a real API server: the webhook of a real operator converts them."""

import asyncio
import base64
import itertools
import os
import time
from datetime import UTC, datetime

import pytest

from lab.control_plane.api import ApiRefusedError
from support import builders
from support.older_versions import HOST, SECRET, WITH_SUPPORT, old_job, path, serving
from support.resources import SECRETS, TFJOBS
from tf_operator.app.webhook import keys

ROTATIONS = 2
REQUESTS = int(os.environ.get("ROTATION_REQUESTS", "10"))


@pytest.fixture
def namespace(plane):
    return plane.make_namespace("older-versions")


def asked_like_client_go(request):
    """Try again when the API server says so, as it does for a moment after each change of a CRD: nothing has failed."""
    for _ in range(10):
        try:
            return request()
        except ApiRefusedError as refusal:
            if refusal.status != 429:
                raise
            time.sleep(1.0)
    return request()


@pytest.mark.real_server("conversion webhooks")
@pytest.mark.timeout(300 + REQUESTS)  # on a machine that is shared
async def test_no_request_fails_while_the_certificate_is_renewed_twice(plane, namespace):
    """The second renewal is due as soon as the first is done."""
    old, also_old = (keys.next_keys(keys.Keys(), HOST, datetime.now(UTC) - keys.VALID_FOR * 0.7) for _ in range(2))
    due = keys.Keys(old.bundle + also_old.bundle, old.served, also_old.served)
    admin = plane.admin
    admin.create(TFJOBS.path(namespace), builders.tfjob("j").workers(1).body())
    requests = [
        lambda: admin.get(path("v1beta1", namespace, "j")),
        lambda: admin.get(path("v1alpha1", namespace)),
        lambda: admin.create(path("v1beta2", namespace) + "?dryRun=All", old_job("v1beta2", "probe")),
        lambda: admin.patch(path("v1alpha2", namespace, "j"), {"metadata": {"labels": {"at": str(time.time())}}}),
    ]

    def send():
        """Until enough were sent, and two new certificates are served."""
        seen = [due.served.certificate]
        for count, request in enumerate(itertools.cycle(requests)):
            served = base64.b64decode(admin.get(SECRETS.path(namespace, SECRET))["data"]["tls.crt"])
            seen += [served] if served != seen[-1] else []
            if len(seen) > ROTATIONS and count >= REQUESTS:
                break
            asked_like_client_go(request)
        return seen

    async with serving(plane, namespace, due, module="support.webhook_probe", environment=WITH_SUPPORT):
        seen = await asyncio.to_thread(send)
        assert seen[:2] == [due.served.certificate, due.waiting.certificate]
