"""The signals that end the process: the first one asks it to, the second one insists.

SIGTERM is what the kubelet sends, SIGINT what Ctrl-C does; both mean the same. After the first, work in progress is
finished and the Lease released (``run``). The second one ends the process on the spot, also when the event loop is
stuck: it is handled by the interpreter itself, and the default action would not do, since the kernel does not apply it
to the first process of a container. Before that, while modules are imported, ``command`` ends the process by itself.
"""

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from tf_operator.machinery.log import Logger

T = TypeVar("T")
_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_log = Logger(__name__)


@contextmanager
def stopping() -> Iterator[asyncio.Event]:
    """Yield the event that the first signal sets. Only on the main thread's event loop."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    old_handlers = {each: signal.getsignal(each) for each in _SIGNALS}

    def on_first(number: signal.Signals) -> None:
        _log.info("stopping", signal=number.name)
        for each in _SIGNALS:
            loop.remove_signal_handler(each)
            signal.signal(each, _exit_at_once)
        stop.set()

    for each in _SIGNALS:
        loop.add_signal_handler(each, on_first, each)
    try:
        yield stop
    finally:
        if not stop.is_set():  # else whoever insists is still heard
            for each, handler in old_handlers.items():
                loop.remove_signal_handler(each)
                signal.signal(each, handler)


def insisting(action: Callable[[], object]) -> None:
    """After the first signal: the second one calls ``action``, and only the third one ends the process on the spot."""
    loop = asyncio.get_running_loop()

    def on_second() -> None:
        for each in _SIGNALS:
            loop.remove_signal_handler(each)
            signal.signal(each, _exit_at_once)
        action()

    for each in _SIGNALS:
        loop.add_signal_handler(each, on_second)


def on_hangup(action: Callable[[], object]) -> None:
    """Call ``action`` when the terminal is closed, and write no more to it. Under ``nohup`` nothing happens."""
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        return
    terminals = [descriptor for descriptor in (1, 2) if os.isatty(descriptor)]

    def on_signal() -> None:
        for descriptor in terminals:
            if not os.isatty(descriptor):  # else SIGHUP has another reason
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, descriptor)
                os.close(nowhere)
        action()

    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, on_signal)


async def unless_stopped(stop: asyncio.Event, work: Coroutine[Any, Any, T]) -> T | None:
    """The result of ``work``; ``None`` when ``stop`` is set first, which cancels it."""
    working, stopping = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())  # noqa: TID251
    try:
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        return await working if working.done() else None
    finally:
        working.cancel()
        stopping.cancel()
        await asyncio.wait({working, stopping})


def _exit_at_once(number: int, _frame: object) -> None:
    os._exit(128 + number)
