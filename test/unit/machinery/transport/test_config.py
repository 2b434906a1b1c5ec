"""The address of the apiserver and our credentials, from inside a pod and from a kubeconfig."""

import json
import os
import ssl
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import trustme

from support.fake_clock import FakeClock
from tf_operator.machinery.transport import config, in_cluster, private_files
from tf_operator.machinery.transport.config import ConfigurationError
from tf_operator.machinery.transport.in_cluster import InCluster
from tf_operator.machinery.transport.kubeconfig import KubeConfig
from tf_operator.machinery.transport.shared_config import SharedConfig

ENVIRONMENT = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
TOKEN = "header.payload.signature-of-the-token"


@pytest.fixture(scope="module")
def pem(authority):
    return authority.cert_pem.bytes()


@pytest.fixture(autouse=True)
def machine(monkeypatch, tmp_path_factory, pem):
    """The authorities that this machine trusts: one, because reading a hundred and fifty is slow."""
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
    settings = await InCluster(ENVIRONMENT, directory=account).read()

    assert (settings.host, settings.authorization) == ("https://10.0.0.1:443", f"Bearer {TOKEN}")
    assert len(settings.tls.get_ca_certs()) == 1
    assert (settings.server_name, settings.proxy, settings.namespace) == (None, None, "")
    (account / "namespace").write_text("team")
    assert (await InCluster(ENVIRONMENT, directory=account).read()).namespace == "team"


async def test_an_ipv6_address_gets_its_brackets(account):
    settings = await InCluster(ENVIRONMENT | {"KUBERNETES_SERVICE_HOST": "fd00::1"}, directory=account).read()

    assert settings.host == "https://[fd00::1]:443"


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
    [b"sec\nret", b"sec ret", b"sec\x00ret", b"sec\xffret", "secrét".encode()],
    ids=["two lines", "two words", "a zero", "not text", "not ASCII"],
)
async def test_an_invalid_token_is_refused_without_being_shown(account, content):
    (account / "token").write_bytes(content)

    with pytest.raises(ConfigurationError, match=f"{account / 'token'}: the token is not one line") as failure:
        await InCluster(ENVIRONMENT, directory=account).read()
    assert "sec" not in str(failure.value).replace(str(account), "")


async def test_token_and_authority_are_read_again_and_the_tls_context_is_kept_until_the_authority_changes(account, pem):
    source = InCluster(ENVIRONMENT, directory=account)
    first = await source.read()
    (account / "token").write_text("new")
    second = await source.read(refused=True)
    assert second.authorization == "Bearer new"
    assert second.tls is first.tls

    (account / "ca.crt").write_text("no certificate")
    with pytest.raises(ConfigurationError, match=f"{account / 'ca.crt'} holds no certificates"):
        await source.read()

    (account / "ca.crt").write_bytes("# für Zürich\n".encode() + pem + trustme.CA().cert_pem.bytes())
    assert len((await source.read()).tls.get_ca_certs()) == 2


def test_the_files_of_a_pod_are_where_kubernetes_puts_them():
    assert str(in_cluster.SERVICE_ACCOUNT) == "/var/run/secrets/kubernetes.io/serviceaccount"
    assert InCluster()._environment is os.environ


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


async def test_a_kubeconfig_becomes_a_configuration_whose_repr_shows_no_credentials(tmp_path):
    cluster = {"tls-server-name": "kubernetes", "proxy-url": f"http://u:{TOKEN}@proxy:3128"}
    path = write(tmp_path / "config", cluster=cluster, user={"token": TOKEN})

    settings = await KubeConfig(path).read()

    assert (settings.host, settings.authorization) == ("https://h:6443", f"Bearer {TOKEN}")
    assert (settings.server_name, settings.proxy) == ("kubernetes", f"http://u:{TOKEN}@proxy:3128")
    assert settings.tls.verify_mode is ssl.CERT_REQUIRED
    assert len(settings.tls.get_ca_certs()) == 1, "those of the machine"
    assert TOKEN not in repr(settings)


async def test_a_proxy_of_the_environment_is_used_unless_the_kubeconfig_names_one(tmp_path, account):
    environment = {"HTTPS_PROXY": f"http://u:{TOKEN}@proxy:3128", "NO_PROXY": "direct.example.com"}
    own = write(tmp_path / "own", cluster={"proxy-url": "http://own:1"})
    sources = {
        "by a proxy": KubeConfig(write(tmp_path / "config"), environment=environment),
        "direct": KubeConfig(write(tmp_path / "direct", server="https://direct.example.com"), environment=environment),
        "its own": KubeConfig(own, environment=environment),
        "in a pod": InCluster(ENVIRONMENT | environment, directory=account),
        "in a pod, direct": InCluster(ENVIRONMENT | environment | {"NO_PROXY": "10.0.0.0/8"}, directory=account),
    }

    configs = {name: await source.read() for name, source in sources.items()}

    assert {name: config.proxy for name, config in configs.items()} == {
        "by a proxy": environment["HTTPS_PROXY"],
        "direct": None,
        "its own": "http://own:1",
        "in a pod": environment["HTTPS_PROXY"],
        "in a pod, direct": None,
    }
    assert TOKEN not in repr(configs["by a proxy"])


async def test_a_pod_whose_port_is_none_is_an_error_of_the_configuration(account):
    with pytest.raises(ConfigurationError, match=r"'https://10\.0\.0\.1:x' is not the address of a server"):
        await InCluster(ENVIRONMENT | {"KUBERNETES_SERVICE_PORT": "x"}, directory=account).read()


async def test_insecure_skip_tls_verify_is_obeyed(tmp_path):
    path = write(tmp_path / "config", cluster={"insecure-skip-tls-verify": True})

    tls = (await KubeConfig(path).read()).tls

    assert (tls.verify_mode, tls.check_hostname) == (ssl.CERT_NONE, False)


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


def certificate_files(folder, authority):
    issued = authority.issue_cert("client@example.org")
    (folder / "key").write_bytes(issued.private_key_and_cert_chain_pem.bytes())
    return {"client-certificate": "key", "client-key": "key"}


async def test_a_client_certificate_needs_no_folder_that_can_be_written_to(tmp_path, authority, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    user = certificate_files(tmp_path, authority)

    await KubeConfig(write(tmp_path / "config", user=user)).read()


async def test_without_files_in_memory_a_key_is_in_a_private_file_while_it_is_loaded(tmp_path, authority, monkeypatch):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    monkeypatch.delattr(os, "memfd_create")
    place_and_mode = []
    load = ssl.SSLContext.load_cert_chain

    class Spy(ssl.SSLContext):
        def load_cert_chain(self, certfile, **options):
            place_and_mode.extend((Path(certfile).parent, stat.S_IMODE(Path(certfile).stat().st_mode)))
            load(self, certfile, **options)

    monkeypatch.setattr(
        "tf_operator.machinery.transport.kubeconfig.make_tls", lambda *a, **o: Spy(ssl.PROTOCOL_TLS_CLIENT)
    )

    await KubeConfig(write(tmp_path / "config", user=certificate_files(tmp_path, authority))).read()

    assert place_and_mode == [scratch, 0o600]
    assert list(scratch.iterdir()) == []
    with private_files.scratch() as file:
        assert file.write(b"x") == 1


async def test_a_rotated_client_certificate_that_cannot_be_loaded_leaves_the_old_one(
    tmp_path, authority, monkeypatch, clock
):
    path = write(tmp_path / "config", user=certificate_files(tmp_path, authority))
    config = SharedConfig(KubeConfig(path, clock=clock), clock=clock)
    first = await config.first()
    certificate_files(tmp_path, authority)
    with monkeypatch.context() as full:
        full.setattr(os, "memfd_create", lambda _name: (_ for _ in ()).throw(OSError(24, "Too many open files")))
        await clock.advance(60)
        assert await config.get() is first
        assert "Too many open files" in config.problem

    await clock.advance(10)
    assert (await config.get()).tls is not first.tls
    assert config.problem == ""


@pytest.mark.parametrize(
    ("cluster", "user"),
    [
        pytest.param({"certificate-authority": "nonsense"}, {}, id="authority"),
        pytest.param({}, {"client-certificate": "nonsense", "client-key": "nonsense"}, id="client certificate"),
        pytest.param({}, {"client-certificate": "good", "client-key": "nonsense"}, id="key"),
    ],
)
async def test_invalid_certificates_are_an_error_of_the_configuration(tmp_path, pem, cluster, user):
    (tmp_path / "nonsense").write_text("nonsense")
    (tmp_path / "good").write_bytes(pem)

    with pytest.raises(ConfigurationError, match="certificates cannot be used"):
        await KubeConfig(write(tmp_path / "config", cluster=cluster, user=user)).read()


async def test_the_file_is_the_one_given_or_those_of_the_variable_or_the_one_at_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    argument = write(tmp_path / "given", server="https://given")
    listed = write(tmp_path / "listed", server="https://listed")
    write(tmp_path / ".kube" / "config", server="https://home")
    variable = {"KUBECONFIG": os.pathsep.join([str(tmp_path / "missing"), listed, ""])}

    assert (await KubeConfig(argument, environment=variable).read()).host == "https://given"
    assert (await KubeConfig("~/given", environment={}).read()).host == "https://given"
    assert (await KubeConfig(environment=variable).read()).host == "https://listed"
    assert (await KubeConfig(environment={"KUBECONFIG": ""}).read()).host == "https://home"


async def test_a_context_can_be_chosen(tmp_path):
    clusters = [{"name": name, "cluster": {"server": f"https://{name}"}} for name in ("c", "d")]
    contexts = [{"name": name, "context": {"cluster": name}} for name in ("c", "d")]
    path = write(tmp_path / "config", clusters=clusters, contexts=contexts, **{"current-context": "c"})

    assert (await KubeConfig(path).read()).host == "https://c"
    assert (await KubeConfig(path, context="d", clock=FakeClock()).read()).host == "https://d"


def test_the_kubernetes_package_is_imported_only_when_a_kubeconfig_is_read():
    program = (
        "import sys\n"
        "import tf_operator.machinery.transport.client\n"
        "from tf_operator.machinery.transport.in_cluster import InCluster\n"
        "from tf_operator.machinery.transport.kubeconfig import KubeConfig\n"
        "InCluster(), KubeConfig('/nowhere')\n"
        "print(sorted(m for m in sys.modules if m.partition('.')[0] in ('kubernetes', 'yaml')))\n"
    )
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout

    assert output == "[]\n"
