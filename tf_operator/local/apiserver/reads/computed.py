"""Objects that nobody stores: they are computed when they are read, as the metrics API does."""

from collections.abc import Mapping
from datetime import datetime

from tf_operator.local.apiserver import failures
from tf_operator.local.apiserver.messages import Parts, Response
from tf_operator.local.apiserver.reads import gets
from tf_operator.local.apiserver.reads.views import View
from tf_operator.local.apiserver.requests.routes import Route, list_options
from tf_operator.local.apiserver.storage.store import Stored
from tf_operator.meta import key_of


def answer(route: Route, query: Mapping[str, str], *, view: View, now: datetime) -> Response | Parts:
    kind = route.kind
    if kind.read is None or route.verb not in {"get", "list"}:
        raise failures.method_not_allowed()
    objects = [Stored(body, 0) for body in kind.read(now) if route.namespace in {"", key_of(body).namespace}]
    if route.verb == "get":
        matches = [entry for entry in objects if key_of(entry.body).name == route.name]
        if not matches:
            raise failures.not_found(kind, route.name)
        return view.one(matches[0], now)
    selects = gets.selection(kind, list_options(query, is_watch=False))
    return view.many([entry for entry in objects if selects is None or selects(entry)], {}, now)
