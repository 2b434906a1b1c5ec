"""Deletion: grace periods, finalizers, preconditions and what becomes of dependents.

An object goes in up to three steps, as in kube-apiserver's registry: it is marked (a grace period, finalizers), it
loses its finalizers one by one, it is gone. ``collector`` does what the finalizers of garbage collection wait for.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import msgspec

from tf_operator.local.apiserver import failures
from tf_operator.local.apiserver.kinds import Json, Kind
from tf_operator.local.apiserver.messages import FieldCause
from tf_operator.local.apiserver.reads import gets
from tf_operator.local.apiserver.requests import bodies
from tf_operator.local.apiserver.requests.routes import Route, number, optional_flag
from tf_operator.local.apiserver.storage.store import Stored, VersionedStore, path_of
from tf_operator.local.apiserver.writes import stamps
from tf_operator.local.apiserver.writes.writer import finalizers_of
from tf_operator.machinery.clock import Clock
from tf_operator.machinery.transport.requests import Request
from tf_operator.meta import Body, parse_time, rfc3339

ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"
CLEAN_UP = "customresourcecleanup.apiextensions.k8s.io"
"""Keeps a definition until the objects that it defines are gone."""
_KIND = "DeleteOptions"
_LONGEST_GRACE = 10**10
"""Seconds: three centuries."""
_POLICIES = ("Foreground", "Background", "Orphan")


class _Preconditions(msgspec.Struct, rename="camel"):
    uid: str | None = None
    resource_version: str | None = None


class _Body(msgspec.Struct, rename="camel"):
    kind: str = _KIND
    preconditions: _Preconditions | None = None
    propagation_policy: str | None = None
    orphan_dependents: bool | None = None
    grace_period_seconds: int | None = None
    dry_run: list[str] | None = None


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    uid: str | None = None
    version: str | None = None
    propagation: str = ""
    """Empty: what the object's finalizers say, or else Background."""
    grace_seconds: int | None = None
    is_dry_run: bool = False


def options_of(request: Request) -> DeleteOptions:
    """From the body; from the query only if there is no body, whatever that means for a dry run."""
    return _options(_body_of(request, request.body) if request.body else _of_query(request.query))


def options_within(payload: Body, *, is_dry_run: bool) -> DeleteOptions:
    """From an object that has them as a field."""
    try:
        options = _options(msgspec.convert(payload.get("deleteOptions") or {}, _Body))
    except msgspec.ValidationError as error:
        raise failures.bad_request(f"deleteOptions: {error}") from error
    return replace(options, is_dry_run=options.is_dry_run or is_dry_run)


def _options(body: _Body) -> DeleteOptions:
    conditions = body.preconditions or _Preconditions()
    return DeleteOptions(
        uid=conditions.uid,
        version=conditions.resource_version,
        propagation=_propagation(body),
        grace_seconds=body.grace_period_seconds,
        is_dry_run=body.dry_run == ["All"],
    )


def _of_query(query: Mapping[str, str]) -> _Body:
    return _Body(
        propagation_policy=query.get("propagationPolicy"),
        orphan_dependents=optional_flag(query, "orphanDependents"),
        grace_period_seconds=number(query, "gracePeriodSeconds"),
        dry_run=[query["dryRun"]] if query.get("dryRun") else None,
    )


def _body_of(request: Request, raw: bytes) -> _Body:
    media = bodies.media_type(request)
    if media not in bodies.ACCEPTED:
        raise failures.unsupported_media_type(bodies.ACCEPTED)
    raw = bodies.as_json(raw, media)
    if problem := bodies.options_problem(raw):
        raise problem
    try:
        body = msgspec.json.decode(raw, type=_Body)
    except msgspec.ValidationError as error:
        raise failures.bad_request(f"{_KIND}: {error}") from error
    if body.kind != _KIND:
        raise failures.bad_request(f"{body.kind} cannot be handled as {_KIND}")
    return body


def _propagation(body: _Body) -> str:
    propagation = body.propagation_policy or ""
    if propagation and body.orphan_dependents is not None:
        problem = "orphanDependents and deletionPropagation cannot be both set"
        raise _invalid(
            FieldCause("propagationPolicy", "FieldValueInvalid", f'Invalid value: "{propagation}": {problem}')
        )
    if propagation not in {"", *_POLICIES}:
        choices = ", ".join(f'"{policy}"' for policy in (*_POLICIES, "nil"))
        message = f'Unsupported value: "{propagation}": supported values: {choices}'
        raise _invalid(FieldCause("propagationPolicy", "FieldValueNotSupported", message))
    if body.orphan_dependents is not None:
        return "Orphan" if body.orphan_dependents else "Background"
    return propagation


def _invalid(cause: FieldCause) -> Exception:
    return failures.invalid_options(_KIND, [cause])


class Deleter:
    """Deletes objects."""

    def __init__(self, store: VersionedStore, *, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def delete(self, route: Route, options: DeleteOptions) -> tuple[Stored, bool]:
        """Delete or mark one object: its last state, and whether it is gone."""
        kind = route.kind
        entry = gets.stored_at(self._store, route)
        _check(kind, entry.body["metadata"], options)
        if _is_pending(kind, entry.body["metadata"], options.grace_seconds):
            return entry, False
        body: Json = msgspec.json.decode(msgspec.json.encode(entry.body))
        _set_finalizers(body["metadata"], options.propagation)
        if kind.defines is not None and not body["metadata"].get("deletionTimestamp"):
            body["metadata"].setdefault("finalizers", []).append(CLEAN_UP)
        grace = _mark_grace(kind, body, options.grace_seconds, now=self._clock.now())
        keeps = finalizers_of(kind, body)
        if keeps and grace is None:
            _mark_to_finalize(kind, body["metadata"], self._clock.now())
        if keeps or grace is not None:
            if kind.on_delete is not None:
                kind.on_delete(body)
            entry = self._mark(route, entry, body, is_dry_run=options.is_dry_run)
        if keeps or grace:
            return entry, False
        return self._remove(route, entry, is_dry_run=options.is_dry_run), True

    def check(self, route: Route, options: DeleteOptions) -> None:
        _check(route.kind, gets.stored_at(self._store, route).body["metadata"], options)

    def _mark(self, route: Route, entry: Stored, body: Json, *, is_dry_run: bool) -> Stored:
        body = stamps.ordered(body)
        if stamps.is_same(body, entry.body):
            return entry
        if is_dry_run:
            return Stored(body, entry.version)
        return self._store.commit(str(route.kind.storage), path_of(route.key), body).new or entry

    def _remove(self, route: Route, entry: Stored, *, is_dry_run: bool) -> Stored:
        if is_dry_run:
            return entry
        return self._store.commit(str(route.kind.storage), path_of(route.key), None).last


def _check(kind: Kind, metadata: Mapping[str, Any], options: DeleteOptions) -> None:
    name = metadata["name"]
    if options.uid is not None and options.uid != metadata["uid"]:
        problem = (
            f"the UID in the precondition ({options.uid}) does not match the UID in record ({metadata['uid']}). "
            "The object might have been deleted and then recreated"
        )
        raise failures.precondition_failed(kind, name, problem)
    if options.version is not None and options.version != metadata["resourceVersion"]:
        problem = (
            f"the ResourceVersion in the precondition ({options.version}) does not match the ResourceVersion in record "
            f"({metadata['resourceVersion']}). The object might have been modified"
        )
        raise failures.precondition_failed(kind, name, problem)


def _is_pending(kind: Kind, metadata: Body, seconds: int | None) -> bool:
    """Whether an object has a grace period already that the request does not shorten."""
    old_grace = metadata.get("deletionGracePeriodSeconds")
    if kind.grace_seconds is None or old_grace is None:
        return False
    return seconds is None or seconds >= old_grace


def _mark_grace(kind: Kind, body: Json, seconds: int | None, *, now: datetime) -> int | None:
    """Begin or shorten the grace period, and return it; ``None`` for what has none."""
    metadata = body["metadata"]
    if kind.grace_seconds is None:
        return None
    began = parse_time(metadata.get("deletionTimestamp"))
    if began is None:
        grace = kind.grace_seconds(body, seconds)
        _mark(metadata, _later(now, grace), grace=grace)
        return grace
    old_grace = metadata.get("deletionGracePeriodSeconds")
    if old_grace is None or seconds is None:
        return None
    metadata["deletionTimestamp"] = rfc3339(_later(began, seconds - old_grace))
    metadata["deletionGracePeriodSeconds"] = seconds
    return seconds


def _later(moment: datetime, seconds: int) -> datetime:
    """A grace period is any number of 64 bits, and a time is not."""
    return moment + timedelta(seconds=min(max(seconds, -_LONGEST_GRACE), _LONGEST_GRACE))


def _mark(metadata: Json, moment: datetime, *, grace: int | None) -> None:
    metadata["deletionTimestamp"] = rfc3339(moment)
    if grace is not None:
        metadata["deletionGracePeriodSeconds"] = grace
    if metadata.get("generation"):
        metadata["generation"] += 1


def _mark_to_finalize(kind: Kind, metadata: Json, now: datetime) -> None:
    """Mark an object that has no grace period, and stays because of its finalizers."""
    grace = None if kind.is_namespace else 0
    if not metadata.get("deletionTimestamp"):
        _mark(metadata, now, grace=grace)
    elif grace is not None:
        metadata["deletionGracePeriodSeconds"] = grace


def _set_finalizers(metadata: Json, propagation: str) -> None:
    """The finalizers by which the garbage collector knows what to do with dependents."""
    if not propagation:
        return
    finalizers = {"Orphan": [ORPHAN], "Foreground": [FOREGROUND], "Background": []}[propagation]
    rest = [name for name in metadata.get("finalizers", ()) if name not in {ORPHAN, FOREGROUND} or name in finalizers]
    metadata["finalizers"] = rest + [name for name in finalizers if name not in rest]
