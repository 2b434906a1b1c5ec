"""Whatever happens to jobs, when all of them are gone the controller keeps nothing for them."""

import asyncio

from hypothesis import example, given, settings
from hypothesis import strategies as st

from support.embedded.controller_harness import JOBS, KEY, Harness
from support.embedded.embedded_api import refused
from support.jobs import builders
from tf_operator.controller import resources
from tf_operator.controller.controller import Controller
from tf_operator.controller.metrics_hooks import ReconcileInstruments
from tf_operator.machinery.transport import errors
from tf_operator.meta import ObjectKey

NAMES = ("a", "b")
FAILURES = {
    "refused": refused(403, "Forbidden", "exceeded quota"),
    "taken": refused(409, "AlreadyExists"),
    "lost": errors.ReplyLost("reset"),
    "unreachable": errors.Unreachable("refused"),
}
CALLS = ("create pods", "create services", "delete pods", "patch tfjobs", "get pods")


class Life:
    """Some jobs, a controller that leads at times, and a cluster that fails at times."""

    def __init__(self) -> None:
        self.harness = Harness()
        self.harness.queue.pause()  # until it leads
        reconciler, notes, clock = self.harness.reconciler, self.harness.notes, self.harness.clock
        self.controller = Controller(
            self.harness.queue, self.harness.jobs, reconciler, notes, clock, ReconcileInstruments(), workers=2
        )
        self.working: asyncio.Future[None] | None = None
        self.harness.api.on_way = self._slow_create

    async def _slow_create(self, call: str) -> None:
        if call.startswith("create"):
            await self.harness.clock.sleep(0.02)

    async def lead(self) -> None:
        if self.working is None:
            self.working = asyncio.ensure_future(self.controller.run())

    async def lose(self) -> None:
        if self.working is not None:
            self.working.cancel()
            await asyncio.wait([self.working])
            self.working = None

    async def create(self, name: str) -> None:
        if ObjectKey(KEY.namespace, name) not in self.harness.jobs:
            stored = self.harness.create_job(builders.tfjob(name).workers(2, restart="OnFailure"))
            job = self.harness.jobs.by_uid(stored["metadata"]["uid"])
            self.harness.on_job.on_add(job)

    async def change(self, name: str) -> None:
        if job := self.harness.jobs.get(ObjectKey(KEY.namespace, name)):
            self.harness.on_job.on_update(job, job)

    async def delete(self, name: str) -> None:
        key = ObjectKey(KEY.namespace, name)
        if job := self.harness.jobs.get(key):
            self.harness.api.remove(JOBS, key)
            self.harness.sync()
            self.harness.on_job.on_delete(job, final_state_known=True)

    async def lose_pod(self, name: str) -> None:
        if self.harness.api.find(resources.PODS, key := ObjectKey(KEY.namespace, f"{name}-worker-0")):
            self.harness.api.remove(resources.PODS, key)
        self.harness.sync()

    async def fail(self, call: str, failure: str) -> None:
        self.harness.api.fail(call, FAILURES[failure])

    async def wait(self, seconds: float) -> None:
        self.harness.sync()
        await self.harness.clock.advance(seconds)
        self.harness.sync()

    def sizes(self) -> dict[str, int]:
        """What is kept, by where."""
        harness, queue = self.harness, self.harness.queue
        return {
            "notes": len(harness.notes),
            "costs": len(harness.debounce),
            "pending writes": harness.pending_writes.owners,
            "waiting keys": queue.depth + queue.delayed + len(queue._low),
            "back-offs": sum(queue.retries(ObjectKey(KEY.namespace, name)) for name in NAMES),
        }


NAME = st.sampled_from(NAMES)
STEPS = st.one_of(
    st.just(("lead",)),
    st.just(("lose",)),
    st.tuples(st.just("create"), NAME),
    st.tuples(st.just("create"), NAME),
    st.tuples(st.just("change"), NAME),
    st.tuples(st.just("delete"), NAME),
    st.tuples(st.just("lose_pod"), NAME),
    st.tuples(st.just("fail"), st.sampled_from(CALLS), st.sampled_from(sorted(FAILURES))),
    st.tuples(st.just("wait"), st.sampled_from([0.0, 0.05, 0.2, 1.0, 20.0])),
)


@example([("fail", "create services", "unreachable"), ("create", "a"), ("wait", 0.03), ("lose",)], False)
@example([("create", "a"), ("wait", 0.03), ("lose",)], False)
@example([("create", "a"), ("wait", 0.01), ("delete", "a"), ("lose",)], False)
@settings(max_examples=60)
@given(st.lists(STEPS, max_size=25), st.booleans())
def test_nothing_is_kept_for_jobs_that_are_gone(steps, leads_at_the_end):
    async def live() -> dict[str, int]:
        life = Life()
        await life.lead()
        for step, *arguments in steps:
            await getattr(life, step)(*arguments)
        if leads_at_the_end:
            await life.lead()
        for name in NAMES:
            await life.delete(name)
        for body in life.harness.api.of(resources.PODS):
            await life.lose_pod(body["metadata"]["name"].partition("-")[0])
        await life.wait(300)
        sizes = life.sizes()
        await life.lose()
        return sizes

    assert not {where: count for where, count in asyncio.run(live()).items() if count}
