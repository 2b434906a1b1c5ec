"""An upgrade from the version before, and the way back: jobs in every state go on, and no pod is touched.

The version before runs as a process of its own (`support.operators.previous_version`).
"""

import asyncio
from collections import Counter

from support.jobs import builders
from support.jobs.job_namespace import PATIENCE, pod_names
from support.operators.operator_fixture import ONE_OPERATOR, QUICK
from support.pods.pod_status import Exit
from support.resources import TFJOBS
from support.settle import eventually

# Three operators one after another, and a build before them.
pytestmark = ONE_OPERATOR
ARGUMENTS = (QUICK, "--restart-delay-cap=200ms")

SOME_TIME_LATER = "ReplicaPending"
"""What either version reports of a pod that has waited for long enough."""


async def test_jobs_in_every_state_outlive_an_upgrade_and_the_way_back(job_namespace, operator_fixture, previous):
    """Another version may refresh a status. It creates and deletes nothing, reports nothing again, changes no state."""
    await operator_fixture.terminate()
    await operator_fixture.start(tree=previous)
    await asyncio.gather(*(bring_there(job_namespace) for bring_there in STATES))

    await _replace(job_namespace, operator_fixture)
    # What this version writes down is what the one before has to read.
    await _fail_again(job_namespace)
    await _replace(job_namespace, operator_fixture, tree=previous)

    await _end_all(job_namespace)


async def _replace(job_namespace, operator_fixture, **options):
    """End a version as Kubernetes does, and start the other; it leaves everything as it is."""
    await job_namespace.quiet()
    await operator_fixture.terminate()
    snapshot, events, mark = await _everything(job_namespace), await _events(job_namespace), job_namespace.mark()
    await operator_fixture.start(**options)
    await job_namespace.quiet()
    after = await _everything(job_namespace)
    assert [(part, content, after[part]) for part, content in snapshot.items() if after[part] != content] == []
    assert {reason for _, reason, _ in (await _events(job_namespace)) - events} <= {SOME_TIME_LATER}
    writes = job_namespace.sent(mark).writes().tally()
    assert {write.resource for write in writes} <= {"tfjobs.kubeflow.org/status", "events"}


async def _everything(job_namespace):
    jobs = await _jobs(job_namespace)
    return {
        "pods": await job_namespace.uids(),
        "services": await job_namespace.services(),
        "conditions": {name: _transitions(job) for name, job in jobs.items()},
        "counts": {name: _counts(job) for name, job in jobs.items()},
    }


async def _events(job_namespace):
    """One for each time that something was reported."""
    counts = Counter()
    for event in await job_namespace.events():
        counts[event["involvedObject"]["name"], event["reason"], event["message"]] += event["count"]
    return counts


async def _fail_again(job_namespace):
    await job_namespace.wait_replaced(await job_namespace.kubelet.fail("restarted-worker-0", Exit(143)))
    await job_namespace.run("restarted-worker-0")
    await job_namespace.wait_status("restarted", restarts=2, ready="2/2")


async def _running_job(job_namespace):
    await _running(job_namespace, builders.tfjob("running").chief().workers(2).parameter_servers(1))


async def _waiting(job_namespace):
    await _begun(job_namespace, builders.tfjob("waiting").workers(2))


async def _partly(job_namespace):
    await _begun(job_namespace, builders.tfjob("partly").workers(2))
    await job_namespace.run("partly-worker-0")


async def _restarted(job_namespace):
    await _running(job_namespace, builders.tfjob("restarted").workers(2, restart="ExitCode").backoff_limit(5))
    await job_namespace.wait_replaced(await job_namespace.kubelet.fail("restarted-worker-1", Exit(143)))
    await job_namespace.run("restarted-worker-1")
    await job_namespace.wait("restarted", "Running")


async def _restarting(job_namespace):
    await _running(job_namespace, builders.tfjob("restarting").workers(2, restart="ExitCode"))
    await job_namespace.wait_replaced(await job_namespace.kubelet.fail("restarting-worker-0", Exit(137)))
    await job_namespace.wait("restarting", "Restarting")


async def _in_place(job_namespace):
    await _running(job_namespace, builders.tfjob("in-place").workers(2, restart="OnFailure").backoff_limit(5))
    await job_namespace.kubelet.restart("in-place-worker-1", Exit(1))
    await job_namespace.wait_status("in-place", restarts=1)


async def _disrupted(job_namespace):
    await _running(job_namespace, builders.tfjob("disrupted").workers(2, restart="OnFailure"))
    await job_namespace.wait_replaced(await job_namespace.kubelet.evict("disrupted-worker-0"))
    await job_namespace.run("disrupted-worker-0")
    await job_namespace.wait_status("disrupted", disruptions=1, ready="2/2")


async def _half_done(job_namespace):
    await _running(job_namespace, builders.tfjob("half-done").workers(2).success_policy("AllWorkers"))
    await job_namespace.succeed("half-done-worker-1")
    await job_namespace.wait_counts("Worker", "half-done", succeeded=1)


async def _suspended(job_namespace):
    await _running(job_namespace, builders.tfjob("suspended").workers(1))
    await job_namespace.edit_policy("suspended", suspend=True)
    await job_namespace.wait("suspended", "Suspended")


async def _resumed(job_namespace):
    await _running(job_namespace, builders.tfjob("resumed").workers(1))
    await job_namespace.edit_policy("resumed", suspend=True)
    await job_namespace.wait("resumed", "Suspended")
    await job_namespace.edit_policy("resumed", suspend=False)
    await job_namespace.wait_status("resumed", ready="0/1")


async def _succeeded(job_namespace):
    await _running(job_namespace, builders.tfjob("succeeded").chief().workers(1).clean_pods("Running"))
    await job_namespace.succeed("succeeded-chief-0")
    await job_namespace.wait("succeeded", "Succeeded")


async def _failed(job_namespace):
    await _running(job_namespace, builders.tfjob("failed").workers(2))
    await job_namespace.kubelet.fail("failed-worker-1", Exit(1))
    await job_namespace.wait("failed", "Failed")


STATES = (
    *(_running_job, _waiting, _partly, _restarted, _restarting, _in_place),
    *(_disrupted, _half_done, _suspended, _resumed, _succeeded, _failed),
)
"""Each brings a job of its own into a state."""


async def _begun(job_namespace, job):
    """Create a job and wait for its pods; other jobs have theirs in the same namespace."""
    names = set(pod_names(await job_namespace.submit(job)))

    async def check():
        pods = await job_namespace.pods()
        assert names <= pods.keys(), f"there are {sorted(pods)}"
        return True

    assert await eventually(check, within=PATIENCE)


async def _running(job_namespace, job):
    await _begun(job_namespace, job)
    body = job.body()
    await job_namespace.run(*pod_names(body))
    await job_namespace.wait(body["metadata"]["name"], "Running")


async def _jobs(job_namespace):
    return {
        job["metadata"]["name"]: job for job in await job_namespace.admin.list(TFJOBS.path(job_namespace.namespace))
    }


def _transitions(job):
    """What a condition that flaps would change; their order is fixed on take-over: the last is the current state."""
    fields = ("type", "status", "reason", "lastTransitionTime")
    return sorted(tuple(entry[field] for field in fields) for entry in job["status"]["conditions"])


def _counts(job):
    """What is counted and remembered, apart from words for people."""
    status = job["status"]
    fields = ("replicaStatuses", "startTime", "completionTime", "restarts", "disruptions", "firstFailure", "ready")
    return {field: status.get(field) for field in fields}


async def _end_all(job_namespace):
    """What was taken over can be finished: every job that still goes on runs to its end."""
    jobs = await _jobs(job_namespace)
    open_jobs = [name for name in jobs if name not in {"succeeded", "failed", "suspended"}]
    for name in open_jobs:
        await job_namespace.run(*(pod for pod in pod_names(jobs[name]) if pod != "half-done-worker-1"))
        await job_namespace.wait(name, "Running")
        decider = f"{name}-chief-0" if "Chief" in jobs[name]["spec"]["tfReplicaSpecs"] else f"{name}-worker-0"
        await job_namespace.succeed(decider)
        await job_namespace.wait(name, "Succeeded")
