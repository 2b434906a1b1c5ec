"""Where the user may list jobs: everywhere, or in some namespaces. The API server is asked, and says."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tf_operator.cli import failures
from tf_operator.client import ApiError, AsyncTFJobs, Forbidden, NotFound
from tf_operator.client.changes import list_all
from tf_operator.dialects.served import ServedAPI
from tf_operator.machinery.transport import discovery, requests
from tf_operator.machinery.transport.requests import EVERYWHERE, Resource, Scope
from tf_operator.meta import key_of

MOST_NAMESPACES: Final = 50
"""Each has a watch of its own."""
_NAMESPACES: Final = Resource("", "v1", "namespaces", "Namespace", is_namespaced=False)


@dataclass(frozen=True, slots=True)
class Visible:
    """What the user sees of the jobs of a cluster."""

    scopes: Mapping[ServedAPI, tuple[Scope, ...]] = field(default_factory=dict)
    """Of each API that is served."""
    note: str = ""
    """What is not seen, and why; for people."""
    refusal: str = ""
    """Why nothing is seen, if nothing may be: it is asked for all the same, because a right may come."""


async def visible(jobs: AsyncTFJobs, apis: tuple[ServedAPI, ...], namespace: str) -> Visible:
    """What may be listed: in a namespace, or in all; an ``ApiError`` when nobody can say."""
    # Not by a list: whoever has no rights to a kind is refused, also where there is no such kind.
    apis = tuple([api for api in apis if await _is_served(jobs, api)]) or apis[:1]
    if namespace:
        listable, refusal = await _listable(jobs, apis, (namespace,))
        return _visible(listable, refusal, apis, namespace, f"Only namespace {namespace} is shown (--namespace).")
    listable, refusal = await _listable(jobs, apis, ("",))
    if not isinstance(refusal, Forbidden):
        return _visible(listable, refusal, apis, "", "")
    places = await _namespaces(jobs)
    narrow, refusal = await _listable(jobs, tuple(api for api in apis if api not in listable), places)
    namespaces = sorted({scope.namespace for scopes in narrow.values() for scope in scopes}) or [jobs.namespace]
    note = f"You may not list jobs of all namespaces; shown: {', '.join(namespaces)}. --namespace names another."
    return _visible({**listable, **narrow}, refusal, apis, jobs.namespace, note)


async def _is_served(jobs: AsyncTFJobs, api: ServedAPI) -> bool:
    kinds = await discovery.served(jobs.client, api.resource.api_version)
    return any(entry.kind == api.resource.kind for entry in kinds)


async def _namespaces(jobs: AsyncTFJobs) -> tuple[str, ...]:
    """Those that may be tried: that of the context first."""
    try:
        listed = await list_all(jobs.client, _NAMESPACES, EVERYWHERE)
    except Forbidden:
        return (jobs.namespace,)
    names = dict.fromkeys((jobs.namespace, *(key_of(body).name for body in listed.items)))
    return tuple(names)[:MOST_NAMESPACES]


async def _listable(
    jobs: AsyncTFJobs, apis: tuple[ServedAPI, ...], namespaces: tuple[str, ...]
) -> tuple[dict[ServedAPI, tuple[Scope, ...]], ApiError | None]:
    """The scopes of each API that may be listed, and the first refusal of the others: users know that kind best."""
    listable = dict[ServedAPI, tuple[Scope, ...]]()
    refusal: ApiError | None = None
    for api in apis:
        for namespace in namespaces:
            try:
                await jobs.client.send(requests.list_page(api.resource, Scope(namespace), limit=1))
            except (Forbidden, NotFound) as error:
                refusal = refusal if isinstance(refusal, Forbidden) else error
            else:
                listable[api] = (*listable.get(api, ()), Scope(namespace))
    return listable, refusal


def _visible(
    listable: Mapping[ServedAPI, tuple[Scope, ...]],
    refusal: ApiError | None,
    apis: tuple[ServedAPI, ...],
    namespace: str,
    note: str,
) -> Visible:
    """What was found; if the user may list nothing, one namespace, which may be listed later."""
    if listable or refusal is None:
        return Visible(listable, note)
    if isinstance(refusal, Forbidden):
        return Visible(dict.fromkeys(apis, (Scope(namespace),)), note, failures.sentence(refusal))
    raise refusal
