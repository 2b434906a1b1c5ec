"""Kubeconfig files as people have them: whatever the ``kubernetes`` package loads, and kubectl's ways where it errs."""

import base64
import json
import logging
from pathlib import Path

import pytest
import yaml
from kubernetes.aio import config as package
from kubernetes.aio.client import Configuration

from support.fake_clock import FakeClock
from tf_operator.machinery.transport.config import ConfigurationError
from tf_operator.machinery.transport.kubeconfig_files import KubeConfigFiles

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


WHAT_PEOPLE_HAVE = {
    "a token": ({}, {"token": SECRET}),
    "a token file": ({}, {"tokenFile": "token"}),
    "a token beats its file": ({}, {"token": "other", "tokenFile": "token"}),
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
    "a token of the removed gcp provider": (
        {},
        {"auth-provider": {"name": "gcp", "config": {"access-token": SECRET}}},
    ),
}


@pytest.mark.parametrize(("cluster", "user"), WHAT_PEOPLE_HAVE.values(), ids=WHAT_PEOPLE_HAVE.keys())
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


async def test_a_newline_at_the_end_of_a_token_file_is_no_part_of_the_token(folder):
    (folder / "token").write_text(f"{SECRET}\n")

    found = await read(write(folder / "config", kubeconfig(user={"tokenFile": "token"})))

    assert found.authorization == f"Bearer {SECRET}"


@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["LF", "CRLF"])
async def test_data_may_be_in_lines_as_base64_writes_them(folder, end):
    """As in kubectl: a block of YAML, filled by ``base64`` without ``-w0``."""
    long = "data of key " * 20
    lines = base64.encodebytes(long.encode()).decode().replace("\n", end)
    user = {"client-certificate-data": encoded("cert"), "client-key-data": lines}

    assert (await read(write(folder / "config", kubeconfig(user=user)))).key == long


async def test_a_context_without_a_user_is_anonymous(folder):
    contexts = named("contexts", "context", x={"cluster": "c"})

    assert (await read(write(folder / "config", kubeconfig(contexts=contexts)))).authorization == ""


async def test_no_repr_shows_credentials(folder):
    user = {"token": SECRET, "client-key-data": encoded(SECRET), "client-certificate-data": encoded("cert")}
    cluster = {"server": "https://h", "proxy-url": f"http://u:{SECRET}@p"}

    assert SECRET not in repr(await read(write(folder / "config", kubeconfig(cluster=cluster, user=user))))


async def test_what_a_plugin_gives_is_used_in_place_of_all_that_stands_beside_it(folder):
    status = {"token": SECRET, "clientCertificateData": "its cert", "clientKeyData": "its key"}
    (folder / "answer").write_text(json.dumps({"apiVersion": "v1", "kind": "ExecCredential", "status": status}))
    plugin = {"apiVersion": "v1", "command": "cat", "args": [str(folder / "answer")]}
    user = {"exec": plugin, "token": "other", "client-certificate": "cert", "client-key": "key"}

    found = await read(write(folder / "config", kubeconfig(user=user)))

    assert (found.authorization, found.certificate, found.key) == (f"Bearer {SECRET}", "its cert", "its key")


async def test_a_relative_plugin_is_relative_to_the_kubeconfig(folder, monkeypatch):
    monkeypatch.chdir("/")
    answer = json.dumps({"apiVersion": "v1", "kind": "ExecCredential", "status": {"token": SECRET}})
    (folder / "plugin").write_text(f"#!/bin/sh\necho '{answer}'\n")
    (folder / "plugin").chmod(0o700)
    user = {"exec": {"apiVersion": "v1", "command": "./plugin"}}

    assert (await read(write(folder / "config", kubeconfig(user=user)))).authorization == f"Bearer {SECRET}"


async def test_a_plugin_is_run_again_only_when_its_token_is_refused(folder):
    answer = json.dumps({"apiVersion": "v1", "kind": "ExecCredential", "status": {"token": SECRET}})
    plugin = {"apiVersion": "v1", "command": "sh", "args": ["-c", f"echo >> {folder}/runs; echo '{answer}'"]}
    source = files(write(folder / "config", kubeconfig(user={"exec": plugin})))

    for refused, runs in ((False, 1), (False, 1), (True, 2)):
        await source.read(refused=refused)
        assert (folder / "runs").read_text() == "\n" * runs


async def test_an_id_token_is_used(folder):
    token = f"header.{encoded(json.dumps({'exp': 4e9})).rstrip('=')}.signature"
    user = {"auth-provider": {"name": "oidc", "config": {"id-token": token}}, "token": "other"}

    assert (await read(write(folder / "config", kubeconfig(user=user)))).authorization == f"Bearer {token}"


# Several files


async def test_the_first_of_several_files_that_says_something_is_believed(tmp_path):
    first = {"current-context": "x", "users": named("users", "user", u={"token": "first"})}
    second = kubeconfig(
        user={"token": "second"},
        contexts=named("contexts", "context", x={"cluster": "c", "user": "u"}, y={"cluster": "d", "user": "u"}),
        **{"current-context": "y"},
    )

    found = await read(write(tmp_path / "1", first), tmp_path / "missing", write(tmp_path / "2", second))

    assert (found.host, found.authorization) == ("https://h:6443", "Bearer first")


async def test_an_empty_current_context_is_none(tmp_path):
    paths = write(tmp_path / "1", {"current-context": ""}), write(tmp_path / "2", kubeconfig(user={"token": "t"}))

    assert (await read(*paths)).authorization == "Bearer t"


async def test_a_relative_path_belongs_to_the_file_that_it_stands_in(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    clusters = kubeconfig(cluster={"server": "https://h", "certificate-authority": "ca"}, users=[])
    users = {"users": named("users", "user", u={"tokenFile": "../b/token", "client-certificate": "cert"})}
    one, two = write(tmp_path / "a" / "config", clusters), write(tmp_path / "b" / "config", users)
    (tmp_path / "a" / "ca").write_text("authority")
    (tmp_path / "b" / "token").write_text("t")
    (tmp_path / "b" / "cert").write_text("certificate")

    found = await read(one.relative_to(tmp_path), two.relative_to(tmp_path))

    assert (found.authorities, found.authorization, found.certificate) == ("authority", "Bearer t", "certificate")


async def test_the_context_of_the_first_reading_stays_whatever_use_context_says_later(tmp_path):
    both = {
        "clusters": named("clusters", "cluster", c={"server": "https://c"}, d={"server": "https://d"}),
        "contexts": named("contexts", "context", x={"cluster": "c"}, y={"cluster": "d"}),
    }
    source = files(write(tmp_path / "config", kubeconfig(**both)))
    assert (await source.read(refused=False)).host == "https://c"

    write(tmp_path / "config", kubeconfig(**both, **{"current-context": "y"}))

    assert (await source.read(refused=False)).host == "https://c"


async def test_a_new_token_in_the_file_is_seen(tmp_path):
    source = files(write(tmp_path / "config", kubeconfig(user={"token": "old"})))
    await source.read(refused=False)

    write(tmp_path / "config", kubeconfig(user={"token": "new"}))

    assert (await source.read(refused=True)).authorization == "Bearer new"


# Broken ones


BROKEN = {
    "empty": ("", "not a kubeconfig, but NoneType"),
    "a text": ("just words", "not a kubeconfig, but str"),
    "a list": ("[1]", "not a kubeconfig, but list"),
    "half a file": ('{"clusters": [', "not YAML at line 1, column 15"),
    "tabs": ("users:\n\t- name: s3cr3t-t0k3n", "not YAML at line 2, column 1"),
    "a forbidden character": ("a: \x01", "not YAML"),
    "nested too deep": ("[" * 500, "not YAML"),
    "no context chosen": (kubeconfig(**{"current-context": None}), "no current-context, and none was asked for"),
    "an unknown context": (kubeconfig(**{"current-context": "y"}), "there is no context 'y'"),
    "no contexts": (kubeconfig(contexts=None), "there is no context 'x'"),
    "contexts that are none": (kubeconfig(contexts=5), "there is no context 'x'"),
    "entries that are none": (kubeconfig(clusters=[5, None, {}]), "there is no cluster 'c'"),
    "an unknown cluster": (kubeconfig(clusters=[]), "there is no cluster 'c'"),
    "an unknown user": (kubeconfig(users=[]), "there is no user 'u'"),
    "a user that is none": (kubeconfig(user=[SECRET]), "user 'u' is no mapping"),
    "no server": (kubeconfig(cluster={}), "'server' is missing"),
    "a server without a scheme": (
        kubeconfig(cluster={"server": "h:6443"}),
        "'server' has to be http(s)://host[:port][/path], not 'h:6443'",
    ),
    "a server with a password": (
        kubeconfig(cluster={"server": f"https://u:{SECRET}@h"}),
        "'server' must not hold a user or a password",
    ),
    "a path that is no text": (kubeconfig(cluster={"server": "https://h", "certificate-authority": 5}), "cannot read"),
    "a server that is no address": (kubeconfig(cluster={"server": "https://[::1"}), "malformed"),
    "a server without a host": (kubeconfig(cluster={"server": "https://:6443"}), "'server' has to be http(s)://host"),
    "a socks proxy": (
        kubeconfig(cluster={"server": "https://h", "proxy-url": f"socks5://u:{SECRET}@p"}),
        "'proxy-url' has to be http:// or https://",
    ),
    "a proxy without a host": (
        kubeconfig(cluster={"server": "https://h", "proxy-url": f"http://u:{SECRET}@"}),
        "malformed",
    ),
    "a proxy of an impossible port": (
        kubeconfig(cluster={"server": "https://h", "proxy-url": f"http://u:{SECRET}@p:99999"}),
        "malformed",
    ),
    "a proxy whose password is not quoted": (
        kubeconfig(cluster={"server": "https://h", "proxy-url": f"http://u:{SECRET}/x@p"}),
        "malformed",
    ),
    "a missing authority": (
        kubeconfig(cluster={"server": "https://h", "certificate-authority": "nowhere"}),
        "cannot read {folder}/nowhere: No such file",
    ),
    "a missing token file": (kubeconfig(user={"tokenFile": "nowhere"}), "cannot read {folder}/nowhere: No such file"),
    "a folder as token file": (kubeconfig(user={"tokenFile": "."}), "cannot read {folder}"),
    "an empty token": (kubeconfig(user={"token": "", "tokenFile": "blank"}), "the user's token is empty"),
    "a token of two lines": (kubeconfig(user={"token": f"{SECRET}\nx"}), "user: the token is not one line"),
    "data that is no base64": (kubeconfig(user={"client-key-data": f"!{encoded(SECRET)}"}), "malformed"),
    "data that is no text": (kubeconfig(user={"client-key-data": "////"}), "malformed"),
    "a provider of the past": (
        kubeconfig(user={"auth-provider": {"name": "azure"}}),
        "no auth-provider 'azure' any more",
    ),
    "a provider that is none": (kubeconfig(user={"auth-provider": SECRET}), "malformed"),
    "gcp without anything": (
        kubeconfig(user={"auth-provider": {"name": "gcp", "config": {"k": SECRET}}}),
        "kubeconfig",
    ),
    "oidc without anything": (kubeconfig(user={"auth-provider": {"name": "oidc"}}), "oidc: the id-token has expired"),
    "somebody to act as": (
        kubeconfig(user={"token": SECRET, "as": "viewer"}),
        "the user's 'as' asks for impersonation, which is not supported",
    ),
    "a UID to act as": (kubeconfig(user={"token": SECRET, "as-uid": "5"}), "'as-uid' asks for impersonation"),
    "groups to act as": (kubeconfig(user={"as-groups": ["viewers"]}), "'as-groups' asks for impersonation"),
    "more to act as": (kubeconfig(user={"as-user-extra": {"a": ["b"]}}), "'as-user-extra' asks for impersonation"),
    "somebody for a plugin to act as": (
        kubeconfig(user={"as": "viewer", "exec": {"command": "false", "apiVersion": "v1"}}),
        "the user's 'as' asks for impersonation",
    ),
    "exec without a command": (
        kubeconfig(user={"exec": {"env": SECRET}}),
        "exec: 'command' and 'apiVersion' are needed",
    ),
    "exec that is none": (kubeconfig(user={"exec": SECRET}), "malformed"),
    "exec with a broken variable": (
        kubeconfig(user={"exec": {"command": "true", "apiVersion": "v1", "env": [{"value": SECRET}]}}),
        "malformed",
    ),
}


@pytest.mark.parametrize(("content", "problem"), BROKEN.values(), ids=BROKEN.keys())
async def test_what_is_broken_is_named_with_its_file_and_without_secrets(folder, caplog, content, problem):
    caplog.set_level(logging.DEBUG)
    (folder / "blank").touch()
    path = write(folder / "config", content)

    with pytest.raises(ConfigurationError) as caught:
        await read(path)

    assert str(path) in str(caught.value)
    assert problem.format(folder=folder) in str(caught.value)
    assert SECRET not in str(caught.value) + caplog.text
    assert caught.value.__cause__ is None, "a traceback would show what the message does not"


async def test_a_file_that_is_not_there_or_not_ours_to_read_is_named(tmp_path):
    missing, other = tmp_path / "missing", tmp_path / "other"
    with pytest.raises(ConfigurationError, match=f"there is no kubeconfig at {missing} or {other}"):
        await read(missing, other)

    missing.mkdir()
    with pytest.raises(ConfigurationError, match=f"kubeconfig {missing}: Is a directory"):
        await read(missing)


async def test_a_file_that_breaks_is_believed_again_when_it_is_whole(tmp_path):
    whole = json.dumps(kubeconfig(user={"token": "new"}))
    source = files(write(tmp_path / "config", kubeconfig(user={"token": "old"})))
    await source.read(refused=False)

    write(tmp_path / "config", whole[: len(whole) // 2])
    with pytest.raises(ConfigurationError):
        await source.read(refused=False)

    write(tmp_path / "config", whole)
    assert (await source.read(refused=False)).authorization == "Bearer new"


async def test_nothing_is_left_behind_in_temporary_files(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    user = {"client-certificate-data": encoded("cert"), "client-key-data": encoded(SECRET)}
    cluster = {"server": "https://h", "certificate-authority-data": encoded("ca")}

    found = await read(write(tmp_path / "config", kubeconfig(cluster=cluster, user=user)))

    assert (found.authorities, found.certificate, found.key) == ("ca", "cert", SECRET)
    assert [path.name for path in tmp_path.iterdir()] == ["config"]
