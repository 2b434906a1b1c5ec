"""Being let in by a real apiserver, and staying in while tokens are revoked and authorities replaced."""

import asyncio
import base64
import json
import math
import ssl
import subprocess
import sys
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from support.settle import eventually
from tf_operator.machinery.clock import SystemClock
from tf_operator.machinery.ratelimit import TokenBucket
from tf_operator.machinery.transport import errors
from tf_operator.machinery.transport.client import ApiClient
from tf_operator.machinery.transport.connection import Connection
from tf_operator.machinery.transport.in_cluster import InCluster
from tf_operator.machinery.transport.kubeconfig import KubeConfig
from tf_operator.machinery.transport.requests import Resource
from tf_operator.meta import ObjectKey, uid_of

MAPS = Resource("", "v1", "configmaps", "ConfigMap")
REVIEWS = Resource("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", is_namespaced=False)


@asynccontextmanager
async def connected(source, **options):
    clock = SystemClock()
    async with Connection(source, clock=clock) as connection:
        yield ApiClient(connection, clock=clock, budget=TokenBucket(clock, qps=math.inf, burst=1), **options)


async def who_am_i(source):
    """The name under which the apiserver lets us in."""
    async with connected(source) as api:
        return (await api.create(REVIEWS, "", {}))["status"]["userInfo"]["username"]


def account(plane, folder, token):
    """The folder of a service account with this token, and the variables of a pod."""
    (folder / "token").write_text(token)
    (folder / "ca.crt").write_bytes(plane.ca_file.read_bytes())
    address = urlsplit(plane.api_url)
    environment = {"KUBERNETES_SERVICE_HOST": address.hostname, "KUBERNETES_SERVICE_PORT": str(address.port)}
    return InCluster(environment, directory=folder)


def kubeconfig(plane, path, *, user, cluster=None):
    """The plane's own kubeconfig with another user."""
    content = json.loads(plane.kubeconfig("admin").read_text())
    content["users"][0]["user"] = user
    content["clusters"][0]["cluster"] |= cluster or {}
    path.write_text(json.dumps(content))
    return KubeConfig(str(path))


# Ways in


async def test_a_token_file(control_plane, tmp_path):
    (tmp_path / "token").write_text(control_plane.token("kubelet") + "\n")

    source = kubeconfig(control_plane, tmp_path / "config", user={"tokenFile": "token"})

    assert await who_am_i(source) == "test-kubelet"


async def test_an_exec_plugin(control_plane, tmp_path):
    status = {"token": control_plane.token("kubelet")}
    version = "client.authentication.k8s.io/v1"
    (tmp_path / "answer").write_text(json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": status}))
    user = {"exec": {"apiVersion": version, "command": "cat", "args": [str(tmp_path / "answer")]}}

    assert await who_am_i(kubeconfig(control_plane, tmp_path / "config", user=user)) == "test-kubelet"


async def test_another_authority_than_the_apiservers(control_plane, tmp_path):
    other = base64.b64encode(Authority().pem).decode()
    user = {"token": control_plane.token("admin")}
    source = kubeconfig(control_plane, tmp_path / "c", user=user, cluster={"certificate-authority-data": other})

    async with connected(source, attempts=1) as api:
        with pytest.raises(errors.Unreachable, match="certificate verify failed"):
            await api.get(MAPS, ObjectKey("default", "a"))


async def test_a_pods_own_account(control_plane, namespace, admin, tmp_path):
    token = await bound_token(admin, namespace, "first")

    assert await who_am_i(account(control_plane, tmp_path, token)) == f"system:serviceaccount:{namespace}:default"


# Staying in


async def bound_token(admin, namespace, secret):
    """A token of the namespace's default account that is good as long as a Secret is there."""
    owner = await admin.create(f"/api/v1/namespaces/{namespace}/secrets", {"metadata": {"name": secret}})
    bound = {"apiVersion": "v1", "kind": "Secret", "name": secret, "uid": uid_of(owner)}
    request = {"spec": {"boundObjectRef": bound, "expirationSeconds": 3600}}
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default/token"
    return (await admin.create(path, request))["status"]["token"]


async def test_a_token_that_is_revoked_is_replaced(control_plane, namespace, admin, tmp_path):
    old, new = await bound_token(admin, namespace, "first"), await bound_token(admin, namespace, "second")
    source = account(control_plane, tmp_path, old)
    async with connected(source) as api:
        assert (await api.create(REVIEWS, "", {}))["status"]["userInfo"]["username"].endswith(":default")

        await admin.delete(f"/api/v1/namespaces/{namespace}/secrets/first")

        async def reviewed():
            try:
                return (await api.create(REVIEWS, "", {}))["status"]["userInfo"]["username"]
            except errors.Unauthorized as refusal:
                return str(refusal)

        async def check(part):
            return part in await reviewed()

        # The apiserver remembers for ten seconds that a token was good, and a 401 makes us read at most every ten.
        await eventually(lambda: check("Unauthorized"), within=30, every=0.5)
        (tmp_path / "token").write_text("\n")  # caught in the middle of its rotation
        await eventually(lambda: check("token is empty"), within=30, every=0.5)

        (tmp_path / "token").write_text(new)
        await eventually(lambda: check(f"system:serviceaccount:{namespace}:default"), within=30, every=0.5)


class Authority:
    """A new authority, which signs a certificate for a key that is there already."""

    def __init__(self):
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "the next authority")])
        self.pem = self._signed(self._name, self._key.public_key(), is_authority=True)

    def sign(self, old, key):
        """The same certificate as *old*, by this authority."""
        names = x509.load_pem_x509_certificate(old).extensions.get_extension_for_class(x509.SubjectAlternativeName)
        public = serialization.load_pem_private_key(key, None).public_key()
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kube-apiserver")])
        return self._signed(subject, public, names=names.value)

    def _signed(self, subject, public, *, is_authority=False, names=None):
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        )
        if names is not None:
            builder = builder.add_extension(names, critical=False)
        return builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


async def test_the_authority_of_the_apiserver_is_replaced_without_a_restart(own_control_plane, tmp_path, monkeypatch):
    monkeypatch.setattr("tf_operator.machinery.transport.shared_config.REFRESH_AFTER", 0.0)
    plane, layout = own_control_plane, own_control_plane.layout
    source = account(plane, tmp_path, plane.token("admin"))
    address = (urlsplit(plane.api_url).hostname, urlsplit(plane.api_url).port)
    async with connected(source, attempts=1) as api:
        assert await api.create(REVIEWS, "", {})

        successor = Authority()
        certificate = successor.sign(layout.serving_cert.read_bytes(), layout.serving_key.read_bytes())
        layout.serving_cert.with_suffix(".new").write_bytes(certificate)
        layout.serving_cert.with_suffix(".new").replace(layout.serving_cert)

        async def is_served():
            shown = await asyncio.to_thread(ssl.get_server_certificate, address)
            return x509.load_pem_x509_certificate(shown.encode()) == x509.load_pem_x509_certificate(certificate)

        await eventually(is_served, within=90, every=0.2)
        # More calls than connections that are open: some have to be opened again.
        with pytest.raises(errors.Unreachable, match="certificate verify failed"):
            await asyncio.gather(*(api.create(REVIEWS, "", {}) for _ in range(5)))

        (tmp_path / "ca.crt").write_bytes(successor.pem)
        assert await api.create(REVIEWS, "", {}), "it reads again; whoever comes meanwhile gets what was known"
        found = await asyncio.gather(*(api.create(REVIEWS, "", {}) for _ in range(5)))
        assert [body["status"]["userInfo"]["username"] for body in found] == ["test-admin"] * 5


def test_the_kubernetes_package_is_imported_only_when_a_kubeconfig_is_read():
    program = (
        "import asyncio, sys\n"
        "import tf_operator.machinery.transport.client\n"
        "from tf_operator.machinery.transport.in_cluster import InCluster\n"
        "from tf_operator.machinery.transport.kubeconfig import KubeConfig\n"
        "InCluster(), KubeConfig('/nowhere')\n"
        "print(sorted(m for m in sys.modules if m.partition('.')[0] in ('kubernetes', 'yaml')))\n"
    )
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout

    assert output == "[]\n"
