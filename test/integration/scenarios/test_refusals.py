"""Creates that the apiserver refuses: quotas, policies, impossible templates."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

from support import builders
from support.audit import Tally
from support.crew import ONE_CREW, QUICK, Crew
from support.denials import dead_webhook, denied_pods
from support.resources import TFJOBS, Json, Resource
from support.scene import Scene, moment, states
from support.settle import eventually
from support.templates import Template

pytestmark = ONE_CREW
ARGUMENTS = (QUICK,)

QUOTAS = Resource("", "v1", "resourcequotas")


async def test_a_refusal_is_told_and_tried_again_later_each_time(scene: Scene) -> None:
    """T22: the server's words in a condition, one event, growing delays; when it is over, everything is made."""
    label = {"refused": scene.namespace}
    async with denied_pods(scene.admin, label, "no room for this team") as denial:
        job = builders.tfjob("j").workers(2, template=Template().labels(label)).parameter_servers(1)
        await scene.submit(job)
        found = await scene.wait("j", "Created", text="no room for this team")
        assert states(found) == ["Created"]
        await eventually(lambda: len(_attempts(scene)) >= 3, within=30)
        gaps = [later - earlier for earlier, later in pairwise(_attempts(scene)[:3])]
        for gap, least in zip(gaps, (1, 2), strict=True):
            assert gap >= timedelta(seconds=0.9 * least), gaps
        assert (await scene.wait_event("FailedCreatePod", "no room for this team"))["type"] == "Warning"
        assert len(await scene.events("FailedCreatePod")) == 1
        await denial.end()
        # The next attempt comes 4 s after the third one.
        await scene.wait_pods("j-ps-0", "j-worker-0", "j-worker-1", within=20)
    await scene.run("j-ps-0", "j-worker-0", "j-worker-1")
    found = await scene.wait("j", "Running")
    assert not [entry for entry in found["status"]["conditions"] if "no room" in entry["message"]]


async def test_a_webhook_that_nobody_answers_is_told_and_waited_for(scene: Scene) -> None:
    """Rule 21: a 500 in the apiserver's eyes, and for the job's owner the reason why there are no pods."""
    async with dead_webhook(scene.admin, scene.namespace):
        await scene.submit(builders.tfjob("j").workers(2))
        found = await scene.wait("j", "Created", text='failed calling webhook "dead.test.example"')
        assert states(found) == ["Created"]
        assert (await scene.wait_event("FailedCreatePod", "failed calling webhook"))["type"] == "Warning"
    await scene.wait_pods("j-worker-0", "j-worker-1", within=60)
    await scene.run("j-worker-0", "j-worker-1")
    found = await scene.wait("j", "Running")
    assert not [entry for entry in found["status"]["conditions"] if "webhook" in entry["message"]]


async def test_a_quota_that_is_raised_lets_the_job_go_on(scene: Scene) -> None:
    """G3, fault 25: half the pods fit; the condition says why the others are missing."""
    quota = {"metadata": {"name": "small"}, "spec": {"hard": {"pods": "1"}}}
    await scene.admin.create(QUOTAS.path(scene.namespace), quota)
    await eventually(lambda: _is_counted(scene), within=30)
    await scene.submit(builders.tfjob("j").workers(3))
    await scene.wait("j", "Created", text="exceeded quota")
    await scene.wait_pods("j-worker-0")
    await scene.admin.patch(QUOTAS.path(scene.namespace, "small"), {"spec": {"hard": {"pods": "5"}}})
    await scene.wait_pods("j-worker-0", "j-worker-1", "j-worker-2", within=60)


async def test_a_template_that_is_impossible_fails_the_job_with_the_servers_words(scene: Scene) -> None:
    """T22: 422 is for ever: Failed with the text, one attempt."""
    template = Template().spec(nodeSelector={"pool": "not a label!"})
    await scene.submit(builders.tfjob("j").workers(2, template=template))
    await scene.wait("j", "Failed", text="not a label!")
    await scene.quiet(1.5)
    assert scene.sent().tally()[Tally("create", "pods", 422)] == 1
    assert await scene.pods() == {}


async def test_a_namespace_that_is_on_its_way_out_is_left_alone(scene: Scene) -> None:
    """Fault 26: at most one attempt a minute, and nothing that would keep the namespace."""
    await scene.begin_running(builders.tfjob("j").workers(2, restart="OnFailure").clean_pods("All"))
    body = {"metadata": {"finalizers": ["test.tf-operator/hold"]}}
    await scene.admin.patch(TFJOBS.path(scene.namespace, "j"), body)
    await scene.admin.delete(f"/api/v1/namespaces/{scene.namespace}")
    await scene.wait_pods(within=60)
    mark = scene.mark()
    await scene.quiet(3.0)
    creates = [entry for entry in scene.sent(mark) if entry.verb == "create" and entry.resource != "events"]
    assert len(creates) <= 1, scene.sent(mark).writes().tally()
    await scene.admin.patch(TFJOBS.path(scene.namespace, "j"), {"metadata": {"finalizers": None}})
    await scene.wait_job_gone(within=60)


async def test_one_job_that_is_refused_holds_up_no_other(scene: Scene, crew: Crew) -> None:
    """T22: the others get their pods meanwhile."""
    label = {"refused": scene.namespace}
    async with denied_pods(scene.admin, label, "not today") as denial:
        await scene.submit(builders.tfjob("j").workers(1, template=Template().labels(label)))
        await scene.wait("j", "Created", text="not today")
        await scene.begin(builders.tfjob("k").workers(2))
        await denial.end()
    assert crew.process.exit_code is None


def _attempts(scene: Scene) -> list[datetime]:
    """When pods were refused; those of one batch are one attempt."""
    refused = [moment(entry.at) for entry in scene.sent() if entry.tally == ("create", "pods", 403)]
    first = [datetime.min.replace(tzinfo=UTC), *refused]
    return [later for earlier, later in pairwise(first) if later - earlier > timedelta(seconds=0.5)]


async def _is_counted(scene: Scene) -> Json:
    found = await scene.admin.get(QUOTAS.path(scene.namespace, "small"))
    used: Json = found.get("status", {}).get("used", {})
    return used
