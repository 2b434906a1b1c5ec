"""Get and list: what the store holds now, or held at a version that it still knows."""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime

from tf_operator.local.apiserver import failures
from tf_operator.local.apiserver.kinds import Kind
from tf_operator.local.apiserver.messages import Parts, Response
from tf_operator.local.apiserver.reads.views import View
from tf_operator.local.apiserver.requests import selectors
from tf_operator.local.apiserver.requests.routes import (
    ListOptions,
    Route,
    list_options,
    make_token,
    read_token,
    version_of,
)
from tf_operator.local.apiserver.storage.store import Collection, Stored, VersionedStore, path_of
from tf_operator.meta import Body

Selects = Callable[[Stored], bool]

_EXPIRED_LIST = "The resourceVersion for the provided list is too old."
_EXPIRED_PAGE = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)


def stored_at(store: VersionedStore, route: Route) -> Stored:
    entry = store.collection(str(route.kind.storage)).objects.get(path_of(route.key))
    if entry is None:
        raise failures.not_found(route.kind, route.name)
    return entry


def has_stored(store: VersionedStore, route: Route) -> bool:
    return path_of(route.key) in store.collection(str(route.kind.storage)).objects


def served(kind: Kind, entry: Stored) -> Body:
    return entry.served(kind.resource.api_version, kind.convert, kind.completion)[0]


def get(store: VersionedStore, route: Route, query: Mapping[str, str], *, view: View, now: datetime) -> Response:
    version = version_of(query)
    entry = stored_at(store, route)
    if version and version > store.version:
        raise failures.not_yet(version, store.version)
    return view.one(entry, now)


def list_objects(store: VersionedStore, route: Route, query: Mapping[str, str], *, view: View, now: datetime) -> Parts:
    objects, meta = page(store, route, query)
    return (yield from view.many(objects, meta, now))


def page(store: VersionedStore, route: Route, query: Mapping[str, str]) -> tuple[list[Stored], dict[str, object]]:
    """The objects of a list, or of a page of one, and its metadata."""
    options = list_options(query, is_watch=False)
    collection = store.collection(str(route.kind.storage))
    selects = selection(route.kind, options, name=route.name)
    version, after, is_exact = _list_start(store, options)
    objects, paths = _objects(
        collection, route.namespace, version=version, after=after, is_exact=is_exact, token=options.token
    )
    limit = 0 if options.version == 0 and not options.token else options.limit  # any version will do: that in memory
    entries: list[Stored] = []
    meta: dict[str, object] = {"resourceVersion": str(version)}
    rest_count, last = 0, ""
    for path in paths:
        entry = objects[path]
        if selects is not None and not selects(entry):
            continue
        if limit and len(entries) == limit:
            rest_count += 1
            if selects is not None:
                break  # with a selector the rest is not counted
            continue
        entries.append(entry)
        last = path
    if rest_count:
        meta["continue"] = make_token(version, last)
        if selects is None:
            meta["remainingItemCount"] = rest_count
    return entries, meta


def _list_start(store: VersionedStore, options: ListOptions) -> tuple[int, str, bool]:
    """The version to show, the path to begin behind, and whether the version has to be exactly that."""
    if options.token:
        if options.version:
            raise failures.bad_request("specifying resource version is not allowed when using continue")
        version, after = read_token(options.token)
        return (store.version, after, False) if version < 0 else (version, after, True)
    if options.version and options.version > store.version:
        raise failures.not_yet(options.version, store.version)
    is_exact = options.match == "Exact" or bool(options.limit and options.version and not options.match)
    return options.version if is_exact and options.version else store.version, "", is_exact


def _objects(
    collection: Collection, namespace: str, *, version: int, after: str, is_exact: bool, token: str
) -> tuple[Mapping[str, Stored], Iterator[str]]:
    has_changed = bool(collection.changes) and collection.changes[-1].version > version
    if not is_exact or not has_changed:
        return collection.objects, collection.paths(namespace, after=after)
    if version < collection.floor:
        if not token:
            raise failures.expired(_EXPIRED_LIST)
        failure = failures.expired(_EXPIRED_PAGE)
        failure.meta = {"continue": make_token(-1, after)}
        raise failure
    objects = collection.at(version)
    prefix = f"{namespace}/" if namespace else ""
    return objects, (path for path in sorted(objects) if path.startswith(prefix) and path > after)


def selection(kind: Kind, options: ListOptions, *, name: str = "") -> Selects | None:
    """Which objects a list or a watch is about; ``None``: all."""
    predicates: list[selectors.Predicate] = []
    if options.label_selector:
        predicates.append(selectors.parse_labels(options.label_selector))
    if options.field_selector:
        predicates.append(selectors.parse_fields(options.field_selector, kind))
    if name:
        predicates.append(lambda body: body["metadata"]["name"] == name)
    if not predicates:
        return None
    api_version = kind.resource.api_version

    def selects(entry: Stored) -> bool:
        body, _ = entry.served(api_version, kind.convert, kind.completion)
        return all(predicate(body) for predicate in predicates)

    return selects
