"""Reports of progress on a real apiserver, with real tokens of service accounts: whose are taken, and whose are not."""

import asyncio
import json
import socket
import ssl
import urllib.error
import urllib.request
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import pytest
import trustme
import yaml

from support.jobs.builders import tfjob
from support.operators.operator_process import operator
from support.partners.service import service
from support.settle import eventually

RBAC = "/apis/rbac.authorization.k8s.io/v1"
TFJOBS = "/apis/kubeflow.org/v1/namespaces/{}/tfjobs"
AUDIENCE = "tf-operator.kubeflow.org/progress"
AUTHORITY_ANNOTATION = "tf-operator.kubeflow.org/progress-ca"
ELECTION = tuple(f"--leader-election-{name}" for name in ("lease-duration=6s", "renew-deadline=4s", "retry-period=1s"))
REPORTS = {"spec": {"runPolicy": {"progressPolicy": {"reports": True}}}}
ROLES = Path(__file__).resolve().parents[3] / "manifests/rbac/progress"
CLIENTS = yaml.safe_load(Path(__file__).with_name("trainer_clients.yaml").read_text())


@pytest.fixture
def rights(plane):
    """The operator may ask whose a token is, while the test runs."""
    plurals = {"clusterroles": "cluster-role.yaml", "clusterrolebindings": "cluster-role-binding.yaml"}
    objects = {plural: yaml.safe_load((ROLES / file).read_text()) for plural, file in plurals.items()}
    for plural, body in objects.items():
        plane.admin.create(f"{RBAC}/{plural}", body)
    yield
    for plural, body in objects.items():
        plane.admin.delete(f"{RBAC}/{plural}/{body['metadata']['name']}")


@pytest.fixture
def folder(tmp_path):
    """With a certificate that pods trust."""
    put_certificate(tmp_path)
    return tmp_path


def put_certificate(folder):
    """One of a new authority."""
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    (folder / "tls.key").write_bytes(issued.private_key_pem.bytes())
    (folder / "tls.crt").write_bytes(b"".join(pem.bytes() for pem in issued.cert_chain_pems))
    authority.cert_pem.write_to_path(folder / "ca.crt")


def free_address():
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()


def listening(folder, address, url=None):
    """The flags of an operator that takes reports there."""
    text = f"{address[0]}:{address[1]}"
    where = f"--progress-bind-address={text}", f"--progress-url=https://{url or text}"
    return (*where, f"--progress-cert-path={folder}")


@pytest.fixture
def namespaces(plane):
    """Two, each with a service account."""
    names = [plane.make_namespace("progress") for _ in range(2)]
    for name in names:
        plane.admin.create(f"/api/v1/namespaces/{name}/serviceaccounts", {"metadata": {"name": "trainer"}})
    return names


def create_job(plane, namespace, job):
    body = job.merged(REPORTS).body()
    for replica in body["spec"]["tfReplicaSpecs"].values():
        replica["template"]["spec"]["serviceAccountName"] = "trainer"
    plane.admin.create(TFJOBS.format(namespace), body)


def token(plane, pod=None, *, namespace="", audience=AUDIENCE):
    """A token of the service account, bound to a pod as the kubelet does it."""
    namespace = pod["metadata"]["namespace"] if pod else namespace
    about = pod and {"apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
    spec = {"audiences": [audience], "expirationSeconds": 600} | ({"boundObjectRef": about} if about else {})
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/trainer/token"
    return plane.admin.create(path, {"spec": spec})["status"]["token"]


def send(url, bearer, context, **status):
    body = json.dumps({"trainerStatus": status}).encode()
    request = urllib.request.Request(url, body, {"Authorization": f"Bearer {bearer}"})
    try:
        return urllib.request.urlopen(request, timeout=15, context=context).status
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.code


async def pods_of(plane, namespace, count):
    def check():
        pods = plane.admin.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
        assert len(pods) == count
        return {pod["metadata"]["name"]: pod for pod in pods}

    return await eventually(check, within=30)


def variables(pod):
    return {entry["name"]: entry.get("value") for entry in pod["spec"]["containers"][0]["env"]}


@pytest.mark.real_server("RBAC")
@pytest.mark.usefixtures("rights")
async def test_only_the_pod_that_decides_reports_about_its_job_with_its_own_token(plane, folder, namespaces):
    here, there = namespaces
    for namespace, name in ((here, "a"), (here, "b"), (there, "a")):
        create_job(plane, namespace, tfjob(name).workers(2))
    arguments = ("--leader-elect=false", *listening(folder, free_address()))
    async with operator(plane, arguments=arguments) as process:
        pods, others = await pods_of(plane, here, 4), await pods_of(plane, there, 2)
        reporter = pods["a-worker-0"]
        url = variables(reporter)["KUBEFLOW_TRAINER_SERVER_URL"]
        assert "KUBEFLOW_TRAINER_SERVER_URL" not in variables(pods["a-worker-1"])
        authority = reporter["metadata"]["annotations"][AUTHORITY_ANNOTATION]
        context = ssl.create_default_context(cadata=authority)

        async def report(bearer, to=url, **status):
            """The status of the reply; who is told that there are too many unknown tokens, comes again."""

            async def attempt():
                code = await asyncio.to_thread(send, to, bearer, context, **status)
                assert code != 429
                return code

            return await eventually(attempt, within=60)

        good = token(plane, reporter)
        head, claims, signature = good.split(".")

        async def is_taken():
            return await report(good, progressPercentage=34, step=3400) == 200  # once the operator has heard of the pod

        await eventually(is_taken, within=30)
        refused = {
            "garbage": ("x", 401),
            "forged": (f"{head}.{claims}.{signature[::-1]}", 401),
            "for another audience": (token(plane, reporter, audience="https://kubernetes.default.svc"), 401),
            "of no pod": (token(plane, namespace=here), 401),
            "of another replica": (token(plane, pods["a-worker-1"]), 403),
            "of another job": (token(plane, pods["b-worker-0"]), 403),
            "of a job of that name elsewhere": (token(plane, others["a-worker-0"]), 403),
        }
        for kind, (bearer, code) in refused.items():
            assert (kind, await report(bearer, progressPercentage=99)) == (kind, code)
        assert await report(good, url.replace("/tfjobs/a/", "/tfjobs/b/"), progressPercentage=99) == 403
        assert await report(good, url.replace(f"/{here}/", f"/{there}/"), progressPercentage=99) == 403

        await eventually(partial(_equals, 34, partial(stored, plane, here, "a")), within=30)
        assert (stored(plane, here, "b"), stored(plane, there, "a")) == (None, None)
        plane.admin.delete(f"/api/v1/namespaces/{here}/pods/a-worker-0?gracePeriodSeconds=0")
        await eventually(lambda: _is_gone(plane, here, reporter), within=30)

        async def is_refused():
            return (
                await report(good, progressPercentage=34) == 403
            )  # what is stored, until the operator has heard of it

        await eventually(is_refused, within=30)
        assert process.exit_code is None


async def test_after_a_new_authority_new_pods_trust_the_operator(plane, folder, namespaces):
    address = free_address()
    async with operator(plane, arguments=("--leader-elect=false", *listening(folder, address))):
        create_job(plane, namespaces[0], tfjob("a").workers(1))
        await pods_of(plane, namespaces[0], 1)
        put_certificate(folder)
        create_job(plane, namespaces[1], tfjob("b").workers(1))
        pod = (await pods_of(plane, namespaces[1], 1))["b-worker-0"]
        context = ssl.create_default_context(cadata=pod["metadata"]["annotations"][AUTHORITY_ANNOTATION])
        with socket.create_connection(address, timeout=15) as connection:
            context.wrap_socket(connection, server_hostname=address[0]).close()


@pytest.mark.real_server("RBAC")
@pytest.mark.usefixtures("rights")
async def test_reports_reach_the_leader_through_any_replica_and_through_a_take_over(plane, folder, namespaces):
    namespace, addresses = namespaces[0], [free_address() for _ in range(2)]
    create_job(plane, namespace, tfjob("a").workers(1))
    async with AsyncExitStack() as stack:
        host, port = await stack.enter_async_context(service(addresses))
        url = f"{host}:{port}"

        async def begin(address, until):
            arguments = ("--leader-elect", *ELECTION, *listening(folder, address, url))
            return await stack.enter_async_context(operator(plane, arguments=arguments, until=until))

        leader = await begin(addresses[0], "workers started")
        standby = await begin(addresses[1], "the Lease is held")
        pods = await pods_of(plane, namespace, 1)
        pod = pods["a-worker-0"]
        context = ssl.create_default_context(cafile=folder / "ca.crt")
        bearer, job_url = token(plane, pod), variables(pod)["KUBEFLOW_TRAINER_SERVER_URL"]
        path = job_url.removeprefix(f"https://{url}")

        async def report(percentage, through=None):
            """Until it is taken: each replica takes one in five seconds."""
            to = f"https://{through[0]}:{through[1]}{path}" if through else job_url

            async def attempt():
                return await asyncio.to_thread(send, to, bearer, context, progressPercentage=percentage) == 200

            await eventually(attempt, within=90, every=1)

        await report(10, addresses[1])
        await eventually(partial(_equals, 10, partial(stored, plane, namespace, "a")), within=60)
        await leader.kill()
        await standby.wait_for("workers started")
        await report(20)
        addresses.append(free_address())
        await begin(addresses[2], "the Lease is held")
        await report(30, addresses[2])
        await report(40, addresses[1])
        await eventually(partial(_equals, 40, partial(stored, plane, namespace, "a")), within=90)


@pytest.mark.real_server("RBAC")
@pytest.mark.usefixtures("rights")
async def test_requests_of_the_clients_of_kubeflow_trainer_are_taken_as_they_are(plane, folder, namespaces):
    here, address = namespaces[0], free_address()
    for name in CLIENTS:
        create_job(plane, here, tfjob(name).workers(1))
    context = ssl.create_default_context(cafile=folder / "ca.crt")
    async with operator(plane, arguments=("--leader-elect=false", *listening(folder, address))):
        pods = await pods_of(plane, here, len(CLIENTS))
        for name, client in CLIENTS.items():
            pod, host = pods[f"{name}-worker-0"], "{}:{}".format(*address)
            path = variables(pod)["KUBEFLOW_TRAINER_SERVER_URL"].removeprefix(f"https://{host}")
            head = "\r\n".join([*client["head"], "", ""]).format(path=path, host=host, token=token(plane, pod))
            reader, writer = await asyncio.open_connection(*address, ssl=context)
            for _ in range(client["requests"]):  # over one connection
                writer.write(head.encode() + client["body"].encode())
                assert (await reader.readuntil(b"\r\n\r\n{}")).startswith(b"HTTP/1.1 200 OK\r\n")
            if client["requests"] == 1:
                assert await reader.read() == b""
            writer.transport.abort()

            sent = json.loads(client["body"])["trainerStatus"]
            shown = await eventually(partial(trainer_status, plane, here, name), within=30)
            assert shown | {"lastUpdatedTime": sent["lastUpdatedTime"]} == sent


def trainer_status(plane, namespace, name):
    return plane.admin.get(f"{TFJOBS.format(namespace)}/{name}").get("status", {}).get("trainerStatus", {})


def stored(plane, namespace, name):
    return trainer_status(plane, namespace, name).get("progressPercentage")


def _is_gone(plane, namespace, pod):
    pods = plane.admin.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
    assert pod["metadata"]["uid"] not in [entry["metadata"]["uid"] for entry in pods]
    return True


def _equals(value, read):
    assert read() == value
    return True
