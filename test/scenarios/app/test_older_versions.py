"""Older versions of TFJob on a real API server: the webhook of a real operator converts them."""

import asyncio
import base64
import itertools
import json
import os
import socket
import ssl
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime
from urllib.parse import urlsplit

import pytest

from lab.control_plane.api import ApiRefusedError
from support.jobs import builders
from support.jobs.older_versions import HOST, SECRET, TEMPLATE, WITH_SUPPORT, old_job, path, serving
from support.resources import CRDS, SECRETS, TFJOBS
from support.settle import eventually
from tf_operator.app import crd_migrate
from tf_operator.app.http.room import LARGEST
from tf_operator.app.webhook import keys
from tf_operator.dialects.kubeflow.versions.conversion import INCOMPLETE, OLDER
from tf_operator.machinery.clock import SystemClock
from tf_operator.machinery.transport.kubeconfig import KubeConfig

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
        certificates = [due.served.certificate]
        for count, request in enumerate(itertools.cycle(requests)):
            served = base64.b64decode(admin.get(SECRETS.path(namespace, SECRET))["data"]["tls.crt"])
            certificates += [served] if served != certificates[-1] else []
            if len(certificates) > ROTATIONS and count >= REQUESTS:
                break
            asked_like_client_go(request)
        return certificates

    async with serving(plane, namespace, due, module="support.operators.webhook_probe", environment=WITH_SUPPORT):
        certificates = await asyncio.to_thread(send)
        assert certificates[:2] == [due.served.certificate, due.waiting.certificate]


WITHHELD = b"POST /convert/tfjobs.kubeflow.org HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % LARGEST


def withhold(port, stop):
    """Send large reviews without their last bytes, from an address of one's own, until told to stop."""
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    while not stop.is_set():
        with (
            suppress(OSError),
            socket.create_connection((HOST, port), timeout=10, source_address=("127.0.0.9", 0)) as plain,
            tls.wrap_socket(plain) as client,
        ):
            client.sendall(WITHHELD + bytes(LARGEST - 1))
            client.recv(1)


@pytest.mark.real_server("conversion webhooks")
async def test_no_request_fails_while_another_address_withholds_the_ends_of_large_reviews(plane, namespace):
    for number in range(20):  # a list of them is a large review
        job = builders.tfjob(f"j{number}").workers(1).body()
        job["metadata"]["annotations"] = {"notes": "x" * 10_000}
        plane.admin.create(TFJOBS.path(namespace), job)
    stop = threading.Event()

    def send():
        for _ in range(REQUESTS):
            asked_like_client_go(lambda: plane.admin.get(path("v1beta1", namespace, "j0")))
            assert len(asked_like_client_go(lambda: plane.admin.get(path("v1alpha1", namespace)))["items"]) == 20

    async with serving(plane, namespace):
        url = plane.admin.get(CRDS.path(name=TFJOBS.qualified))["spec"]["conversion"]["webhook"]["clientConfig"]["url"]
        async with asyncio.TaskGroup() as tasks:
            for _ in range(5):
                tasks.create_task(asyncio.to_thread(withhold, urlsplit(url).port, stop))
            try:
                await asyncio.to_thread(send)
            finally:
                stop.set()


@pytest.mark.real_server("conversion webhooks")
async def test_no_job_that_can_be_stored_fails_a_list_in_an_older_version(plane, namespace):
    """The API server lets no conversion add to all the annotations that fit, nor to all the levels."""
    job = builders.tfjob("full").workers(1).body()
    job["metadata"]["annotations"] = {"notes": "x" * (256 * 1024 - len("notes"))}
    job["spec"]["runPolicy"] = {"suspend": True}
    plane.admin.create(TFJOBS.path(namespace), job)
    text = json.dumps(builders.tfjob("deep").workers(1).body())
    levels = 9_999 - 6  # there are 6 around it
    deep = text.replace('"containers"', f'"notes": {"[" * levels}{"]" * levels}, "containers"')
    status, answer, _ = plane.admin._send("POST", TFJOBS.path(namespace), deep, "application/json")
    assert status == 201, answer

    def listed(version):
        return asked_like_client_go(lambda: plane.admin.get(path(version, namespace)))["items"]

    async with serving(plane, namespace):
        for version in OLDER:
            assert len(await asyncio.to_thread(listed, version)) == 2


LAX = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
BEFORE = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": TFJOBS.qualified},
    "spec": {
        "group": "kubeflow.org",
        "scope": "Namespaced",
        "names": {"kind": "TFJob", "plural": "tfjobs", "singular": "tfjob"},
        "versions": [{"name": "v1beta1", "served": True, "storage": True, "schema": LAX}],
    },
}
MISFIT = {"spec": {"tfReplicaSpecs": {"MASTER": {"template": builders.merge(TEMPLATE, {"spec": {"tolerations": 5}})}}}}
ODD = {
    "incomplete": {"metadata": {"annotations": {INCOMPLETE: "true"}}},
    "incomplete-by-status": {"status": {"fixed": {"incomplete": True}}},
    "misfit-as-if-read": MISFIT | {"status": {"fixed": {}}},
    "misfit-of-today": MISFIT,
    "no-spec": {"spec": 5},
    "numbers": {"spec": {"notes": [2**63, 10**30, 1e300, -0.0], "ttlSecondsAfterFinished": 10**25}},
    "spelling": {"spec": {"\u2028\x00": "\U0001f600\x00"}},
    "name.of-no-service": {},
}
"""What tenants may have had an older operator store, by accident or to break the lists of everybody else."""


def is_done(request):
    try:
        request()
    except ApiRefusedError as refusal:
        return "exists" in str(refusal)
    return True


@pytest.mark.real_server("conversion webhooks")
async def test_no_job_that_an_older_operator_has_stored_fails_a_list(fresh_plane):
    with fresh_plane() as plane:
        namespace, admin = plane.make_namespace("older-versions"), plane.admin
        admin.delete(CRDS.path(name=TFJOBS.qualified))
        await eventually(lambda: is_done(lambda: admin.apply(BEFORE)), within=60)
        for name, odd in ODD.items():
            job = builders.merge(old_job("v1beta1", name), odd)
            await eventually(lambda job=job: is_done(lambda: admin.create(path("v1beta1", namespace), job)), within=60)

        async with serving(plane, namespace, is_own=True, namespaces=[]):
            for version in ("v1", *OLDER):
                body = await asyncio.to_thread(asked_like_client_go, lambda: admin.get(path(version, namespace)))  # noqa: B023
                assert {job["metadata"]["name"] for job in body["items"]} == ODD.keys(), version
            source = KubeConfig(str(plane.kubeconfig("admin")))
            assert await crd_migrate.migrate(TFJOBS.qualified, source, SystemClock()) == len(ODD)
        assert admin.get(CRDS.path(name=TFJOBS.qualified))["status"]["storedVersions"] == ["v1"]
