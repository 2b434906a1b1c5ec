"""Calls in the thread of an event loop, as the thread of their caller has them: the parts of ``blocking``."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from concurrent.futures import Future, wait
from contextlib import aclosing, suppress
from typing import Any, Generic, TypeVar

from tf_operator.client.job import Job

T = TypeVar("T")


class Question:
    """Whether a job is as its caller waits for, which is for the caller's thread to say."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.result: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def answer(self, is_reached: object) -> None:
        with suppress(RuntimeError):  # the loop is closed, and with it the wait has ended
            self.result.get_loop().call_soon_threadsafe(self._set, bool(is_reached))

    def _set(self, is_reached: bool) -> None:  # noqa: FBT001 (a callback)
        if not self.result.done():  # it is, when the time was over
            self.result.set_result(is_reached)


async def asked(ask: Callable[[Question], object], job: Job) -> bool:
    question = Question(job)
    ask(question)
    return await question.result


class LastItem:
    """Nothing comes after it; the error that it was, if any."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error


class Running(Generic[T]):
    """A call in the loop's thread, whose end is waited for also when it is interrupted."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, call: Coroutine[Any, Any, T], on_end: Callable[[], object]
    ) -> None:
        self._loop = loop
        self._on_end = on_end
        self._ended = Future[T]()
        self._task: asyncio.Task[T] | None = None
        loop.call_soon_threadsafe(self._begin, call)

    def result(self) -> T:
        """Wait for its result."""
        return self._ended.result()

    def end(self) -> None:
        """Interrupt it, and wait until it has cleaned up. Another interruption meanwhile is passed on, too."""
        while True:
            with suppress(RuntimeError):  # the loop is closed, and with it this has ended
                self._loop.call_soon_threadsafe(lambda: self._task and self._task.cancel())
            try:
                wait([self._ended])
            except KeyboardInterrupt:
                continue
            return

    def _begin(self, call: Coroutine[Any, Any, T]) -> None:
        self._task = self._loop.create_task(call)
        self._task.add_done_callback(self._finish)

    def _finish(self, task: asyncio.Task[T]) -> None:
        if task.cancelled():
            self._ended.set_exception(asyncio.CancelledError())
        elif error := task.exception():
            self._ended.set_exception(error)
        else:
            self._ended.set_result(task.result())
        self._on_end()


async def pump(source: AsyncGenerator[T, None], items: "asyncio.Queue[T | LastItem]") -> None:
    try:
        async with aclosing(source) as stream:
            async for item in stream:
                await items.put(item)
    except Exception as error:  # noqa: BLE001 (raised in the caller's thread)
        await items.put(LastItem(error))
    else:
        await items.put(LastItem())
