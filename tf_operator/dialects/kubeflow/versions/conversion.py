"""From any version of a TFJob to any other, by way of v1.

Conversion is total and loses nothing. Whatever the API server may have stored can be converted, because one object that
cannot be converted would break every list for everybody. What the target has no place for is kept in an annotation, as
``remainder`` describes, and is back in its place on the way back. Only ``spec``, ``status`` and annotations change, as
the API server demands. An object in v1 keeps the schema of v1: what a write sends otherwise is refused, and what is
stored otherwise in an older version is left out (``stored_schema``).

Annotations are the user's: they restore what one version of ``spec`` has and another one lacks, and nothing else. A
status, which the user may not be allowed to write, and the counts and templates of replicas are converted without them;
only replicas of a type that the other version does not have are kept there as a whole. Of a job that is stored, what
only v1 has is restored from the status of the older version (``fixed``), and the annotation changes nothing.

In v1alpha1 jobs have other rules than in the later versions, so it is noted in which version a job was created.

The one exception: what is too large for an annotation is left out of the older version, with a mark, and an object with
that mark cannot be written in that version. The same if there is no room for notes: all annotations of an object have a
limit, and the API server fails a whole list in which a conversion exceeds it. Then the largest ones are left out.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from tf_operator.dialects.json_values import object_of
from tf_operator.dialects.kubeflow.versions import (
    fixed,
    remainder,
    stored_schema,
    v1alpha1,
    v1alpha1_status,
    v1alpha2_to_v1beta2,
)
from tf_operator.dialects.kubeflow.versions.v1alpha2_to_v1beta2 import REPLICAS
from tf_operator.dialects.replica_lists import generated_runtime_id
from tf_operator.dialects.schema_fit import Misfit
from tf_operator.dialects.served import Conversion, ConversionError
from tf_operator.job.constants import GROUP
from tf_operator.meta import Body, mapping_of, metadata_of, text_of

STORED: Final = "v1"
_PREFIX: Final = "tf-operator.kubeflow.org"
INCOMPLETE: Final = f"{_PREFIX}/incomplete"
"""On an object in an older version: parts of it are left out, so it can be read in this version and not be written."""
_PARTS: Final = ("spec", "status")
_MOST_MISFITS: Final = 5
ORIGIN: Final = f"{_PREFIX}/origin"
"""The version in which the job was created, where that is v1alpha1 and the object is not, or the other way round."""


class Version(Protocol):
    """One older version: how its ``spec`` and ``status`` are written in v1, and the other way round."""

    @property
    def name(self) -> str:
        """As in ``apiVersion``."""

    def normalized(self, spec: Body, uid: str, /) -> dict[str, Any]:
        """The spec without what is shown although nobody gave it."""

    def with_implied_fields(self, spec: Body, runtime_id: str | None, /) -> dict[str, Any]:
        """The spec with what is shown although nobody gave it; without an id of a job that has the rules of v1."""

    def spec_to_v1(self, spec: Body, /) -> dict[str, Any]:
        """A normalized spec in v1."""

    def spec_from_v1(self, spec: Body, /) -> dict[str, Any]:
        """The spec in this version, normalized."""

    def status_to_v1(self, parts: Body, /) -> dict[str, Any]:
        """The status in v1 as a field of the object, if there is one there."""

    def status_from_v1(self, parts: Body, spec: object, /) -> dict[str, Any]:
        """The status in this version as a field of the object, if there is one there."""

    def split(self, spec: Body, /) -> dict[str, Any]:
        """What v1 may have no place for."""

    def join(self, spec: Body, own: Body, /) -> dict[str, Any]:
        """The spec with this in place of what ``split`` finds in it."""

    def split_v1(self, spec: Body, /) -> dict[str, Any]:
        """What this version may have no place for."""

    def join_v1(self, spec: Body, own: Body, /) -> dict[str, Any]:
        """The spec of v1 with this in place of what ``split_v1`` finds in it."""


_VERSIONS: Final[tuple[Version, ...]] = (
    v1alpha2_to_v1beta2.V1BETA2,
    v1alpha2_to_v1beta2.V1BETA1,
    v1alpha2_to_v1beta2.V1ALPHA2,
    v1alpha1.V1Alpha1(),
)
OLDER: Final = {version.name: version for version in _VERSIONS}
"""The versions that can be converted to v1 and back, the newest first."""


def convert(body: Body, version: str, *, is_written: bool | None = None) -> dict[str, Any]:
    """The object in another version; ``ConversionError`` if there is none such, or if a write would lose something.

    ``is_written``: somebody sends it, so it is refused where v1 does not take it. If not, it may be stored as it is,
    and nothing is refused. Where that is unknown, what has a status as only conversions make it is being written.
    """
    source = text_of(body, "apiVersion").rpartition("/")[2]
    for name in (source, version):
        if name != STORED and name not in OLDER:
            raise ConversionError(f"apiVersion: there is no version {name!r} of TFJob in {GROUP}")
    if source == version:
        return dict(body)
    v1_body = dict(body) if source == STORED else _to_v1(body, OLDER[source], is_written=is_written)
    return v1_body if version == STORED else _from_v1(v1_body, OLDER[version])


def is_piece(body: Body) -> bool:
    """Whether it lacks what its version requires: what is left of a job while a server-side apply is merged."""
    version = text_of(body, "apiVersion").rpartition("/")[2]
    return version in OLDER and stored_schema.has_gaps(_parts(body), version)


def without_notes(body: Body) -> dict[str, Any]:
    """The object without what is noted for the way back to other versions: it stays in this one.

    What was created in v1alpha1 keeps what its rules need.
    """
    needed_notes = {ORIGIN, _fields_of(v1alpha1.NAME)} if origin_of(body) == v1alpha1.NAME else set()
    notes = {
        *(_fields_of(name) for name in (STORED, *OLDER)),
        INCOMPLETE,
        ORIGIN,
        stored_schema.LEFT_OUT,
    } - needed_notes
    return _assemble(body, text_of(body, "apiVersion").rpartition("/")[2], _parts(body), dict.fromkeys(notes))


def origin_of(body: Body) -> str:
    """Whose rules a job in v1 has: those of v1alpha1 if it was created in it, and else those of v1.

    From the first status on the status says so, and annotations change nothing any more.
    """
    status = object_of(body, "status")
    if v1alpha1_status.ORIGIN in status:
        origin = status[v1alpha1_status.ORIGIN]
    elif "conditions" in status and v1alpha1_status.BEFORE not in status:
        origin = STORED
    else:
        origin = _annotations(body).get(ORIGIN)
    return v1alpha1.NAME if origin == v1alpha1.NAME else STORED


def spec_in(body: Body, version: str) -> dict[str, Any] | None:
    """The spec of a job in v1, in another version; ``None`` when it is no object."""
    return _spec_from_v1(body, OLDER[version])


def runtime_id_of(body: Body, spec_id: str = "") -> str:
    """The ``RuntimeId`` of a job in v1: what the status has, or is given, or else what follows from the UID."""
    uid = text_of(metadata_of(body), "uid")
    fixed_id = text_of(object_of(body, "status"), v1alpha1_status.RUNTIME_ID)
    return fixed_id or spec_id or (generated_runtime_id(uid) if uid else "")


def _to_v1(body: Body, version: Version, *, is_written: bool | None) -> dict[str, Any]:
    annotations, fixed_fields = _annotations(body), fixed.of(body)
    is_incomplete = (is_written and INCOMPLETE in annotations) or (fixed_fields and fixed_fields.get(fixed.INCOMPLETE))
    if is_incomplete and is_written is not False:
        raise ConversionError(
            f"metadata.annotations[{INCOMPLETE}]: parts of this job have no place in {version.name}; change it in v1"
        )
    parts = fixed.remove(_parts(body))
    normalized = parts.get("spec")
    if isinstance(normalized, Mapping):
        normalized = version.normalized(normalized, text_of(metadata_of(body), "uid"))
        note = annotations.get(_fields_of(STORED)) if fixed_fields is None else fixed_fields.get(fixed.FIELDS)
        parts["spec"] = _spec_to_v1(normalized, version, note)
    v1_parts, misfits = stored_schema.fitted(_without_status(parts) | version.status_to_v1(parts))
    is_sent = fixed_fields is not None if is_written is None else is_written
    if is_sent and (problems := [*misfits, *stored_schema.too_small(v1_parts)]):
        raise ConversionError(_refusal(problems))
    differences: list[remainder.Difference] = []
    if isinstance(normalized, Mapping):
        came_back = version.spec_from_v1(v1_parts["spec"])
        differences = list(remainder.differences(version.split(normalized), version.split(came_back)))
    # Of a malformed spec no version shows anything again, so what only this one has is left out, too.
    is_malformed = stored_schema.has_lost_of_spec(misfits)
    left_out = stored_schema.encode(misfits, remainder.originals(differences, "spec") if is_malformed else {})
    notes: dict[str, str | None] = {
        stored_schema.LEFT_OUT: left_out or annotations.get(stored_schema.LEFT_OUT),
        _fields_of(STORED): None,
        INCOMPLETE: None,
        # What has no room there is not worth an annotation that is too large.
        _fields_of(version.name): "" if is_malformed else _note(differences),
    }
    if version.name == v1alpha1.NAME:
        notes[ORIGIN] = None if annotations.get(ORIGIN) == STORED else version.name
    return _assemble(body, STORED, v1_parts, _with_room(body, notes))


def _with_room(body: Body, notes: dict[str, str | None]) -> dict[str, str | None]:
    """The notes for which there is room: the object may be stored as it is, so it has to be read."""
    fitting = dict(notes)
    for name in reversed(notes):
        if not remainder.fit(_annotations_after(body, fitting)):
            fitting[name] = None
    return fitting


def _spec_to_v1(spec: Body, version: Version, note: object = None) -> dict[str, Any]:
    v1_spec = version.spec_to_v1(spec)
    return version.join_v1(v1_spec, _restore(version.split_v1(v1_spec), note))


def _refusal(misfits: Sequence[Misfit]) -> str:
    listing = "; ".join(f"{misfit.field}: {misfit.rule}" for misfit in misfits[:_MOST_MISFITS])
    more = f"; and {len(misfits) - _MOST_MISFITS} more" if len(misfits) > _MOST_MISFITS else ""
    return f"v1, in which jobs are stored, does not take {listing}{more}; correct it, or {_fields_of(STORED)}"


def _from_v1(body: Body, version: Version) -> dict[str, Any]:
    parts = _parts(body)
    notes: dict[str, str | None] = {_fields_of(version.name): None}
    note: str | None = ""
    spec = _spec_from_v1(body, version)
    if spec is not None:
        came_back = version.spec_to_v1(version.normalized(spec, ""))
        note = _note([*remainder.differences(version.split_v1(parts["spec"]), version.split_v1(came_back))])
        notes |= {_fields_of(STORED): note, INCOMPLETE: "true" if note is None else None}
        parts["spec"] = version.with_implied_fields(
            spec, runtime_id_of(body) if origin_of(body) == version.name else None
        )
    if version.name == v1alpha1.NAME:
        notes[ORIGIN] = None if _annotations(body).get(ORIGIN) == version.name else STORED
    if not remainder.fit(_annotations_after(body, notes)):
        note = None
        notes |= _without_the_largest(body, notes | {_fields_of(STORED): None, INCOMPLETE: "true"})
    status = fixed.add(version.status_from_v1(parts, spec), body, note)
    return _assemble(body, version.name, _without_status(parts) | status, notes)


def _spec_from_v1(body: Body, version: Version) -> dict[str, Any] | None:
    spec = body.get("spec")
    if not isinstance(spec, Mapping):
        return None
    own_spec = version.spec_from_v1(spec)
    note = remainder.decode(_annotations(body).get(_fields_of(version.name)))
    if not note:
        return version.join(own_spec, version.split(own_spec))
    full_spec = version.join(own_spec, remainder.restore(version.split(own_spec), note))
    return version.join(own_spec, version.split(own_spec)) if _is_forged(version, full_spec, own_spec) else full_spec


def _is_forged(version: Version, spec_with_note: Body, spec_without: Body) -> bool:
    """Whether v1 takes less of a spec with a note than without: nobody notes that, and no such write is accepted.

    Replicas that are the same in both are not looked at: their templates may be large.
    """
    with_note, without = (version.spec_to_v1(version.normalized(spec, "")) for spec in (spec_with_note, spec_without))
    return _misfits(with_note, unlike=without) > _misfits(without, unlike=with_note)


def _misfits(spec: Body, unlike: Body) -> int:
    """In how many places v1 would not take a spec, but for replicas that are the same in another one."""
    others = object_of(unlike, REPLICAS)
    own = {kind: entry for kind, entry in object_of(spec, REPLICAS).items() if others.get(kind) != entry}
    return len(stored_schema.fitted({"spec": {**spec, REPLICAS: own}})[1])


def _restore(own: Body, text: object) -> dict[str, Any]:
    return remainder.restore(own, remainder.decode(text))


def _note(differences: list[remainder.Difference]) -> str | None:
    """The text with which it comes back; empty for nothing, ``None`` when it is too large."""
    return remainder.encode(differences) if differences else ""


def _parts(body: Body) -> dict[str, Any]:
    return {part: body[part] for part in _PARTS if part in body}


def _without_status(parts: Body) -> dict[str, Any]:
    return {name: value for name, value in parts.items() if name != "status"}


def _fields_of(version: str) -> str:
    return f"{_PREFIX}/{version}-fields"


def _annotations(body: Body) -> Body:
    return mapping_of(metadata_of(body).get("annotations"))


def _without_the_largest(body: Body, changes: Mapping[str, str | None]) -> dict[str, str | None]:
    """The changes, and annotations of the user left out until there is room for them."""
    remaining = dict(changes)
    sizes = {
        name: remainder.size_of({name: value}) for name, value in _annotations(body).items() if name not in changes
    }
    beyond = remainder.size_of(_annotations_after(body, remaining)) - remainder.ROOM
    for name in sorted(sizes, key=lambda name: sizes[name], reverse=True):
        if beyond > 0:
            beyond -= sizes[name]
            remaining[name] = None
    return remaining


def _annotations_after(body: Body, changes: Mapping[str, str | None]) -> dict[str, Any]:
    others = {name: value for name, value in _annotations(body).items() if name not in changes}
    return others | {name: value for name, value in changes.items() if value}


def _assemble(body: Body, version: str, parts: Body, changes: Mapping[str, str | None]) -> dict[str, Any]:
    annotations = _annotations_after(body, changes)
    metadata = {name: value for name, value in metadata_of(body).items() if name != "annotations"}
    if annotations:
        metadata["annotations"] = annotations
    others = {name: value for name, value in body.items() if name not in _PARTS}
    return others | {"apiVersion": f"{GROUP}/{version}", "metadata": metadata} | dict(parts)


CONVERSION: Final = Conversion(tuple(OLDER), convert, is_piece, without_notes)
