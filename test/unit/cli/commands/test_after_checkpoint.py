"""``--after-checkpoint``: nothing is done to a job before its program has saved its work again."""

import asyncio

import pytest

from support.embedded.embedded_jobs import PODS, TFJOBS, EmbeddedJobs
from support.fake_clock import FakeClock
from tf_operator.cli import main
from tf_operator.cli.commands.changes import restart, scale, suspend
from tf_operator.client import AsyncTFJobs, NotPossible, WaitTimeout
from tf_operator.machinery.transport import errors

REPORT = {"trainerStatus": {"step": 3500}}
VERBS = {
    "suspend a": (suspend._suspend, lambda cluster: cluster.find(TFJOBS, "a")["spec"]["runPolicy"].get("suspend")),
    "restart a": (
        restart._restart,
        lambda cluster: "deletionTimestamp" in cluster.find(PODS, "a-worker-0")["metadata"],
    ),
    "scale a --replicas 3": (
        scale._scale,
        lambda cluster: cluster.find(TFJOBS, "a")["spec"]["tfReplicaSpecs"]["Worker"]["replicas"] == 3,
    ),
}


@pytest.fixture
def cluster():
    """With a job that runs and has saved its work at step 3400."""
    embedded = EmbeddedJobs(FakeClock())
    job = embedded.job("a", elasticPolicy={"minReplicas": 1, "maxReplicas": 5})
    embedded.report("a", "Running", **REPORT, checkpoint={"step": 3400})
    embedded.pod(job, "worker-0")
    return embedded


async def begin(cluster, line, verb):
    """The command, as far as it comes without waiting."""
    arguments = main.make_parser(line.split()[0]).parse_args(line.split())

    async def run():
        async with cluster.client() as jobs:
            return await verb(jobs, arguments)

    command = asyncio.ensure_future(run())
    await cluster.clock.idle()
    return command


@pytest.mark.parametrize("line", VERBS)
async def test_a_command_waits_for_a_new_checkpoint_and_then_acts(cluster, line, capsys):
    verb, is_done = VERBS[line]
    command = await begin(cluster, f"{line} --after-checkpoint", verb)
    assert capsys.readouterr().err == "TFJob default/a: waiting for a checkpoint after that of step 3400\n"
    cluster.report("a", "Running", trainerStatus={"step": 3600}, checkpoint={"step": 3400})
    await cluster.clock.idle()
    assert not is_done(cluster)

    cluster.report("a", "Running", **REPORT, checkpoint={"step": 3600})
    assert await command == 0
    assert is_done(cluster)


@pytest.mark.parametrize("line", VERBS)
async def test_nothing_is_done_when_there_is_no_checkpoint_in_time(cluster, line):
    verb, is_done = VERBS[line]
    command = await begin(cluster, f"{line} --after-checkpoint --timeout 2m", verb)
    await cluster.clock.advance(121)

    with pytest.raises(WaitTimeout, match="after 120 s"):
        await command
    assert not is_done(cluster)


async def test_nothing_is_done_to_a_job_that_ends_meanwhile(cluster):
    command = await begin(cluster, "suspend a --after-checkpoint", suspend._suspend)
    cluster.report("a", "Succeeded", **REPORT, checkpoint={"step": 3400})

    with pytest.raises(NotPossible, match="a has succeeded without another checkpoint"):
        await command


async def test_a_job_that_is_suspended_is_not_waited_for(cluster):
    cluster.job("b", runPolicy={"suspend": True})
    command = await begin(cluster, "suspend b --after-checkpoint", suspend._suspend)

    assert command.done()
    with pytest.raises(NotPossible, match="b is suspended without another checkpoint"):
        await command


async def test_the_first_checkpoint_is_a_new_one(cluster, capsys):
    cluster.job("b", status={"trainerStatus": {"step": 1}})
    command = await begin(cluster, "suspend b --after-checkpoint", suspend._suspend)
    assert "waiting for its first checkpoint" in capsys.readouterr().err
    cluster.report("b", "Running", trainerStatus={"step": 1}, checkpoint={"step": 0})

    assert await command == 0


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("scale a --replicas 9", "maxReplicas"),
        ("scale a --replicas 3 --type PS", "has no replicas of type PS"),
        ("restart a --replica worker-7", "has no replica worker-7"),
        ("restart never", "has restartPolicy Never"),
        ("suspend over", "over has succeeded: submit it again"),
        ("restart nowhere", "nowhere"),
    ],
)
async def test_what_is_refused_is_not_waited_for(cluster, line, words, capsys):
    cluster.pod(cluster.job("never", tfReplicaSpecs={"Worker": {"restartPolicy": "Never"}}), "worker-0")
    cluster.job("over")
    cluster.report("over", "Succeeded", **REPORT)
    verb = next(verb for known, (verb, _) in VERBS.items() if known.split()[0] == line.split()[0])
    command = await begin(cluster, f"{line} --after-checkpoint", verb)

    assert command.done()
    with pytest.raises((NotPossible, errors.Invalid, errors.NotFound), match=words):
        await command
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("line", VERBS)
async def test_another_job_that_has_the_name_by_now_is_left_alone(cluster, line, monkeypatch):
    wait = AsyncTFJobs.wait

    async def wait_and_replace(jobs, job, **options):
        reached = await wait(jobs, job, **options)
        await jobs.delete(reached)
        cluster.job("a", elasticPolicy={"minReplicas": 1, "maxReplicas": 5})
        return reached

    monkeypatch.setattr(AsyncTFJobs, "wait", wait_and_replace)
    command = await begin(cluster, f"{line} --after-checkpoint", VERBS[line][0])
    cluster.report("a", "Running", **REPORT, checkpoint={"step": 3600})

    with pytest.raises(errors.NotFound):
        await command
    assert cluster.find(TFJOBS, "a")["metadata"]["generation"] == 1
