"""One configuration for all connections of a process, re-read while the process runs.

Credentials change: a service account token once an hour, a CA once in a few years. They are read again when they are a
minute old, and at once when the apiserver says 401. Connections in all threads share one reader, because a refresh
token may be good once only, and one that starts later (a new term of leadership) starts with what the others use.
While there is nothing new the old credentials stay in use: a file that is caught during its rotation, or a plugin that
fails or hangs, must not take the working ones away.
"""

import asyncio
import threading
from concurrent.futures import Future
from contextlib import suppress

from tf_operator.machinery.clock import Clock
from tf_operator.machinery.log import Logger
from tf_operator.machinery.transport.config import ClientConfig, ConfigSource, ConfigurationError

REFRESH_AFTER = 60.0
RETRY_AFTER = 10.0
"""After a read that failed, or that a 401 was the reason for: plugins and issuers must not be asked for each request of
an account that is refused for good."""
READ_WITHIN = 30.0
"""A plugin that takes longer to renew credentials is stopped."""
FINISH_WITHIN = 5.0
"""Of one that its event loop does not outlive: a token is renewed by one request."""
FIRST_READ_WITHIN = 120.0
"""A person may have to log in."""

_log = Logger(__name__)


class SharedConfig:
    """The present configuration; safe to use from several threads, each with its own event loop."""

    def __init__(self, source: ConfigSource, *, clock: Clock) -> None:
        self._source = source
        self._clock = clock
        self._mutex = threading.Lock()
        """Held for a few assignments, never across an ``await``."""
        self._reading: Future[None] | None = None
        self._task: asyncio.Future[None] | None = None
        self._config: ClientConfig | None = None
        self._next_read_at = self._next_after_401_at = float("-inf")
        self._problem = ""

    @property
    def problem(self) -> str:
        """Why the last read failed; empty when it did not."""
        return self._problem

    async def first(self) -> ClientConfig:
        """What is known already, or what a first read finds; ``ConfigurationError`` when there is nothing."""
        while (config := self._config) is None:
            await self._read_or_join(refused=False)
            if self._config is None and self._problem:
                raise ConfigurationError(self._problem)
        return config

    async def get(self) -> ClientConfig:
        """What to send a request with: read again when it is a minute old.

        A caller that comes during a read gets what there is: a slow plugin must not hold up all requests.
        """
        config = await self.first()
        if self._reading is None and self._clock.monotonic() >= self._next_read_at:
            await self._read_or_join(refused=False)
        return self._config or config

    async def renewed(self, config: ClientConfig) -> ClientConfig:
        """What to send instead of ``config``, to which the apiserver said 401; the same if there is nothing new."""
        if self._config is config and (self._reading or self._clock.monotonic() >= self._next_after_401_at):
            await self._read_or_join(refused=True)
        return self._config or config

    async def finish(self) -> None:
        """Let a read end that the running event loop has begun, before the loop does.

        What it has used up would be lost with the loop, while connections of other loops go on.
        """
        if self._task is None or self._task.done() or self._task.get_loop() is not asyncio.get_running_loop():
            return
        with suppress(TimeoutError):
            async with self._clock.timeout(FINISH_WITHIN):
                await asyncio.shield(self._task)

    async def _read_or_join(self, *, refused: bool) -> None:
        """Read the source, or wait for the read that somebody else has begun, perhaps in another thread."""
        with self._mutex:
            other, own = self._reading, Future[None]()
            if other is None:
                self._reading = own
        if other is not None:
            await asyncio.shield(asyncio.wrap_future(other))
            return
        # A task of its own: callers give up after limits of their own, and what a read has used up, such as a refresh
        # token that is good once, must not be lost with one of them. Those that join learn of its end through ``own``.
        coroutine = self._read_for_all(own, refused=refused)
        self._task = asyncio.ensure_future(coroutine)  # noqa: TID251
        await asyncio.shield(self._task)

    async def _read_for_all(self, own: "Future[None]", *, refused: bool) -> None:
        try:
            await self._read(refused=refused)
        finally:
            self._reading = None
            own.set_result(None)

    async def _read(self, *, refused: bool) -> None:
        limit = FIRST_READ_WITHIN if self._config is None else READ_WITHIN
        wait = RETRY_AFTER
        try:
            async with self._clock.timeout(limit):
                config = await self._source.read(refused=refused)
            self._check(config)
        except Exception as error:  # noqa: BLE001 (whatever goes wrong in a source must not take working credentials away)
            self._problem = _words(error, limit)
            if self._config is not None:  # else nobody can do without, and whoever asked gets the error
                _log.warning("the credentials could not be read", error=self._problem)
        else:
            self._config, self._problem = config if config != self._config else self._config, ""
            wait = REFRESH_AFTER
        finally:
            self._next_read_at = self._clock.monotonic() + wait
            if refused:
                self._next_after_401_at = self._clock.monotonic() + RETRY_AFTER

    def _check(self, config: ClientConfig) -> None:
        if self._config is not None and config.host != self._config.host:
            # What is remembered of one cluster must never be acted upon in another.
            raise ConfigurationError(f"the API server is now {config.host}: restart this program to use it")


def _words(error: Exception, limit: float) -> str:
    """What went wrong. An error that nobody foresaw may quote what was read, so only its kind is named."""
    match error:
        case ConfigurationError():
            return str(error)
        case TimeoutError():
            return f"nothing within {limit:g} s"
        case OSError():
            return f"{type(error).__name__}: {error.strerror or 'no reason given'}"
        case _:
            return f"reading them failed with {type(error).__name__}"
