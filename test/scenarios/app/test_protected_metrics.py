"""``--metrics-secure`` on a real apiserver, with real tokens of service accounts: who gets metrics, and who does not.

The roles are those of manifests/overlays/protected-metrics, so what they grant is what is needed.
"""

import asyncio
import ssl
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import trustme
import yaml

from support.operators.operator_process import operator
from support.partners.helm import Helm, one
from support.partners.prometheus import Target
from support.settle import eventually

ROOT = Path(__file__).resolve().parents[3]
ROLES = ROOT / "manifests" / "overlays" / "protected-metrics"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
SECURE = ("--leader-elect=false", "--metrics-secure", "--metrics-bind-address=127.0.0.1:0")
NOT_VERIFIED = ssl.create_default_context()
NOT_VERIFIED.check_hostname = False
NOT_VERIFIED.verify_mode = ssl.CERT_NONE


def manifest(name):
    return yaml.safe_load((ROLES / f"{name}.yaml").read_text())


@pytest.fixture
def rights(plane):
    """The operator may ask who somebody is, while the test runs."""
    objects = [("clusterroles", manifest("cluster-role-metrics-auth"))]
    objects += [("clusterrolebindings", manifest("cluster-role-binding-metrics-auth"))]
    for plural, body in objects:
        plane.admin.create(f"{RBAC}/{plural}", body)
    yield
    for plural, body in objects:
        plane.admin.delete(f"{RBAC}/{plural}/{body['metadata']['name']}")


@pytest.fixture
def token(plane):
    """A function that gives a token of a new service account; bound to the reader's role, or not."""
    namespace = plane.make_namespace("metrics")
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    role = manifest("cluster-role-metrics-reader")
    plane.admin.create(f"{RBAC}/clusterroles", role)
    reader = role["metadata"]["name"]

    def make(name, *, may_read, audience=None):
        plane.admin.create(accounts, {"metadata": {"name": name}})
        if may_read:
            binding = {
                "metadata": {"name": f"{namespace}-{name}"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": reader},
                "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
            }
            plane.admin.create(f"{RBAC}/clusterrolebindings", binding)
        request = {"spec": {"audiences": [audience]} if audience else {}}
        return plane.admin.create(f"{accounts}/{name}/token", request)["status"]["token"]

    yield make
    plane.admin.delete(f"{RBAC}/clusterroles/{reader}")


def fetch(url, token=None):
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        with urllib.request.urlopen(
            urllib.request.Request(url, headers=headers), timeout=15, context=NOT_VERIFIED
        ) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.code, refusal.read().decode()


def issue(folder, name):
    """Put a new certificate and its key into a folder; the file with the certificate of who issued it."""
    authority = trustme.CA()
    issued = authority.issue_cert(name)
    (folder / "tls.key").write_bytes(issued.private_key_pem.bytes())
    (folder / "tls.crt").write_bytes(b"".join(pem.bytes() for pem in issued.cert_chain_pems))
    authority.cert_pem.write_to_path(folder / "ca.crt")
    return folder / "ca.crt"


async def scraped(process, token=None):
    url = (await process.address(0)).replace("http:", "https:")
    return await asyncio.to_thread(fetch, f"{url}/metrics", token)


async def wait_for(process, token, status):
    """Wait until it answers so; roles reach the authorizer a moment after they were stored."""

    async def check():
        code, body = await scraped(process, token)
        assert code == status, f"{code}: {body[:200]}"
        return body

    return await eventually(check, within=30)


@pytest.mark.real_server("RBAC")
@pytest.mark.usefixtures("rights")
async def test_metrics_are_for_those_whom_the_apiserver_allows(plane, token):
    prometheus, outsider = token("prometheus", may_read=True), token("outsider", may_read=False)
    elsewhere = token("elsewhere", may_read=True, audience="another-service")
    async with operator(plane, arguments=SECURE) as process:
        body = await wait_for(process, prometheus, 200)
        assert "tf_operator_build_info" in body
        assert (await scraped(process))[0] == 401
        assert (await scraped(process, "garbage"))[0] == 401
        assert (await scraped(process, elsewhere))[0] == 401
        status, words = await scraped(process, outsider)
        assert (status, "nonResourceURLs" in words) == (403, True)

        probes = await process.address(1)
        assert (await asyncio.to_thread(fetch, f"{probes}/readyz")) == (200, "ok\n")
        assert not [secret for secret in (prometheus, outsider, elsewhere) if secret in str(process.records)]


@pytest.mark.real_server("RBAC")
async def test_nobody_is_let_in_when_the_operator_may_not_ask_and_the_log_says_what_is_missing(plane, token):
    prometheus = token("prometheus", may_read=True)
    async with operator(plane, arguments=SECURE) as process:
        process.expected_errors.add("metrics authorization unavailable")
        assert (await scraped(process, prometheus))[0] == 503
        told = await process.wait_for("metrics authorization unavailable")

    assert told["hint"] == "the ClusterRole for protected metrics is missing"
    assert "tokenreviews" in told["error"]


@pytest.mark.real_server("RBAC")
@pytest.mark.usefixtures("rights")
async def test_nobody_new_is_let_in_while_the_apiserver_hangs_and_health_is_told_all_the_same(plane, token):
    prometheus, late = token("prometheus", may_read=True), token("late", may_read=True)
    async with operator(plane, arguments=SECURE) as process:
        await wait_for(process, prometheus, 200)
        process.expected_errors.add("metrics authorization unavailable")
        apiserver = plane.servers["kube-apiserver"]
        apiserver.pause()
        try:
            assert (await scraped(process, late))[0] == 503
            assert (await scraped(process, prometheus))[0] == 200
            assert (await asyncio.to_thread(fetch, f"{await process.address(1)}/healthz"))[0] == 200
        finally:
            apiserver.resume()
        await wait_for(process, late, 200)


def scrape_config(endpoint, *, token_file, authority):
    """What the Prometheus operator makes of a monitor's endpoint; files take the place of Secrets."""
    config = {"scheme": endpoint["scheme"]}
    if "authorization" in endpoint:
        assert endpoint["authorization"]["credentials"]["name"]
        config["authorization"] = {"credentials_file": str(token_file)}
    if "bearerTokenFile" in endpoint:
        config["bearer_token_file"] = str(token_file)
    trust = endpoint["tlsConfig"]
    if trust.get("insecureSkipVerify"):
        config["tls_config"] = {"insecure_skip_verify": True}
    else:
        assert trust["ca"]["secret"]["key"] == "ca.crt"
        config["tls_config"] = {"ca_file": str(authority), "server_name": trust["serverName"]}
    return config


@pytest.mark.usefixtures("rights")
@pytest.mark.programs("helm")
@pytest.mark.parametrize(
    "secure",
    [
        pytest.param({}, id="a certificate of its own"),
        pytest.param({"certificateSecret": "certificate", "tokenSecret": "reader"}, id="a given one"),
    ],
)
@pytest.mark.real_server("RBAC")
async def test_prometheus_scrapes_it_as_the_monitors_of_the_chart_tell_it_to(
    plane, token, prometheus, tmp_path, secure
):
    values = {"metrics": {"secure": {"enabled": True, **secure}, "serviceMonitor": {"enabled": True}}}
    (endpoint,) = one(Helm("helm-3", tmp_path).objects(values), "ServiceMonitor")["spec"]["endpoints"]
    token_file = tmp_path / "token"
    token_file.write_text(token("prometheus", may_read=True))
    issued = issue(tmp_path, endpoint["tlsConfig"].get("serverName", "unused"))
    arguments = (*SECURE, f"--metrics-cert-path={tmp_path}") if secure else SECURE
    async with operator(plane, arguments=arguments) as process:
        url = f"{await process.address(0)}/metrics"
        access = scrape_config(endpoint, token_file=token_file, authority=issued)
        prometheus.scrape(Target("protected", url, access=access))

        def check():
            targets = [target for target in prometheus.targets() if target["labels"]["job"] == "protected"]
            assert [target["health"] for target in targets] == ["up"], targets
            return targets

        await eventually(check, within=60)
