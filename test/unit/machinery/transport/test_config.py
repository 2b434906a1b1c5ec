"""Where the apiserver is, and who we are: from inside a pod, and from a kubeconfig."""

import json
import os
import ssl
import stat
import tempfile

import pytest
import trustme

from support.fake_clock import FakeClock
from tf_operator.machinery.transport import config, in_cluster
from tf_operator.machinery.transport.config import ClientConfig, ConfigurationError
from tf_operator.machinery.transport.in_cluster import InCluster
from tf_operator.machinery.transport.kubeconfig import KubeConfig

ENVIRONMENT = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
TOKEN = "header.payload.signature-of-the-token"


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


@pytest.fixture(scope="module")
def pem(authority):
    return authority.cert_pem.bytes()


@pytest.fixture(autouse=True)
def machine(monkeypatch, tmp_path_factory, pem):
    """The authorities that this machine trusts: one, because reading a hundred and fifty takes its time."""
    path = tmp_path_factory.mktemp("machine") / "authorities.pem"
    path.write_bytes(pem)
    monkeypatch.setenv("SSL_CERT_FILE", str(path))


@pytest.fixture
def account(tmp_path, pem):
    """The folder of a service account."""
    (tmp_path / "token").write_text(TOKEN + "\n")
    (tmp_path / "ca.crt").write_bytes(pem)
    return tmp_path


# Inside a pod


async def test_a_pod_finds_address_token_and_authority(account):
    found = await InCluster(ENVIRONMENT, directory=account).read()

    assert (found.host, found.authorization) == ("https://10.0.0.1:443", f"Bearer {TOKEN}")
    assert len(found.tls.get_ca_certs()) == 1
    assert (found.server_name, found.proxy) == (None, None)


async def test_an_ipv6_address_gets_its_brackets(account):
    found = await InCluster(ENVIRONMENT | {"KUBERNETES_SERVICE_HOST": "fd00::1"}, directory=account).read()

    assert found.host == "https://[fd00::1]:443"


@pytest.mark.parametrize("name", ENVIRONMENT)
@pytest.mark.parametrize("value", [None, ""])
async def test_a_variable_that_is_missing_is_named(account, name, value):
    environment = {key: text for key, text in (ENVIRONMENT | {name: value}).items() if text is not None}

    with pytest.raises(ConfigurationError, match=f"{name} is not set; give a kubeconfig"):
        await InCluster(environment, directory=account).read()


@pytest.mark.parametrize("name", ["token", "ca.crt"])
async def test_a_file_that_is_missing_or_empty_is_named(account, name):
    source = InCluster(ENVIRONMENT, directory=account)

    (account / name).write_text(" \n")
    with pytest.raises(ConfigurationError, match=f"{account / name} is empty"):
        await source.read()

    (account / name).unlink()
    with pytest.raises(ConfigurationError, match=f"cannot read {account / name}: No such file"):
        await source.read()


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"sec\nret", id="two lines"),
        pytest.param(b"sec ret", id="two words"),
        pytest.param(b"sec\x00ret", id="a zero"),
        pytest.param(b"sec\xffret", id="no text"),
        pytest.param("secrét".encode(), id="not ASCII"),
    ],
)
async def test_what_cannot_be_a_token_is_refused_without_being_shown(account, content):
    (account / "token").write_bytes(content)

    with pytest.raises(ConfigurationError, match=f"{account / 'token'}: the token is not one line") as caught:
        await InCluster(ENVIRONMENT, directory=account).read()
    assert "sec" not in str(caught.value).replace(str(account), "")


async def test_a_token_is_read_again_each_time(account):
    source = InCluster(ENVIRONMENT, directory=account)
    await source.read()

    (account / "token").write_text("new")

    assert (await source.read(refused=True)).authorization == "Bearer new"


async def test_the_tls_context_stays_the_same_until_the_authority_changes(account):
    source = InCluster(ENVIRONMENT, directory=account)
    first = await source.read()
    assert (await source.read()).tls is first.tls

    (account / "ca.crt").write_bytes((account / "ca.crt").read_bytes() + trustme.CA().cert_pem.bytes())

    second = await source.read()
    assert second.tls is not first.tls
    assert len(second.tls.get_ca_certs()) == 2


async def test_an_authority_that_is_none_is_refused_and_the_next_good_one_taken(account, pem):
    source = InCluster(ENVIRONMENT, directory=account)
    (account / "ca.crt").write_text("no certificate")
    with pytest.raises(ConfigurationError, match=f"{account / 'ca.crt'} holds no certificates"):
        await source.read()

    (account / "ca.crt").write_bytes("# für Zürich\n".encode() + pem)

    assert len((await source.read()).tls.get_ca_certs()) == 1


def test_the_files_of_a_pod_are_where_kubernetes_puts_them():
    assert str(in_cluster.SERVICE_ACCOUNT) == "/var/run/secrets/kubernetes.io/serviceaccount"
    assert InCluster()._environment is os.environ


def test_no_repr_shows_credentials():
    assert TOKEN not in repr(ClientConfig("https://h", f"Bearer {TOKEN}", proxy=f"http://u:{TOKEN}@proxy"))


# TLS


def test_certificates_are_verified_but_not_more_strictly_than_client_go_does(monkeypatch, pem):
    make = ssl.create_default_context

    def as_in_python_3_13(**options):
        context = make(**options)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    monkeypatch.setattr(ssl, "create_default_context", as_in_python_3_13)

    context = config.make_tls(pem.decode())

    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert not context.verify_flags & ssl.VERIFY_X509_STRICT
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2


def test_without_an_authority_those_of_the_machine_are_trusted():
    assert len(config.make_tls(None).get_ca_certs()) == 1


def test_verification_can_be_switched_off():
    context = config.make_tls(None, is_verified=False)

    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_NONE, False)


# Kubeconfig


def write(path, *, cluster=None, user=None, server="https://h:6443", **more):
    content = {
        "clusters": [{"name": "c", "cluster": {"server": server} | (cluster or {})}],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    } | more
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))
    return str(path)


async def test_a_kubeconfig_becomes_an_access(tmp_path, authority):
    cluster = {"tls-server-name": "kubernetes", "proxy-url": "http://proxy:3128"}
    path = write(tmp_path / "config", cluster=cluster, user={"token": TOKEN})

    found = await KubeConfig(path).read()

    assert (found.host, found.authorization) == ("https://h:6443", f"Bearer {TOKEN}")
    assert (found.server_name, found.proxy) == ("kubernetes", "http://proxy:3128")
    assert found.tls.verify_mode is ssl.CERT_REQUIRED


async def test_insecure_skip_tls_verify_is_obeyed(tmp_path):
    path = write(tmp_path / "config", cluster={"insecure-skip-tls-verify": True})

    assert (await KubeConfig(path).read()).tls.verify_mode is ssl.CERT_NONE


async def test_the_tls_context_of_a_kubeconfig_stays_the_same_until_a_certificate_changes(tmp_path, authority):
    files = {"client-certificate": str(tmp_path / "cert"), "client-key": str(tmp_path / "key")}
    source = KubeConfig(write(tmp_path / "config", user=files))

    def issue():
        issued = authority.issue_cert("client@example.org")
        (tmp_path / "cert").write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        (tmp_path / "key").write_bytes(issued.private_key_pem.bytes())

    issue()
    first = await source.read()
    assert (await source.read()).tls is first.tls
    issue()
    assert (await source.read()).tls is not first.tls


async def test_a_private_key_lies_in_a_file_of_our_own_and_only_for_a_moment(tmp_path, authority, monkeypatch):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    seen = []
    load = ssl.SSLContext.load_cert_chain

    class Spy(ssl.SSLContext):
        def load_cert_chain(self, certfile, **options):
            seen.extend((certfile.parent.parent, stat.S_IMODE(certfile.stat().st_mode)))
            load(self, certfile, **options)

    monkeypatch.setattr(
        "tf_operator.machinery.transport.kubeconfig.make_tls", lambda *a, **o: Spy(ssl.PROTOCOL_TLS_CLIENT)
    )
    issued = authority.issue_cert("client@example.org")
    (tmp_path / "key").write_bytes(issued.private_key_and_cert_chain_pem.bytes())
    user = {"client-certificate": "key", "client-key": "key"}

    await KubeConfig(write(tmp_path / "config", user=user)).read()

    assert seen == [scratch, 0o600]
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize(
    ("cluster", "user"),
    [
        pytest.param({"certificate-authority": "nonsense"}, {}, id="authority"),
        pytest.param({}, {"client-certificate": "nonsense", "client-key": "nonsense"}, id="client certificate"),
        pytest.param({}, {"client-certificate": "good", "client-key": "nonsense"}, id="key"),
    ],
)
async def test_certificates_that_are_none_are_a_problem_of_the_configuration(tmp_path, pem, cluster, user):
    (tmp_path / "nonsense").write_text("nonsense")
    (tmp_path / "good").write_bytes(pem)

    with pytest.raises(ConfigurationError, match="certificates cannot be used"):
        await KubeConfig(write(tmp_path / "config", cluster=cluster, user=user)).read()


async def test_the_file_is_the_one_given_or_those_of_the_variable_or_the_one_at_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    given = write(tmp_path / "given", server="https://given")
    listed = write(tmp_path / "listed", server="https://listed")
    write(tmp_path / ".kube" / "config", server="https://home")
    variable = {"KUBECONFIG": os.pathsep.join([str(tmp_path / "missing"), listed, ""])}

    assert (await KubeConfig(given, environment=variable).read()).host == "https://given"
    assert (await KubeConfig("~/given", environment={}).read()).host == "https://given"
    assert (await KubeConfig(environment=variable).read()).host == "https://listed"
    assert (await KubeConfig(environment={"KUBECONFIG": ""}).read()).host == "https://home"


async def test_a_context_can_be_chosen(tmp_path):
    clusters = [{"name": name, "cluster": {"server": f"https://{name}"}} for name in ("c", "d")]
    contexts = [{"name": name, "context": {"cluster": name}} for name in ("c", "d")]
    path = write(tmp_path / "config", clusters=clusters, contexts=contexts, **{"current-context": "c"})

    assert (await KubeConfig(path).read()).host == "https://c"
    assert (await KubeConfig(path, context="d", clock=FakeClock()).read()).host == "https://d"
