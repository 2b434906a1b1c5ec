"""Exec plugins and OpenID Connect: what they return is used while it is valid, and their failures are explained."""

import asyncio
import base64
import json
import os
import signal
import sys
from datetime import timedelta
from pathlib import Path
from urllib.parse import parse_qs

import pytest
import trustme

from support.disturbances.loopback import CLOSED, Loopback, reply
from support.fake_clock import FakeClock
from tf_operator.machinery.transport import exec_auth, oidc_auth
from tf_operator.machinery.transport.config import ConfigurationError
from tf_operator.meta import rfc3339

BETA = "client.authentication.k8s.io/v1beta1"
NOWHERE = Path("/nowhere")


def credential(api_version=BETA, kind="ExecCredential", **status):
    return json.dumps({"apiVersion": api_version, "kind": kind, "status": status})


@pytest.fixture
def plugin(tmp_path):
    """Writes a plugin that records each run in a file and then does ``script``; returns its spec."""

    def make(script, **more):
        program = tmp_path / "plugin"
        program.write_text(f"#!/bin/sh\necho run >> {tmp_path}/runs\n{script}\n")
        program.chmod(0o700)
        return {"apiVersion": BETA, "command": str(program)} | more

    return make


def prints(text):
    return f"cat <<'END'\n{text}\nEND"


def runs(folder):
    return len((folder / "runs").read_text().split())


async def ask(spec, *, source=None, refused=False, folder=NOWHERE):
    plugin = source or exec_auth.ExecPlugin(FakeClock())
    return await plugin.credentials(spec, folder=folder, cluster={"server": "https://h"}, refused=refused)


# Exec plugins


@pytest.mark.parametrize(
    ("status", "credentials"),
    [
        ({"token": "t0k3n"}, exec_auth.Credentials("t0k3n")),
        ({"clientCertificateData": "cert", "clientKeyData": "s3cr3t"}, exec_auth.Credentials("", "cert", "s3cr3t")),
    ],
    ids=["token", "certificate"],
)
async def test_a_plugin_returns_a_token_or_a_client_certificate_that_no_repr_shows(plugin, status, credentials):
    chatty = "head -c 300000 /dev/zero | tr '\\0' x >&2"
    answer = await ask(plugin(f"{chatty}; {prints(credential(**status))}"))

    assert answer == credentials
    assert not {"t0k3n", "s3cr3t"} & set(repr(answer).split("'"))


async def test_a_plugin_gets_its_arguments_its_variables_and_the_protocol(plugin, monkeypatch):
    monkeypatch.setenv("INHERITED", "yes")
    answer = credential(token="$1-$2-$GIVEN-$INHERITED")
    script = f'echo "$KUBERNETES_EXEC_INFO" > "$(dirname $0)/info"\ncat <<END\n{answer}\nEND'
    spec = plugin(script, args=["a", 5], env=[{"name": "GIVEN", "value": "v"}])

    assert (await ask(spec)).token == "a-5-v-yes"
    info = json.loads((Path(spec["command"]).parent / "info").read_text())
    assert info == {"apiVersion": BETA, "kind": "ExecCredential", "spec": {"interactive": False}}


async def test_a_plugin_that_wants_to_know_the_cluster_is_told(plugin, tmp_path):
    spec = plugin(f'echo "$KUBERNETES_EXEC_INFO" > {tmp_path}/info; {prints(credential(token="t"))}')

    for wants in (True, False, None):
        await ask(spec | {"provideClusterInfo": wants})
        told = json.loads((tmp_path / "info").read_text())["spec"]
        assert told == {"interactive": False} | ({"cluster": {"server": "https://h"}} if wants else {})


@pytest.mark.parametrize("closed", [">/dev/null", "2>/dev/null", ""], ids=["stderr", "stdout", "both"])
async def test_a_helper_that_a_plugin_leaves_running_is_not_waited_for_and_lives_on(plugin, tmp_path, closed):
    helper = f"sh -c 'echo $$ > {tmp_path}/helper; while sleep 0.01; do echo log >&2; done' {closed} &"
    spec = plugin(f"{helper}\nwhile [ ! -s {tmp_path}/helper ]; do sleep 0.01; done; {prints(credential(token='t'))}")

    async with asyncio.timeout(60):
        answer = await ask(spec)
    pid = int((tmp_path / "helper").read_text())
    is_alive = _is_alive(pid)
    os.kill(pid, signal.SIGKILL)

    assert (answer.token, is_alive) == ("t", True)


async def test_a_relative_command_is_relative_to_the_kubeconfig_and_a_bare_one_is_in_the_path(plugin, monkeypatch):
    spec = plugin(prints(credential(token="t")))
    folder = Path(spec["command"]).parent

    assert (await ask(spec | {"command": "./plugin"}, folder=folder)).token == "t"
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    assert (await ask(spec | {"command": "plugin"})).token == "t"


async def test_a_token_without_an_end_is_remembered_until_it_is_refused(plugin, tmp_path):
    source, spec = exec_auth.ExecPlugin(FakeClock()), plugin(prints(credential(token="t")))

    for refused, expected in ((False, 1), (False, 1), (True, 2), (False, 2)):
        await ask(dict(spec), source=source, refused=refused)
        assert runs(tmp_path) == expected


async def test_a_token_is_renewed_two_minutes_before_its_end(plugin, tmp_path, clock):
    end = rfc3339(clock.now() + timedelta(minutes=10))
    source, spec = exec_auth.ExecPlugin(clock), plugin(prints(credential(token="t", expirationTimestamp=end)))
    await ask(spec, source=source)

    await clock.advance(479)
    await ask(spec, source=source)
    assert runs(tmp_path) == 1
    await clock.advance(1)
    await ask(spec, source=source)
    assert runs(tmp_path) == 2


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        pytest.param("echo 'log in' >&2; echo s3cr3t; exit 3", "ended with code 3: log in", id="fails"),
        pytest.param("kill -9 $$", "ended with code -9: (empty body)", id="killed"),
        pytest.param("true", "printed is not an ExecCredential", id="prints nothing"),
        pytest.param("echo s3cr3t", "printed is not an ExecCredential", id="prints no JSON"),
        pytest.param(prints(credential(token=["s3cr3t"])), "printed is not an ExecCredential", id="an invalid token"),
        pytest.param(prints('{"kind": "ExecCredential"}'), "printed is not an ExecCredential", id="no status"),
        pytest.param(prints(credential(kind="Secret", token="s3cr3t")), "no ExecCredential of", id="another kind"),
        pytest.param(prints(credential("v1", token="s3cr3t")), f"no ExecCredential of {BETA}", id="another version"),
        pytest.param(prints(credential()), "neither a token nor a certificate with its key", id="no credentials"),
        pytest.param(prints(credential(clientCertificateData="c")), "neither a token nor", id="no key"),
        pytest.param("printf '\\377'", "printed is not an ExecCredential", id="prints no text"),
    ],
)
async def test_a_plugin_that_fails_is_an_error_that_says_why_and_shows_no_output(plugin, script, problem):
    with pytest.raises(ConfigurationError) as failure:
        await ask(plugin(script))

    assert problem in str(failure.value)
    assert "s3cr3t" not in str(failure.value) + repr(failure.value.__cause__)


async def test_a_plugin_that_cannot_be_run_is_named_with_its_install_hint():
    spec = {"apiVersion": BETA, "command": "no-such-plugin", "installHint": "Install it from example.org."}

    with pytest.raises(ConfigurationError, match=r"cannot run no-such-plugin: No such file or directory\. Install it"):
        await ask(spec)


async def test_a_failure_leaves_what_was_given_before(plugin, tmp_path):
    source, spec = exec_auth.ExecPlugin(FakeClock()), plugin(prints(credential(token="t")))
    await ask(spec, source=source)
    plugin("exit 1")
    with pytest.raises(ConfigurationError):
        await ask(spec, source=source, refused=True)

    assert (await ask(spec, source=source)).token == "t"


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setattr(sys, "stdin", type("Terminal", (), {"isatty": lambda self: True})())


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize(("mode", "is_interactive"), [("Never", False), ("IfAvailable", True), (None, True)])
async def test_a_plugin_may_ask_a_person_if_there_is_a_terminal(plugin, tmp_path, mode, is_interactive):
    spec = plugin(f'echo "$KUBERNETES_EXEC_INFO" > {tmp_path}/info; {prints(credential(token="t"))}')

    assert (await ask(spec | {"interactiveMode": mode})).token == "t"
    assert json.loads((tmp_path / "info").read_text())["spec"] == {"interactive": is_interactive}


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize(
    ("mode", "script"),
    [("Never", "sleep 1000 & echo $$ $! > {pids}; wait"), (None, "echo $$ > {pids}; exec sleep 1000")],
    ids=["with its children", "interactive"],
)
async def test_a_cancelled_plugin_is_killed(plugin, tmp_path, monkeypatch, mode, script):
    waited, wait = asyncio.Event(), asyncio.subprocess.Process.wait
    monkeypatch.setattr(asyncio.subprocess.Process, "wait", lambda process: waited.set() or wait(process))
    spec = plugin(script.format(pids=tmp_path / "pids"))
    task = asyncio.ensure_future(ask(spec | {"interactiveMode": mode}))
    pids = await _wait_under_way(tmp_path / "pids", waited)

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    await _wait_dead(*pids)


async def _wait_under_way(note, waited):
    """Wait until the plugin has written down its processes, and its end is being waited for."""
    async with asyncio.timeout(30):
        await waited.wait()
        while not note.exists() or not note.read_text().endswith("\n"):
            await asyncio.sleep(0.001)
    return note.read_text().split()


async def _wait_dead(*pids):
    async with asyncio.timeout(30):
        while any(_is_alive(pid) for pid in pids):
            await asyncio.sleep(0.005)


def _is_alive(pid):
    """A zombie that waits for init is not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


# OpenID Connect


def jwt(**claims):
    payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"header.{payload}.signature"


def issuer(*renewals):
    """A script for a Loopback: discovery, and then one renewal after the other."""
    left = list(renewals)

    def answer(request):
        if request.target == "/realm/.well-known/openid-configuration":
            return reply(200, json.dumps({"token_endpoint": f"https://{request.headers['host']}/token"}).encode())
        return left.pop(0)

    return answer


def granted(token, refresh=None):
    return reply(200, json.dumps({"id_token": token} | ({"refresh_token": refresh} if refresh else {})).encode())


def config(server, authority, **more):
    return {
        "idp-issuer-url": f"{server.url}/realm/",
        "client-id": "me",
        "idp-certificate-authority-data": base64.b64encode(authority.cert_pem.bytes()).decode(),
        "refresh-token": "r1",
    } | more


async def test_a_valid_id_token_is_used_without_a_request(clock):
    token = jwt(exp=clock.now().timestamp() + 121, name="a?b?c?>>>~~~")
    assert {"-", "_"} & set(token), "base64url, which plain base64 does not read"

    assert await oidc_auth.OpenIdConnect(clock).token({"id-token": token}, folder=NOWHERE) == token
    assert await oidc_auth.OpenIdConnect(clock).token({"id-token": jwt()}, folder=NOWHERE) == jwt()


async def test_an_id_token_that_is_about_to_expire_is_refreshed_once(tls, authority, clock):
    old, new = (jwt(exp=clock.now().timestamp() + seconds) for seconds in (120, 3600))
    async with Loopback(issuer(granted(new)), tls=tls) as server:
        source, settings = (
            oidc_auth.OpenIdConnect(clock),
            config(server, authority, **{"id-token": old, "client-secret": "p"}),
        )

        assert await source.token(settings, folder=NOWHERE) == new
        assert await source.token(dict(settings), folder=NOWHERE) == new

    discovery, renewal = server.requests
    assert (renewal.method, renewal.target) == ("POST", "/token")
    assert parse_qs(renewal.body.decode()) == {
        "grant_type": ["refresh_token"],
        "refresh_token": ["r1"],
        "client_id": ["me"],
    }
    assert renewal.headers["authorization"] == "Basic " + base64.b64encode(b"me:p").decode()
    assert "authorization" not in discovery.headers


async def test_a_refresh_token_is_replaced_by_the_next_one_of_the_issuer_or_of_the_file(tls, authority, clock):
    first, second, third = (jwt(exp=clock.now().timestamp() + seconds) for seconds in (600, 1200, 1800))
    async with Loopback(issuer(*map(granted, (first, second, third, jwt()), ("r2", "", "", ""))), tls=tls) as server:
        source, settings = oidc_auth.OpenIdConnect(clock), config(server, authority)
        for token in (first, second, third):
            assert await source.token(settings, folder=NOWHERE) == token
            await clock.advance(550)
        assert await source.token(settings | {"refresh-token": "r9"}, folder=NOWHERE) == jwt()

    tokens = [
        parse_qs(request.body.decode())["refresh_token"] for request in server.requests if request.method == "POST"
    ]
    assert tokens == [["r1"], ["r2"], ["r2"], ["r9"]]
    assert all("authorization" not in request.headers for request in server.requests)  # a public client has no secret


async def test_the_authority_of_an_issuer_may_be_a_file(tls, authority, tmp_path):
    (tmp_path / "issuer.pem").write_bytes(authority.cert_pem.bytes())
    files = {"idp-certificate-authority-data": "", "idp-certificate-authority": "issuer.pem"}
    async with Loopback(issuer(granted(jwt(n=1))), tls=tls) as server:
        settings = config(server, authority, **files)
        assert await oidc_auth.OpenIdConnect(FakeClock()).token(settings, folder=tmp_path) == jwt(n=1)


async def test_an_issuer_is_reached_by_the_proxy_of_the_environment(authority):
    async with Loopback(reply(502)) as proxy:
        environment = {"HTTPS_PROXY": proxy.url, "NO_PROXY": "other.invalid"}
        configs = {
            issuer: config(type("Issuer", (), {"url": f"https://{issuer}"}), authority)
            for issuer in ("issuer.invalid", "other.invalid")
        }
        for each in configs.values():
            with pytest.raises(ConfigurationError, match="gives no new token"):
                await oidc_auth.OpenIdConnect(FakeClock(), environment).token(each, folder=NOWHERE)

    assert [(request.method, request.target) for request in proxy.requests] == [("CONNECT", "issuer.invalid:443")]


async def test_no_refresh_token_is_sent_to_an_issuer_that_is_not_verified(tls):
    async with Loopback(issuer(granted(jwt())), tls=tls) as server:
        of_another = config(server, trustme.CA())
        of_the_machine = {name: value for name, value in of_another.items() if "authority" not in name}
        for settings in (of_another, of_the_machine):
            with pytest.raises(ConfigurationError, match="certificate verify failed"):
                await oidc_auth.OpenIdConnect(FakeClock()).token(settings, folder=NOWHERE)

    assert server.requests == []


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        pytest.param(reply(404), "HTTP 404 from https://127.0.0.1", id="no discovery"),
        pytest.param(reply(200, b"<html>s3cr3t"), "JSON is malformed", id="HTML"),
        pytest.param(reply(200, b"{}"), "missing required field `token_endpoint`", id="no endpoint"),
        pytest.param(CLOSED, "Server disconnected", id="no answer"),
        pytest.param(reply(302, Location="https://elsewhere"), "HTTP 302", id="redirected"),
        pytest.param(issuer(reply(400, b'{"error":"invalid_grant s3cr3t"}')), "HTTP 400", id="refused"),
        pytest.param(issuer(reply(307, Location="https://elsewhere")), "HTTP 307", id="renewal redirected"),
        pytest.param(issuer(reply(200, b'{"token":"s3cr3t"}')), "missing required field `id_token`", id="no token"),
    ],
)
async def test_an_issuer_that_returns_no_token_is_an_error_that_says_why(tls, authority, script, problem):
    async with Loopback(script, tls=tls) as server:
        with pytest.raises(ConfigurationError, match=problem) as failure:
            await oidc_auth.OpenIdConnect(FakeClock()).token(config(server, authority), folder=NOWHERE)

    assert f"oidc: {server.url}/realm/ gives no new token" in str(failure.value)
    assert not any(secret in str(failure.value) for secret in ("s3cr3t", "r1"))
    assert failure.value.__cause__ is None


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        pytest.param({}, "has expired, and there is no refresh-token: log in again", id="nothing"),
        pytest.param({"refresh-token": "r"}, "'idp-issuer-url' is missing", id="no issuer"),
        pytest.param({"refresh-token": "r", "idp-issuer-url": "https://h"}, "'client-id' is missing", id="no client"),
        pytest.param({"id-token": "s3cr3t"}, "the id-token is not a JWT", id="no parts"),
        pytest.param({"id-token": "a.s3cr3t.c"}, "the id-token is not a JWT", id="no JSON"),
        pytest.param({"id-token": jwt(exp="s3cr3t")}, "the id-token is not a JWT", id="no number"),
        pytest.param({"id-token": jwt(exp=1e300)}, "the id-token is not a JWT", id="no time"),
    ],
)
async def test_a_log_in_that_cannot_work_says_what_is_missing(config, problem):
    with pytest.raises(ConfigurationError, match=problem) as failure:
        await oidc_auth.OpenIdConnect(FakeClock()).token(config, folder=NOWHERE)
    assert "s3cr3t" not in str(failure.value)
