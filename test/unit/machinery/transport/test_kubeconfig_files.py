"""Kubeconfig files: loaded as by the ``kubernetes`` package, and as by kubectl where the package is wrong."""

import base64
import json
import logging
import sys
from pathlib import Path

import pytest
import yaml
from kubernetes.aio import config as package
from kubernetes.aio.client import Configuration

from support.fake_clock import FakeClock
from tf_operator.machinery.transport.config import ConfigurationError
from tf_operator.machinery.transport.kubeconfig_files import KubeConfigFiles
from tf_operator.machinery.transport.oidc_auth import OpenIdConnect, _Tokens

SECRET = "s3cr3t-t0k3n"


def encoded(text):
    return base64.b64encode(text.encode()).decode()


def named(section, entry, **bodies):
    return [{"name": name, entry: body} for name, body in bodies.items()]


def kubeconfig(*, cluster=None, user=None, **more):
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": named("clusters", "cluster", c={"server": "https://h:6443"} if cluster is None else cluster),
        "users": named("users", "user", u={} if user is None else user),
        "contexts": named("contexts", "context", x={"cluster": "c", "user": "u"}),
        "current-context": "x",
    } | more


def write(path, content):
    path.parent.mkdir(exist_ok=True)
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


def files(*paths, context=None):
    return KubeConfigFiles(paths, context=context, clock=FakeClock())


async def read(*paths, context=None):
    return await files(*paths, context=context).read(refused=False)


@pytest.fixture
def folder(tmp_path):
    for name in ("ca", "cert", "key"):
        (tmp_path / name).write_text(f"content of {name}")
    (tmp_path / "token").write_text(SECRET)
    return tmp_path


USUAL = {
    "a token": ({}, {"token": SECRET}),
    "a token file": ({}, {"tokenFile": "token"}),
    "a password": ({}, {"username": "me", "password": SECRET}),
    "client certificate files": ({}, {"client-certificate": "cert", "client-key": "key"}),
    "client certificate data": (
        {},
        {"client-certificate-data": encoded("data of cert"), "client-key-data": encoded("data of key")},
    ),
    "an authority file": ({"certificate-authority": "ca"}, {}),
    "authority data beats its file": (
        {"certificate-authority": "ca", "certificate-authority-data": encoded("data")},
        {},
    ),
    "no verification": ({"insecure-skip-tls-verify": True}, {}),
    "verification": ({"insecure-skip-tls-verify": False}, {}),
    "another server name": ({"tls-server-name": "kubernetes"}, {}),
    "a proxy": ({"proxy-url": "http://proxy:3128"}, {}),
    "a path and a slash": ({"server": "https://rancher/k8s/clusters/c-1/"}, {}),
    "plain HTTP": ({"server": "http://localhost:8001"}, {}),
    "an IPv6 address": ({"server": "https://[fd00::1]:6443"}, {"token": SECRET}),
    "fields of other tools": ({"extensions": [{"name": "minikube"}]}, {"token": SECRET, "as": ""}),
    "a token of the removed gcp provider": ({}, {"auth-provider": {"name": "gcp", "config": {"access-token": SECRET}}}),
}


@pytest.mark.parametrize(("cluster", "user"), USUAL.values(), ids=USUAL.keys())
async def test_everything_is_loaded_as_the_package_loads_it(folder, cluster, user):
    path = write(folder / "config", kubeconfig(cluster={"server": "https://h:6443"} | cluster, user=user))
    theirs = Configuration()
    await package.load_kube_config(str(path), client_configuration=theirs, persist_config=False)

    ours = await read(path)

    def content(file):
        return Path(file).read_text() if file else ""

    assert (ours.host, ours.authorization) == (theirs.host, theirs.api_key.get("BearerToken", ""))
    assert ours.authorities == content(theirs.ssl_ca_cert)
    assert (ours.certificate, ours.key) == (content(theirs.cert_file), content(theirs.key_file))
    assert (ours.is_verified, ours.server_name) == (theirs.verify_ssl, theirs.tls_server_name)
    assert ours.proxy == theirs.proxy


async def test_the_namespace_of_the_context_is_read(folder):
    contexts = named("contexts", "context", x={"cluster": "c", "user": "u", "namespace": "team"})

    assert (await read(write(folder / "config", kubeconfig(contexts=contexts)))).namespace == "team"
    assert (await read(write(folder / "config", kubeconfig()))).namespace == ""


@pytest.mark.parametrize(
    ("file", "expected"),
    [("token", SECRET), ("blank", "given"), ("missing", "given"), (".", "given"), ("", "given")],
    ids=["a token", "nothing in it", "missing", "a folder", "none"],
)
async def test_a_token_file_wins_over_a_token_as_in_client_go_unless_there_is_nothing_in_it(folder, file, expected):
    (folder / "blank").write_text(" \n")
    path = write(folder / "config", kubeconfig(user={"token": "given", "tokenFile": file}))

    assert (await read(path)).authorization == f"Bearer {expected}"


async def test_a_plugin_learns_what_the_kubeconfig_says_of_the_cluster(folder):
    answer = json.dumps({"apiVersion": "v1", "kind": "ExecCredential", "status": {"token": "t"}})
    (folder / "plugin").write_text(f"#!/bin/sh\necho \"$KUBERNETES_EXEC_INFO\" > {folder}/info\necho '{answer}'\n")
    (folder / "plugin").chmod(0o700)
    plugin = {"apiVersion": "v1", "command": "./plugin", "provideClusterInfo": True}
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "a"}}
    cluster = {"server": "https://h:6443/path", "certificate-authority": "ca", "proxy-url": "http://p"}
    more = {"tls-server-name": "n", "disable-compression": True, "extensions": [{"name": "other"}, extension]}

    await read(
        write(folder / "config", kubeconfig(cluster=cluster | more, user={"exec": plugin, "tokenFile": "token"}))
    )

    assert json.loads((folder / "info").read_text())["spec"]["cluster"] == {
        "server": "https://h:6443/path",
        "certificate-authority-data": encoded("content of ca"),
        "proxy-url": "http://p",
        "tls-server-name": "n",
        "disable-compression": True,
        "config": {"audience": "a"},
    }


async def test_an_auth_provider_without_the_package_that_knows_it_is_an_error_with_the_ways_on(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "kubernetes.aio.client", None)
    provider = {"name": "gcp", "config": {"access-token": SECRET}}

    with pytest.raises(ConfigurationError, match=r"needs the package kubernetes.*pip install kubernetes.*exec plugin"):
        await read(write(folder / "config", kubeconfig(user={"auth-provider": provider})))
    assert (await read(write(folder / "config", kubeconfig(user={"token": SECRET})))).authorization


@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["LF", "CRLF"])
async def test_data_may_be_in_lines_as_base64_writes_them(folder, end):
    """As in kubectl: a block of YAML, filled by ``base64`` without ``-w0``."""
    long = "data of key " * 20
    lines = base64.encodebytes(long.encode()).decode().replace("\n", end)
    user = {"client-certificate-data": encoded("cert"), "client-key-data": lines}

    assert (await read(write(folder / "config", kubeconfig(user=user)))).key == long


async def test_the_credentials_of_a_plugin_replace_all_others(folder):
    status = {"token": SECRET, "clientCertificateData": "its cert", "clientKeyData": "its key"}
    (folder / "answer").write_text(json.dumps({"apiVersion": "v1", "kind": "ExecCredential", "status": status}))
    plugin = {"apiVersion": "v1", "command": "cat", "args": [str(folder / "answer")]}
    user = {"exec": plugin, "token": "other", "tokenFile": "token", "client-certificate": "cert", "client-key": "key"}

    config = await read(write(folder / "config", kubeconfig(user=user)))

    assert (config.authorization, config.certificate, config.key) == (f"Bearer {SECRET}", "its cert", "its key")


def jwt(name):
    return f"header.{encoded(json.dumps({'exp': 4e9, 'sub': name})).rstrip('=')}.signature"


async def test_an_id_token_is_used_and_refreshed_before_its_end_when_the_apiserver_refuses_it(folder, monkeypatch):
    async def refreshed(*_):
        return _Tokens(jwt("new"), "r2")

    monkeypatch.setattr(OpenIdConnect, "_refresh", refreshed)
    provider = {"name": "oidc", "config": {"id-token": jwt("old"), "refresh-token": "r1"}}
    source = files(write(folder / "config", kubeconfig(user={"auth-provider": provider, "token": "other"})))

    authorizations = [(await source.read(refused=refused)).authorization for refused in (False, True, False)]

    assert authorizations == [f"Bearer {jwt(name)}" for name in ("old", "new", "new")]


# Several files


async def test_of_several_files_the_first_that_has_an_entry_counts(tmp_path):
    first = {"current-context": "", "users": named("users", "user", u={"token": "first"})}
    second = kubeconfig(user={"token": "second"})

    config = await read(write(tmp_path / "1", first), tmp_path / "missing", write(tmp_path / "2", second))

    assert (config.host, config.authorization) == ("https://h:6443", "Bearer first")


async def test_a_path_is_relative_to_its_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    clusters = kubeconfig(cluster={"server": "https://h", "certificate-authority": "ca"}, users=[])
    users = {"users": named("users", "user", u={"tokenFile": "../b/token", "client-certificate": "cert"})}
    one, two = write(tmp_path / "a" / "config", clusters), write(tmp_path / "b" / "config", users)
    (tmp_path / "a" / "ca").write_text("authority")
    (tmp_path / "b" / "token").write_text("t")
    (tmp_path / "b" / "cert").write_text("certificate")

    config = await read(one.relative_to(tmp_path), two.relative_to(tmp_path))

    assert (config.authorities, config.authorization, config.certificate) == ("authority", "Bearer t", "certificate")


async def test_the_context_of_the_first_read_stays_whatever_use_context_writes_later(tmp_path):
    both = {
        "clusters": named("clusters", "cluster", c={"server": "https://c"}, d={"server": "https://d"}),
        "contexts": named("contexts", "context", x={"cluster": "c"}, y={"cluster": "d"}),
    }
    source = files(write(tmp_path / "config", kubeconfig(**both)))
    assert (await source.read(refused=False)).host == "https://c"

    write(tmp_path / "config", kubeconfig(**both, **{"current-context": "y"}))

    assert (await source.read(refused=False)).host == "https://c"


async def test_a_file_is_read_again_and_is_an_error_while_it_is_broken(tmp_path):
    source = files(write(tmp_path / "config", kubeconfig(user={"token": "old"})))
    await source.read(refused=False)

    write(tmp_path / "config", "users: [")
    with pytest.raises(ConfigurationError):
        await source.read(refused=True)
    write(tmp_path / "config", kubeconfig(user={"token": "new"}))
    assert (await source.read(refused=True)).authorization == "Bearer new"


# Invalid files


BROKEN_FILES = {
    "empty": ("", "not a kubeconfig, but NoneType"),
    "a text": ("just words", "not a kubeconfig, but str"),
    "half a file": ('{"clusters": [', "not YAML at line 1, column 15"),
    "tabs": ("users:\n\t- name: s3cr3t-t0k3n", "not YAML at line 2, column 1"),
    "a forbidden character": ("a: \x01", "not YAML"),
    "nested too deep": ("[" * 500, "not YAML"),
    "no context chosen": (kubeconfig(**{"current-context": None}), "no current-context, and none was asked for"),
    "an unknown context": (kubeconfig(**{"current-context": "y"}), "there is no context 'y'"),
    "no contexts": (kubeconfig(contexts=None), "there is no context 'x'"),
    "invalid contexts": (kubeconfig(contexts=5), "there is no context 'x'"),
    "invalid entries": (kubeconfig(clusters=[5, None, {}]), "there is no cluster 'c'"),
    "an unknown user": (kubeconfig(users=[]), "there is no user 'u'"),
    "an invalid user": (kubeconfig(user=[SECRET]), "user 'u' is not a mapping"),
    "no server": (kubeconfig(cluster={}), "'server' is missing"),
}
BROKEN_CLUSTERS = {
    "a server without a scheme": (
        {"server": "h:6443"},
        "'server' has to be http(s)://host[:port][/path], not 'h:6443'",
    ),
    "a server with a password": ({"server": f"https://u:{SECRET}@h"}, "'server' must not hold a user or a password"),
    "a path that is no text": ({"certificate-authority": 5}, "cannot read"),
    "an invalid server": ({"server": "https://[::1"}, "malformed"),
    "a server without a host": ({"server": "https://:6443"}, "'server' has to be http(s)://host"),
    "a socks proxy": ({"proxy-url": f"socks5://u:{SECRET}@p"}, "'proxy-url' has to be http:// or https://"),
    "a proxy without a host": ({"proxy-url": f"http://u:{SECRET}@"}, "'proxy-url' is not the address"),
    "a proxy of an impossible port": ({"proxy-url": f"http://u:{SECRET}@p:99999"}, "'proxy-url' is not the address"),
    "a proxy whose password is not quoted": ({"proxy-url": f"http://u:{SECRET}/x@p"}, "'proxy-url' is not the address"),
    "a missing authority": ({"certificate-authority": "nowhere"}, "cannot read {folder}/nowhere: No such file"),
}
BROKEN_USERS = {
    "a missing token file": ({"tokenFile": "nowhere"}, "cannot read {folder}/nowhere: No such file"),
    "a folder as token file": ({"tokenFile": "."}, "cannot read {folder}"),
    "an empty token": ({"token": "", "tokenFile": "blank"}, "the user's token is empty"),
    "a token of two lines": ({"token": f"{SECRET}\nx"}, "user: the token is not one line"),
    "invalid base64": ({"client-key-data": f"!{encoded(SECRET)}"}, "malformed"),
    "data that is no text": ({"client-key-data": "////"}, "malformed"),
    "an unknown provider": ({"auth-provider": {"name": "azure"}}, "no auth-provider 'azure' any more"),
    "an invalid provider": ({"auth-provider": SECRET}, "malformed"),
    "gcp without a token": ({"auth-provider": {"name": "gcp", "config": {"k": SECRET}}}, "kubeconfig"),
    "oidc without a token": ({"auth-provider": {"name": "oidc"}}, "oidc: the id-token has expired"),
    "impersonation": (
        {"token": SECRET, "as": "viewer"},
        "the user's 'as' asks for impersonation, which is not supported",
    ),
    "impersonation by UID": ({"token": SECRET, "as-uid": "5"}, "'as-uid' asks for impersonation"),
    "impersonation of groups": ({"as-groups": ["viewers"]}, "'as-groups' asks for impersonation"),
    "impersonation with more": ({"as-user-extra": {"a": ["b"]}}, "'as-user-extra' asks for impersonation"),
    "exec without a command": ({"exec": {"env": SECRET}}, "exec: 'command' and 'apiVersion' are needed"),
    "an invalid exec": ({"exec": SECRET}, "malformed"),
    "exec with an invalid variable": (
        {"exec": {"command": "true", "apiVersion": "v1", "env": [{"value": SECRET}]}},
        "malformed",
    ),
}
BROKEN = (
    BROKEN_FILES
    | {
        name: (kubeconfig(cluster={"server": "https://h"} | fields), problem)
        for name, (fields, problem) in BROKEN_CLUSTERS.items()
    }
    | {name: (kubeconfig(user=fields), problem) for name, (fields, problem) in BROKEN_USERS.items()}
)


@pytest.mark.parametrize(("content", "problem"), BROKEN.values(), ids=BROKEN.keys())
async def test_an_invalid_file_is_an_error_that_names_it_and_shows_no_secrets(folder, caplog, content, problem):
    caplog.set_level(logging.DEBUG)
    (folder / "blank").touch()
    path = write(folder / "config", content)

    with pytest.raises(ConfigurationError) as failure:
        await read(path)

    assert str(path) in str(failure.value)
    assert problem.format(folder=folder) in str(failure.value)
    assert SECRET not in str(failure.value) + caplog.text
    assert failure.value.__cause__ is None, "a traceback would show what the message does not"


async def test_a_file_that_is_missing_or_cannot_be_read_is_named(tmp_path):
    missing, other = tmp_path / "missing", tmp_path / "other"
    with pytest.raises(ConfigurationError, match=f"there is no kubeconfig at {missing} or {other}"):
        await read(missing, other)

    missing.mkdir()
    with pytest.raises(ConfigurationError, match=f"kubeconfig {missing}: Is a directory"):
        await read(missing)
    with pytest.raises(ConfigurationError, match="File name too long"):  # as in a folder that may not be read
        await read(tmp_path / ("x" * 300))


async def test_nothing_is_left_behind_in_temporary_files_and_no_repr_shows_credentials(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    user = {"client-certificate-data": encoded("cert"), "client-key-data": encoded(SECRET), "token": SECRET}
    proxy = f"http://u:{SECRET}@p"
    cluster = {"server": "https://h", "certificate-authority-data": encoded("ca"), "proxy-url": proxy}

    config = await read(write(tmp_path / "config", kubeconfig(cluster=cluster, user=user)))

    assert (config.authorities, config.certificate, config.key, config.proxy) == ("ca", "cert", SECRET, proxy)
    assert SECRET not in repr(config)
    assert [path.name for path in tmp_path.iterdir()] == ["config"]
