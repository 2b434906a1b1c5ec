"""Large jobs beside small ones: nobody waits for another one's pods, and nothing is made for what is gone."""

from support.jobs import builders
from support.operators.operator_fixture import ONE_OPERATOR
from support.settle import eventually

pytestmark = ONE_OPERATOR
ARGUMENTS = ("--controller-threads=2", "--kube-api-qps=40", "--kube-api-burst=40")
"""Two jobs are enough to hold all workers, and 800 requests take 20 s."""
IN_FLIGHT = 40


async def test_a_small_job_waits_for_no_large_one_and_a_deleted_one_gets_no_more_pods(job_namespace):
    """The large jobs get their pods one share after the other, and stop at the writes that are in flight."""
    large = ("a", "b")
    for name in large:
        await job_namespace.submit(builders.tfjob(name).workers(200).dynamic_workers())
    await _wait_for_pods(job_namespace, 100)
    await job_namespace.submit(builders.tfjob("small").workers(1))
    await _wait_for_pods(job_namespace, 1, of="small")
    assert len(await job_namespace.pods()) < 300, "the large ones are not done yet"

    for name in large:
        await job_namespace.delete_job(name)
    created = job_namespace.created_pods()
    await job_namespace.quiet()
    assert job_namespace.created_pods() <= created + IN_FLIGHT


async def _wait_for_pods(job_namespace, least, *, of=""):
    async def check():
        names = [name for name in await job_namespace.pods() if name.startswith(of)]
        assert len(names) >= least, f"there are {len(names)}"
        return True

    assert await eventually(check, within=60)
