"""``TFJobs``: ``AsyncTFJobs`` for programs without an event loop.

It has a thread with a loop of its own, not ``asyncio.run`` for each call: the connection, with its TLS handshake, is
kept from call to call, an iterator has to live between its items, and in a notebook, whose thread has a running loop,
``asyncio.run`` would fail.
"""

import asyncio
import os
import queue
import threading
import weakref
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from tf_operator.client.events import JobEvent
from tf_operator.client.job import Job, NotPossible
from tf_operator.client.jobs import AsyncTFJobs
from tf_operator.client.logs import LogLine, print_line
from tf_operator.client.pods import JobPod
from tf_operator.client.run.loop_calls import LastItem, Question, Running, asked, pump
from tf_operator.job.record import JobPhase
from tf_operator.machinery.transport.transport import Transport

if TYPE_CHECKING:
    from tf_operator.client.explanation.situation import Explanation
    from tf_operator.client.functions.function_job import TrainOptions
    from tf_operator.client.manifests.files import Source
    from tf_operator.client.plan.job_plan import JobPlan
    from tf_operator.client.run.job_run import RunResult
    from tf_operator.client.usage import UsageList

T = TypeVar("T")
Item = TypeVar("Item")
_CLOSED: Final = "has been closed"
_OPEN: Final = weakref.WeakSet[asyncio.AbstractEventLoop]()
_AHEAD: Final = 100
"""Items that are read before the caller asks for them."""


class TFJobs:
    """The training jobs of one cluster. A context manager. In a forked process, create another."""

    def __init__(
        self,
        namespace: str = "",
        *,
        context: str | None = None,
        kubeconfig: str | None = None,
        kind: str = "tfjob",
        api_client: object | None = None,
        transport: Transport | None = None,
    ) -> None:
        """As ``AsyncTFJobs``; connects, so a named cluster without credentials raises ``ConfigurationError`` here.

        Where no cluster is named and none is found, ``run`` and ``plan`` work, and everything else raises it.
        """
        self._jobs = AsyncTFJobs(
            namespace, context=context, kubeconfig=kubeconfig, kind=kind, api_client=api_client, transport=transport
        )
        self._process = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tfjobs", daemon=True)
        self._thread.start()
        try:
            self._run(self._jobs.__aenter__())
        except BaseException:
            _end(self._loop, self._thread)
            raise
        self._at_exit = weakref.finalize(self, _close, self._jobs, self._loop, self._thread, self._process)
        _OPEN.add(self._loop)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the connection."""
        self._at_exit()

    @property
    def namespace(self) -> str:
        """Where jobs are that are given by name."""
        return self._jobs.namespace

    def submit(self, manifest: Mapping[str, Any], *, replace: bool = False) -> Job:
        """Create a job. ``replace``: delete one of its name first."""
        return self._run(self._jobs.submit(manifest, replace=replace))

    def get(self, job: str | Job) -> Job:
        """The current job."""
        return self._run(self._jobs.get(job))

    def list(self, *, all_namespaces: bool = False, selector: str = "") -> tuple[Job, ...]:
        """The jobs of the namespace, or of all."""
        return self._run(self._jobs.list(all_namespaces=all_namespaces, selector=selector))

    def watch(self, job: str | Job) -> Iterator[Job]:
        """The job now, and after each change, until it is deleted."""
        return self._iterate(lambda: self._jobs.watch(job))

    def wait(
        self,
        job: str | Job,
        *,
        timeout: float | None = None,
        until: Callable[[Job], bool] | JobPhase | str | None = None,
        progress: bool = False,
    ) -> Job:
        """Wait until the job has finished, is in the phase ``until``, as in ``"Running"``, or ``until`` returns true.

        A function is called in the caller's thread, and may use this client. ``progress``: show its progress, in a
        notebook as a table.
        """
        if until is None or isinstance(until, str):
            return self._run(self._jobs.wait(job, timeout=timeout, until=until, progress=progress))
        is_reached = until

        def begin(ask: Callable[[Question | None], None]) -> Coroutine[Any, Any, Job]:
            return self._jobs.wait(job, timeout=timeout, until=partial(asked, ask), progress=progress)

        def answer(question: Question) -> None:
            question.answer(is_reached(question.job))

        return self._follow(begin, answer)

    def pods(self, job: str | Job) -> tuple[JobPod, ...]:
        """The pods of a job."""
        return self._run(self._jobs.pods(job))

    def watch_pods(self, job: str | Job) -> Iterator[tuple[JobPod, ...]]:
        """The pods of a job now, and after each change, without end."""
        return self._iterate(lambda: self._jobs.watch_pods(job))

    def events(self, job: str | Job, *, with_pods: bool = True) -> tuple[JobEvent, ...]:
        """The events of a job and its pods."""
        return self._run(self._jobs.events(job, with_pods=with_pods))

    def watch_events(self, job: str | Job) -> Iterator[JobEvent]:
        """The events of a job, then each new one, without end."""
        return self._iterate(lambda: self._jobs.watch_events(job))

    def logs(
        self,
        job: str | Job,
        *,
        replica: str = "",
        follow: bool = False,
        tail: int | None = None,
        previous: bool = False,
        container: str = "",
        longest: int | None = None,
    ) -> Iterator[LogLine]:
        """The logs of the replicas."""
        return self._iterate(
            lambda: self._jobs.logs(
                job,
                replica=replica,
                follow=follow,
                tail=tail,
                previous=previous,
                container=container,
                longest=longest,
            )
        )

    def explain(self, job: str | Job) -> "Explanation":
        """Why a job is in its state, what it waits for, and what to do next."""
        return self._run(self._jobs.explain(job))

    def plan(self, source: "Source") -> "JobPlan":
        """What the operator would create for a manifest, or a file with one. Needs no cluster."""
        return self._run(self._jobs.plan(source))

    def top(self, job: str | Job) -> "UsageList":
        """The CPU and memory that the replicas of a job use."""
        return self._run(self._jobs.top(job))

    def run(
        self, source: "Source", *, replace: bool = False, on_line: Callable[[LogLine], object] | None = None
    ) -> "RunResult":
        """Submit a job, print its logs, or pass them to ``on_line``, and return how it ended.

        Without a named cluster or a local server, the job runs on this machine. There, an interruption stops it.
        """
        return self._follow(lambda put: self._jobs.run(source, replace=replace, on_line=put), on_line or print_line)

    def train(
        self,
        train_func: Callable[..., object],
        *,
        name: str = "",
        base_image: str = "",
        parameters: Mapping[str, Any] | None = None,
        num_workers: int = 1,
        num_ps: int = 0,
        chief: bool = False,
        resources_per_worker: Mapping[str, Any] | None = None,
        packages_to_install: Sequence[str] = (),
        pip_index_url: str = "",
        env_vars: Mapping[str, str] | None = None,
        replace: bool = False,
        on_line: Callable[[LogLine], object] | None = None,
    ) -> "RunResult":
        """Run a function in each replica, where `run` would; `result` is what it returned in the chief or worker 0.

        Only its source is sent: it has to import what it uses, or get it in `parameters`, its only argument.
        """
        options: TrainOptions = {
            "name": name,
            "base_image": base_image,
            "parameters": parameters,
            "num_workers": num_workers,
            "num_ps": num_ps,
            "chief": chief,
            "resources_per_worker": resources_per_worker,
            "packages_to_install": packages_to_install,
            "pip_index_url": pip_index_url,
            "env_vars": env_vars,
        }
        return self._follow(
            lambda put: self._jobs.train(train_func, replace=replace, on_line=put, **options), on_line or print_line
        )

    def result(self, job: str | Job) -> Any:  # noqa: ANN401 (JSON)
        """What the function that `train` ran has returned."""
        return self._run(self._jobs.result(job))

    def suspend(self, job: str | Job) -> Job:
        """Delete the pods of a job, until it is resumed."""
        return self._run(self._jobs.suspend(job))

    def resume(self, job: str | Job) -> Job:
        """Create the pods of a suspended job again."""
        return self._run(self._jobs.resume(job))

    def scale(self, job: str | Job, replicas: int, *, type: str = "Worker") -> Job:  # noqa: A002 (the field's name)
        """Change the number of replicas of one type."""
        return self._run(self._jobs.scale(job, replicas, type=type))

    def restart(self, job: str | Job, *, replica: str = "") -> tuple[JobPod, ...]:
        """Delete the running pods, which the operator then replaces."""
        return self._run(self._jobs.restart(job, replica=replica))

    def delete(self, job: str | Job) -> None:
        """Delete a job and its pods."""
        self._run(self._jobs.delete(job))

    def _follow(
        self, run: Callable[[Callable[[Item | None], None]], Coroutine[Any, Any, T]], on_item: Callable[[Item], object]
    ) -> T:
        """Wait for the end of a call of which items come meanwhile. An interruption ends it, and is waited for."""
        items = queue.SimpleQueue[Item | None]()
        call = run(items.put)
        self._check_usable(call)
        running = Running(self._loop, call, lambda: items.put(None))
        try:
            while item := items.get():
                on_item(item)
        except BaseException:
            running.end()
            raise
        with _unless_closed():
            return running.result()

    def _run(self, call: Coroutine[Any, Any, T]) -> T:
        """Wait for a call; when that is interrupted (Ctrl-C), the call is cancelled."""
        self._check_usable(call)
        future = asyncio.run_coroutine_threadsafe(call, self._loop)
        try:
            with _unless_closed():
                return future.result()
        except BaseException:
            future.cancel()
            raise

    def _check_usable(self, call: Coroutine[Any, Any, T]) -> None:
        problem = ""
        if os.getpid() != self._process:
            problem = "was made before the process forked, and its thread is not in the child: make one there"
        elif self._loop.is_closed():
            problem = _CLOSED
        if problem:
            call.close()
            raise NotPossible(f"this TFJobs {problem}")

    def _iterate(self, make: Callable[[], AsyncGenerator[T, None]]) -> Iterator[T]:
        """The items, which one task reads from the first to the last: an async iterator may hold tasks of its own."""
        items = asyncio.Queue[T | LastItem](_AHEAD)
        pumping = asyncio.run_coroutine_threadsafe(pump(make(), items), self._loop)
        try:
            while not isinstance(item := self._run(items.get()), LastItem):
                yield item
            if item.error:
                raise item.error
        finally:
            pumping.cancel()


def _close(jobs: AsyncTFJobs, loop: asyncio.AbstractEventLoop, thread: threading.Thread, process: int) -> None:
    """End connection and thread, when they are closed, forgotten, or the interpreter ends; in their own process."""
    if os.getpid() == process and not loop.is_closed():
        _end(loop, thread, partial(jobs.__aexit__, None, None, None))


def _end(
    loop: asyncio.AbstractEventLoop,
    thread: threading.Thread,
    disconnect: Callable[[], Coroutine[Any, Any, object]] | None = None,
) -> None:
    """End what is still called, then the connection, then the thread."""

    async def end() -> None:
        calls = asyncio.all_tasks() - {asyncio.current_task()}
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        if disconnect:
            await disconnect()

    ended = asyncio.run_coroutine_threadsafe(end(), loop)
    ended.add_done_callback(lambda _: loop.call_soon_threadsafe(loop.stop))
    if threading.current_thread() is not thread:  # it is, if what was forgotten is collected there
        thread.join()
        loop.close()


@contextmanager
def _unless_closed() -> Iterator[None]:
    """What is cancelled by nobody else was so by ``close``, in another thread."""
    try:
        yield
    except (asyncio.CancelledError, CancelledError):
        raise NotPossible(f"this TFJobs {_CLOSED}") from None


def _be_silent() -> None:
    """In a forked child: what it has of its parent's connections is not worth a warning when it ends."""
    for loop in _OPEN:
        loop.set_exception_handler(lambda *_: None)


os.register_at_fork(after_in_child=_be_silent)
