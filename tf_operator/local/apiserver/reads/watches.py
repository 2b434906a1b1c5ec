"""Watches: cursors over the changes of a collection.

Nothing is copied for a watch that does not read: it stays where it is, and when the history has moved past it, it ends,
as kube-apiserver ends a watch that is too slow.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import islice

from tf_operator.local.apiserver import failures
from tf_operator.local.apiserver.messages import ApiFailure
from tf_operator.local.apiserver.reads import gets
from tf_operator.local.apiserver.reads.views import View
from tf_operator.local.apiserver.requests.routes import Route, list_options
from tf_operator.local.apiserver.storage.store import Collection, Commit, Stored, VersionedStore
from tf_operator.machinery.clock import Clock
from tf_operator.machinery.transport.responses import INITIAL_EVENTS_END

BOOKMARK_EVERY = 60.0
MOST_LINES = 500
"""Lines that one ``news`` returns: reading ten thousand objects must not keep others waiting."""
_LONGEST = 3600.0


class WatchStream:
    """The answer to a watch: lines, until it ends. Not thread-safe.

    Read ``news()`` until it is empty, then wait for ``on_news``'s callback or for ``wakes_at``; stop when ``is_ended``.
    """

    code = 200

    def __init__(
        self,
        store: VersionedStore,
        collection: Collection,
        *,
        view: View,
        selects: gets.Selects | None,
        clock: Clock,
        is_served: Callable[[], bool],
    ) -> None:
        self._store = store
        self._collection = collection
        self._view = view
        self.content_type = view.stream_type
        self.headers: Mapping[str, str] = {}
        """Beside the content type: ``Warning``."""
        self._selects = selects
        self._clock = clock
        self._is_served = is_served
        self._namespace = ""
        self._initial: Iterator[bytes] = iter(())
        self._position = collection.end
        self._after = 0
        self._has_columns = False
        """Whether a table has been sent: the columns come with the first only."""
        self._has_bookmarks = False
        self._bookmark_at = clock.monotonic() + BOOKMARK_EVERY
        self.deadline = clock.monotonic() + _LONGEST
        """When the server ends the watch, by ``Clock.monotonic``."""
        self.is_ended = False
        """Whether no more lines will come."""

    def start(self, *, namespace: str, after: int, bookmarks: bool, seconds: float | None) -> None:
        self._namespace = namespace
        self._after = after
        self._has_bookmarks = bookmarks
        self._position = self._collection.position_after(after)
        if seconds is not None:
            self.deadline = self._clock.monotonic() + seconds

    def start_with(self, lines: Iterator[bytes]) -> None:
        self._initial = lines

    @property
    def wakes_at(self) -> float:
        """When ``news`` may have something without a change: a bookmark, or the end."""
        return min(self.deadline, self._bookmark_at) if self._has_bookmarks else self.deadline

    def on_news(self, callback: Callable[[], object]) -> None:
        """Call back (from inside of the write: do little) after each change; instead of whom was called before."""
        if not self.is_ended:
            self._collection.listeners[self] = callback

    def close(self) -> None:
        self.is_ended = True
        self._initial = iter(())
        self._collection.listeners.pop(self, None)

    def news(self) -> list[bytes]:
        """The next lines, each a whole event; empty when there are none now."""
        lines = [] if self.is_ended else list(islice(self._initial, MOST_LINES))
        if len(lines) < MOST_LINES and not self.is_ended:
            lines += self._changes(MOST_LINES - len(lines))
        if len(lines) < MOST_LINES and not self.is_ended:
            lines += self._bookmarks_and_end(self._clock.monotonic())
        return lines

    def _bookmarks_and_end(self, now: float) -> list[bytes]:
        """What comes behind all changes: a bookmark, the end."""
        lines = []
        if self._has_bookmarks and self._bookmark_at <= now:
            lines.append(self._bookmark())
            self._bookmark_at = now + BOOKMARK_EVERY
        if now >= self.deadline or not self._is_served():
            self.close()
        return lines

    def _changes(self, most: int) -> list[bytes]:
        collection = self._collection
        lines: list[bytes] = []
        if self._position < collection.forgotten:
            self.close()
            return []
        while self._position < collection.end and len(lines) < most:
            change = collection.changes[self._position - collection.forgotten]
            self._position += 1
            if change.version > self._after and (event := self._event(change)):
                lines.append(self._encode(*event))
        return lines

    def _event(self, change: Commit) -> tuple[str, Stored] | None:
        """What a change is to this watch: an object may come into its selection, or leave it."""
        if self._namespace and not change.path.startswith(f"{self._namespace}/"):
            return None
        was = change.old is not None and self._is_selected(change.old)
        if change.new is not None and self._is_selected(change.new):
            return ("MODIFIED" if was else "ADDED"), change.new
        return ("DELETED", change.last) if was else None

    def _encode(self, event: str, entry: Stored) -> bytes:
        has_columns, self._has_columns = not self._has_columns, True
        return self._view.event(event, self._view.raw(entry, self._clock.now(), has_columns=has_columns))

    def _is_selected(self, entry: Stored) -> bool:
        return self._selects is None or self._selects(entry)

    def _bookmark(self, *, version: int | None = None, ends_initial_events: bool = False) -> bytes:
        resource = self._view.kind.resource
        metadata: dict[str, object] = {"resourceVersion": str(version or self._store.version)}
        if ends_initial_events:
            metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
        body = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
        has_columns, self._has_columns = not self._has_columns, True
        return self._view.event("BOOKMARK", self._view.encode(body, self._clock.now(), has_columns=has_columns))

    def initial_lines(self, objects: list[Stored], version: int | None) -> Iterator[bytes]:
        """ADDED for each, and with a version the bookmark that ends them."""
        for entry in objects:
            yield self._encode("ADDED", entry)
        if version is not None:
            yield self._bookmark(version=version, ends_initial_events=True)


def watch(
    store: VersionedStore,
    route: Route,
    query: Mapping[str, str],
    *,
    view: View,
    clock: Clock,
    is_served: Callable[[], bool],
) -> WatchStream:
    """Open a watch. It ends when its kind is served no more, or in another way: who watches watches again."""
    options = list_options(query, is_watch=True)
    collection = store.collection(str(route.kind.storage))
    selects = gets.selection(route.kind, options, name=route.name)
    stream = WatchStream(store, collection, view=view, selects=selects, clock=clock, is_served=is_served)
    wants_objects = bool(options.sends_initial_events) or (options.sends_initial_events is None and not options.version)
    after = store.version if wants_objects or not options.version else options.version
    stream.start(
        namespace=route.namespace,
        after=after,
        bookmarks=options.has_bookmarks,
        seconds=options.timeout_seconds,
    )
    if wants_objects:
        if options.version and options.version > store.version:
            raise failures.not_yet(options.version, store.version)
        paths = collection.paths(route.namespace)
        entries = [entry for entry in map(collection.objects.__getitem__, paths) if selects is None or selects(entry)]
        stream.start_with(stream.initial_lines(entries, store.version if options.has_bookmarks else None))
    elif after < collection.floor:
        stream.start_with(_ended_by(stream, view, failures.too_old(after, collection.floor)))
    return stream


def _ended_by(stream: WatchStream, view: View, failure: ApiFailure) -> Iterator[bytes]:
    """A watch that has been accepted, and can only say why it ends."""
    yield view.event("ERROR", view.whole(failure.status()))
    stream.close()
