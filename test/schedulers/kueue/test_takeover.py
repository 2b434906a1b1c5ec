"""Kueue loses its code for TFJobs, and the operator makes Workloads from then on: no job is lost, none is disturbed."""

from functools import partial

import pytest
import yaml

from support.operators.operator_fixture import ONE_OPERATOR, QUICK, make_namespaces, make_operator_fixture
from support.partners.kueue_process import conditions, kueue_process
from support.partners.kueue_queue import ROLES, QueueNamespace
from support.settle import eventually

pytestmark = [
    ONE_OPERATOR,
    pytest.mark.nightly,
    pytest.mark.programs("kueue-0.14", "kueue-0.19"),
]


async def _is_taken_over(queue: QueueNamespace) -> bool:
    """Nobody else would take the finalizer away. As long as Kueue's webhooks are not back, nobody can."""
    workload = await queue.wait_workload("a", "Admitted")
    return not workload["metadata"].get("finalizers")


@pytest.mark.parametrize("release", ["0.14", "0.19"])
async def test_jobs_of_before_run_on_and_wait_on(fresh_plane, tmp_path, release):
    with fresh_plane("audit") as plane:
        namespaces = await make_namespaces(plane, "takeover", 1)
        old_folder, after = tmp_path / "before", tmp_path / "after"
        with kueue_process(plane, old_folder, release=release, integrates_tfjobs=True) as kueue:
            async with make_operator_fixture(plane, namespaces=namespaces, arguments=(QUICK,)) as operator:
                queue = QueueNamespace(kueue, operator.job_namespace(), is_external=False)
                queue.make_queue()
                running = await queue.begin(queue.job("a"), "a-worker-0", "a-worker-1")
                await queue.jobs.wait("a", "Running")
                await queue.jobs.submit(queue.job("b"))
                await queue.jobs.wait("b", "Suspended")
                waiting = await queue.wait_workload("b")

        plane.grant(*(yaml.safe_load(file.read_text()) for file in sorted(ROLES.glob("*.yaml"))))
        arguments = (QUICK, "--kueue=external")
        async with make_operator_fixture(plane, namespaces=namespaces, arguments=arguments) as operator:
            with kueue_process(plane, after, release=release, integrates_tfjobs=False) as kueue:
                queue = QueueNamespace(kueue, operator.job_namespace(), is_external=True)
                await queue.jobs.quiet()
                assert await eventually(partial(_is_taken_over, queue), within=90.0)
                assert await queue.jobs.uids() == {name: pod["metadata"]["uid"] for name, pod in running.items()}
                assert "Admitted" not in conditions(await queue.wait_workload("b"))
                await queue.jobs.succeed("a-worker-0")
                await queue.wait_workload("a", "Finished")
                await queue.wait_pods_of("a-worker-0", "a-worker-1", "b-worker-0", "b-worker-1")
                assert (await queue.wait_workload("b", "Admitted"))["metadata"]["uid"] == waiting["metadata"]["uid"]
                await queue.jobs.run("b-worker-0", "b-worker-1")
                await queue.jobs.succeed("b-worker-0")
                await queue.wait_workload("b", "Finished")
