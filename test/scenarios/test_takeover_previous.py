"""An upgrade from the version before: jobs in every state that it left running are taken over, and no pod is touched.

The version before is built from this repository's history and runs as a process of its own.
"""

import subprocess
from pathlib import Path

from support import builders, operator_process
from support.job_namespace import PATIENCE, pod_names
from support.operator_fixture import ALONE, ONE_OPERATOR, QUICK
from support.pod_status import Exit
from support.resources import TFJOBS
from support.settle import eventually

pytestmark = ONE_OPERATOR
ARGUMENTS = (QUICK, "--restart-delay-cap=200ms")

PREVIOUS = "ff668d7"
"""The last commit of the first version: what it writes is what clusters have stored."""
_ROOT = Path(__file__).resolve().parents[2]


async def test_jobs_in_every_state_are_taken_over_without_touching_a_pod(job_namespace, operator_fixture, tmp_path):
    """An upgrade may refresh a status. It creates and deletes nothing, and no condition changes its state."""
    operator_fixture.waived |= {"conditions"}  # the version before ordered those of a resumed job in another way
    await operator_fixture.terminate()
    await _leave_jobs(job_namespace, operator_fixture, tmp_path)
    pods, services, before = await job_namespace.uids(), await job_namespace.services(), await _jobs(job_namespace)
    mark = job_namespace.mark()

    await operator_fixture.start()
    await job_namespace.quiet(3)

    after = await _jobs(job_namespace)
    assert (await job_namespace.uids(), await job_namespace.services()) == (pods, services)
    for name, job in before.items():
        assert _transitions(after[name]) == _transitions(job), name
        assert _counts(after[name]) == _counts(job), name
    writes = job_namespace.sent(mark).writes().tally()
    assert {write.resource for write in writes} <= {"tfjobs.kubeflow.org/status", "events"}
    await _end_all(job_namespace)


async def _leave_jobs(job_namespace, operator_fixture, folder):
    """One job in each state, made and brought there by the version before, which is then stopped."""
    process = await operator_process.start(
        operator_fixture.plane,
        namespaces=operator_fixture.namespaces,
        arguments=(ALONE, *ARGUMENTS),
        tree=_check_out(PREVIOUS, folder),
    )
    await process.wait_for("working", within=60.0)
    await _running(job_namespace, builders.tfjob("running").chief().workers(2).parameter_servers(1))
    await _begun(job_namespace, builders.tfjob("waiting").workers(2))
    await _begun(job_namespace, builders.tfjob("partly").workers(2))
    await job_namespace.run("partly-worker-0")

    await _running(job_namespace, builders.tfjob("restarted").workers(2, restart="ExitCode").backoff_limit(5))
    await job_namespace.wait_replaced(await job_namespace.kubelet.fail("restarted-worker-1", Exit(143)))
    await job_namespace.run("restarted-worker-1")
    await job_namespace.wait("restarted", "Running")

    await _running(job_namespace, builders.tfjob("restarting").workers(2, restart="ExitCode"))
    await job_namespace.wait_replaced(await job_namespace.kubelet.fail("restarting-worker-0", Exit(137)))
    await job_namespace.wait("restarting", "Restarting")

    await _running(job_namespace, builders.tfjob("in-place").workers(2, restart="OnFailure").backoff_limit(5))
    await job_namespace.kubelet.restart("in-place-worker-1", Exit(1))
    await job_namespace.wait_status("in-place", restarts=1)

    await _running(job_namespace, builders.tfjob("disrupted").workers(2, restart="OnFailure"))
    await job_namespace.wait_replaced(await job_namespace.kubelet.evict("disrupted-worker-0"))
    await job_namespace.run("disrupted-worker-0")
    await job_namespace.wait_status("disrupted", disruptions=1, ready="2/2")

    await _running(job_namespace, builders.tfjob("half-done").workers(2).success_policy("AllWorkers"))
    await job_namespace.succeed("half-done-worker-1")
    await job_namespace.wait_counts("Worker", "half-done", succeeded=1)

    await _running(job_namespace, builders.tfjob("suspended").workers(1))
    await job_namespace.edit_policy("suspended", suspend=True)
    await job_namespace.wait("suspended", "Suspended")

    await _running(job_namespace, builders.tfjob("resumed").workers(1))
    await job_namespace.edit_policy("resumed", suspend=True)
    await job_namespace.wait("resumed", "Suspended")
    await job_namespace.edit_policy("resumed", suspend=False)
    await job_namespace.wait_status("resumed", ready="0/1")

    await _running(job_namespace, builders.tfjob("succeeded").chief().workers(1).clean_pods("Running"))
    await job_namespace.succeed("succeeded-chief-0")
    await job_namespace.wait("succeeded", "Succeeded")

    await _running(job_namespace, builders.tfjob("failed").workers(2))
    await job_namespace.kubelet.fail("failed-worker-1", Exit(1))
    await job_namespace.wait("failed", "Failed")

    await job_namespace.quiet(3)
    assert await process.terminate() == 0
    assert not process.unexpected(), process.unexpected()[:3]


async def _begun(job_namespace, job):
    """Create a job and wait for its pods; other jobs have theirs in the same namespace."""
    names = set(pod_names(await job_namespace.submit(job)))

    async def check():
        found = await job_namespace.pods()
        assert names <= found.keys(), f"there are {sorted(found)}"
        return True

    assert await eventually(check, within=PATIENCE)


async def _running(job_namespace, job):
    await _begun(job_namespace, job)
    body = job.body()
    await job_namespace.run(*pod_names(body))
    await job_namespace.wait(body["metadata"]["name"], "Running")


def _check_out(commit, folder):
    """The package as it was at a commit."""
    command = f"git archive {commit} tf_operator | tar -x -C {folder}"
    subprocess.run(["bash", "-o", "pipefail", "-c", command], cwd=_ROOT, check=True)
    return folder


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
