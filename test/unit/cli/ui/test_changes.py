"""What a page may change: orders as they are read, offered, permitted and performed."""

import json

import pytest

from support.embedded.embedded_jobs import PODS, TFJOBS, EmbeddedJobs
from support.fake_clock import FakeClock
from tf_operator.cli import access
from tf_operator.cli.ui import changes
from tf_operator.cli.ui.changes import Order
from tf_operator.client import NotPossible

TEMPLATE = {"spec": {"containers": [{"name": "tensorflow", "image": "i"}]}}


@pytest.fixture
def cluster():
    return EmbeddedJobs(FakeClock())


@pytest.fixture
async def jobs(cluster):
    async with cluster.client() as client:
        yield client


def test_an_order_is_read():
    order = {"verb": "scale", "uid": "u", "type": "Worker", "replicas": 3}
    assert changes.read(json.dumps(order).encode()) == Order("scale", "u", "Worker", 3)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b"\xff",
        b"{}",
        b'{"verb": "scale"}',
        b'{"verb": "submit", "uid": "u"}',
        b'{"verb": "scale", "uid": 1}',
        b'{"verb": "scale", "uid": "u", "replicas": -1}',
        b'{"verb": "scale", "uid": "u", "replicas": 1.5}',
        b'{"verb": "scale", "uid": "u", "replicas": 100001}',
        b'{"verb": "delete", "uid": "u", "namespace": "other"}',
    ],
    ids=str,
)
def test_anything_else_is_no_order(body):
    with pytest.raises(ValueError, match=r"."):
        changes.read(body)


@pytest.mark.parametrize(
    ("state", "suspend", "possible"),
    [
        ("Running", False, ["suspend", "restart", "scale", "delete"]),
        ("Queued", False, ["suspend", "scale", "delete"]),
        ("Suspended", True, ["resume", "scale", "delete"]),
        ("Succeeded", False, ["delete"]),
    ],
)
async def test_offered_is_what_makes_sense(cluster, jobs, state, suspend, possible):
    cluster.job("j", runPolicy={"suspend": suspend})
    cluster.report("j", state)
    assert changes.possible(await jobs.get("j")) == possible


@pytest.mark.parametrize(
    ("permitted", "verbs"),
    [
        ({"patch tfjobs", "delete tfjobs", "delete pods"}, ["suspend", "resume", "restart", "scale", "delete"]),
        ({"patch tfjobs"}, ["suspend", "resume", "scale"]),
        ({"delete tfjobs"}, ["delete"]),
        ({"delete pods"}, ["restart"]),
        (set(), []),
    ],
)
async def test_allowed_is_what_the_api_server_allows(jobs, monkeypatch, permitted, verbs):
    async def is_allowed(_jobs, permission, name=""):
        assert name == ("" if permission.resource == "pods" else "j")
        return str(permission) in permitted

    monkeypatch.setattr(access, "is_allowed", is_allowed)
    assert await changes.allowed(jobs, "j") == verbs


async def test_the_api_server_is_asked_about_this_namespace_and_job(jobs, monkeypatch):
    reviews, create = [], type(jobs.client).create

    async def remember(client, resource, namespace, body):
        reviews.append(body["spec"]["resourceAttributes"])
        return await create(client, resource, namespace, body)

    monkeypatch.setattr(type(jobs.client), "create", remember)
    assert await changes.allowed(jobs, "j") == list(changes.VERBS)
    asked = [(review["verb"], review["resource"], review["namespace"], review["name"]) for review in reviews]
    assert asked == [
        ("patch", "tfjobs", "default", "j"),
        ("delete", "tfjobs", "default", "j"),
        ("delete", "pods", "default", ""),
    ]


async def test_orders_are_performed(cluster, jobs):
    job = cluster.job("j", runPolicy={"suspend": False})
    cluster.pod(job, "worker-0")

    def order(verb, **more):
        return Order(verb, job["metadata"]["uid"], **more)

    text = await changes.perform(jobs, "j", order("restart"))
    assert text == "Pods deleted, which the operator replaces: worker-0."
    assert "deletionTimestamp" in cluster.find(PODS, "j-worker-0")["metadata"]
    assert "none was running" in await changes.perform(jobs, "j", order("restart"))
    assert await changes.perform(jobs, "j", order("suspend")) == "j is suspended."
    assert (await jobs.get("j")).spec.run_policy.is_suspended
    text = await changes.perform(jobs, "j", order("scale", type="Worker", replicas=4))
    assert text == "j has 4 replicas of type Worker now."
    assert cluster.find(TFJOBS, "j")["spec"]["tfReplicaSpecs"]["Worker"]["replicas"] == 4
    assert await changes.perform(jobs, "j", order("resume")) == "j is resumed."
    assert await changes.perform(jobs, "j", order("delete")) == "j is deleted."
    assert cluster.find(TFJOBS, "j") is None


async def test_a_job_that_has_the_name_by_now_is_left_alone(cluster, jobs):
    cluster.job("j")
    with pytest.raises(NotPossible, match="another one"):
        await changes.perform(jobs, "j", Order("delete", "the-uid-of-before"))
    assert cluster.find(TFJOBS, "j")
