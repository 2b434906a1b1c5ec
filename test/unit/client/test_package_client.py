"""A configured client of the kubernetes package as a source of cluster and credentials."""

import pytest
from kubernetes import client as package

from tf_operator.client import AsyncTFJobs, ConfigurationError, NotPossible, TFJobs
from tf_operator.client.package_client import PackageClient

HOST = "https://h:6443"


@pytest.fixture
def machine(monkeypatch, tmp_path, authority):
    """The authorities that this machine trusts, and no proxies."""
    (tmp_path / "machine.pem").write_bytes(authority.cert_pem.bytes())
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "machine.pem"))
    for name in ("HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)


def configured(headers=(), **settings):
    configuration = package.Configuration(host=HOST)
    for name, value in settings.items():
        setattr(configuration, name, value)
    client = package.ApiClient(configuration)
    for name, value in headers:
        client.set_default_header(name, value)
    return client


BEARER = {"authorization": "Bearer t"}
SETTINGS = {
    "nothing": ({}, {}),
    "a header with its scheme": ({"api_key": BEARER}, {"authorization": "Bearer t"}),
    "a key and a prefix": (
        {"api_key": {"BearerToken": "t"}, "api_key_prefix": {"BearerToken": "Bearer"}},
        {"authorization": "Bearer t"},
    ),
    "a default header": ({"headers": [("Authorization", "Basic eA==")]}, {"authorization": "Basic eA=="}),
    "another server name": ({"tls_server_name": "kubernetes"}, {"server_name": "kubernetes"}),
    "a proxy": ({"proxy": "http://p:1"}, {"proxy": "http://p:1"}),
    "a proxy that is not for this": ({"proxy": "http://p:1", "no_proxy": "other,h"}, {"proxy": None}),
    "a proxy that is for this": ({"proxy": "http://p:1", "no_proxy": "other"}, {"proxy": "http://p:1"}),
}


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize(("settings", "expected"), SETTINGS.values(), ids=SETTINGS.keys())
async def test_what_the_client_is_configured_to_do_is_done(settings, expected):
    access = await PackageClient(configured(**settings)).read()

    assert access.host == HOST
    defaults = {"authorization": "", "server_name": None, "proxy": None}
    assert {name: getattr(access, name) for name in defaults} == defaults | expected


async def test_its_certificates_are_used_and_read_again_when_they_change(tmp_path, authority):
    issued = authority.issue_cert("client@example.org")
    files = {"ssl_ca_cert": "ca", "cert_file": "cert", "key_file": "key"}
    (tmp_path / "ca").write_bytes(authority.cert_pem.bytes())
    (tmp_path / "cert").write_bytes(b"".join(pem.bytes() for pem in issued.cert_chain_pems))
    (tmp_path / "key").write_bytes(issued.private_key_pem.bytes())
    source = PackageClient(configured(**{name: str(tmp_path / file) for name, file in files.items()}))

    first, second = await source.read(), await source.read()
    assert first.tls is second.tls
    assert len(first.tls.get_ca_certs()) == 1

    (tmp_path / "ca").write_bytes(authority.cert_pem.bytes() * 2)
    assert (await source.read()).tls is not first.tls
    (tmp_path / "key").write_text("nonsense")
    with pytest.raises(ConfigurationError, match="api_client: its certificates cannot be used"):
        await source.read()


@pytest.mark.usefixtures("machine")
async def test_a_token_is_renewed_by_the_hook_of_the_client():
    tokens = iter(["Bearer one", "Bearer two"])

    def renew(configuration):
        configuration.api_key["authorization"] = next(tokens)

    source = PackageClient(configured(api_key={"authorization": "Bearer old"}, refresh_api_key_hook=renew))

    assert [(await source.read()).authorization for _ in range(2)] == ["Bearer one", "Bearer two"]


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"headers": [("Impersonate-User", "viewer")]}, "its default header 'impersonate-user' is not supported"),
        ({"api_key": {"authorization": "Bearer s3cr3t\nx"}}, "api_client: the token is not one line"),
    ],
    ids=["impersonation", "a token of two lines"],
)
@pytest.mark.usefixtures("machine")
def test_what_cannot_be_done_as_configured_is_refused_without_showing_secrets(settings, problem):
    with pytest.raises(ConfigurationError, match=problem) as failure:
        TFJobs(api_client=configured(**settings))

    assert "s3cr3t" not in str(failure.value)


@pytest.mark.parametrize("other", ["context", "kubeconfig"])
def test_a_client_and_another_name_of_a_cluster_exclude_each_other(other):
    with pytest.raises(NotPossible, match="leave one of them out"):
        AsyncTFJobs(api_client=configured(), **{other: "prod"})
