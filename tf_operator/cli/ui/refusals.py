"""What the API server has said no to, list by list: the informers of the board try again, and the page says why."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

from tf_operator.cli import failures
from tf_operator.machinery.cache.reflector import WatchClient
from tf_operator.machinery.transport import errors
from tf_operator.machinery.transport.requests import Request

_MOST_SHOWN: Final = 3
_SHOWN: Final = (
    errors.NoReply,
    errors.Garbled,
    errors.Redirected,
    errors.Unauthorized,
    errors.Forbidden,
    errors.NotFound,
    errors.Throttled,
    errors.ServerFailed,
)
"""The others are answered by another kind of list, at once."""


class RefusalLog:
    """A ``WatchClient`` that remembers of each path how the last request failed, until one succeeds."""

    def __init__(self, client: WatchClient) -> None:
        self._client = client
        self._refusals = dict[str, errors.ApiError]()
        self.changed: Callable[[], object] = lambda: None
        """Called when ``text`` may be another one."""

    @property
    def text(self) -> str:
        """What has failed, for people; empty when nothing has."""
        sentences = list(dict.fromkeys(map(failures.sentence, self._refusals.values())))
        more = [f"and {len(sentences) - _MOST_SHOWN} more"] if len(sentences) > _MOST_SHOWN else []
        return ". ".join((*sentences[:_MOST_SHOWN], *more))

    async def send_once(self, request: Request) -> bytes:
        try:
            reply = await self._client.send_once(request)
        except errors.ApiError as error:
            self._record_refusal(request, error)
            raise
        self._succeeded(request)
        return reply

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        """As the client. A watch that breaks off is opened again at once; only what that ends in is remembered."""
        async with AsyncExitStack() as opened:
            try:
                chunks = await opened.enter_async_context(self._client.stream(request))
            except errors.ApiError as error:
                self._record_refusal(request, error)
                raise
            self._succeeded(request)
            yield chunks

    def _record_refusal(self, request: Request, error: errors.ApiError) -> None:
        if isinstance(error, _SHOWN):
            self._refusals[request.path] = error
            self.changed()

    def _succeeded(self, request: Request) -> None:
        if self._refusals.pop(request.path, None):
            self.changed()
