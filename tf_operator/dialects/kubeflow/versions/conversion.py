"""From any version of a TFJob to any other, by way of v1.

Conversion is total and loses nothing. Whatever the API server may have stored can be converted: what is of a wrong type
is carried along, and the job reports it, because one object that cannot be converted would break every list for
everybody. What the target has no place for is kept in an annotation, as ``remainder`` describes, and is back in its
place on the way back. Only ``spec``, ``status`` and annotations change, as the API server demands.

Annotations are the user's: they restore fields of ``spec`` that one version has and another one lacks, and nothing
else. A status, which the user may not be allowed to write, and the replicas are converted without them.

The one exception: what is too large for an annotation is left out of the older version, with a mark, and an object with
that mark cannot be written in that version.
"""

from collections.abc import Mapping
from typing import Any, Final

from tf_operator.dialects.kubeflow.versions import remainder
from tf_operator.dialects.kubeflow.versions.older_versions import REPLICAS, V1ALPHA2, V1BETA1, V1BETA2, Version
from tf_operator.dialects.record import object_of
from tf_operator.dialects.served import Conversion, ConversionError
from tf_operator.job.constants import GROUP
from tf_operator.meta import Body, metadata_of, text_of

STORED: Final = "v1"
OLDER: Final = {version.name: version for version in (V1BETA2, V1BETA1, V1ALPHA2)}
"""The versions that can be converted to v1 and back, the newest first."""
_PREFIX: Final = "tf-operator.kubeflow.org"
INCOMPLETE: Final = f"{_PREFIX}/incomplete"
"""On an object in an older version: parts of it are left out, so it can be read in this version and not be written."""
_PARTS: Final = ("spec", "status")


def convert(body: Body, version: str) -> dict[str, Any]:
    """The object in another version; ``ConversionError`` if there is none such, or if it would lose something."""
    source = text_of(body, "apiVersion").rpartition("/")[2]
    for name in (source, version):
        if name != STORED and name not in OLDER:
            raise ConversionError(f"apiVersion: there is no version {name!r} of TFJob in {GROUP}")
    if source == version:
        return dict(body)
    stored = dict(body) if source == STORED else _to_v1(body, OLDER[source])
    return stored if version == STORED else _from_v1(stored, OLDER[version])


def without_notes(body: Body) -> dict[str, Any]:
    """The object without what is noted for the way back to other versions: it stays in this one."""
    notes = dict.fromkeys((*(_fields_of(name) for name in (STORED, *OLDER)), INCOMPLETE))
    return _assembled(body, text_of(body, "apiVersion").rpartition("/")[2], _parts(body), notes)


def _to_v1(body: Body, version: Version) -> dict[str, Any]:
    annotations = _annotations(body)
    if INCOMPLETE in annotations:
        raise ConversionError(
            f"metadata.annotations[{INCOMPLETE}]: parts of this job have no place in {version.name}; change it in v1"
        )
    found = _parts_to_v1(_parts(body), version)
    restored = _restored(found, annotations.get(_fields_of(STORED)))
    # What a malformed object has there is not worth an annotation that is too large.
    lost = _lost(_parts(body), _parts_from_v1(restored, version))
    return _assembled(body, STORED, restored, {_fields_of(STORED): None, _fields_of(version.name): lost})


def _from_v1(body: Body, version: Version) -> dict[str, Any]:
    found = _parts_from_v1(_parts(body), version)
    restored = _restored(found, _annotations(body).get(_fields_of(version.name)))
    lost = _lost(_parts(body), _parts_to_v1(restored, version))
    notes = {
        _fields_of(version.name): None,
        _fields_of(STORED): lost,
        INCOMPLETE: "true" if lost is None else None,
    }
    return _assembled(body, version.name, restored, notes)


def _restored(parts: Body, text: object) -> dict[str, Any]:
    spec = parts.get("spec")
    if not isinstance(spec, Mapping):
        return dict(parts)
    own = _own({"spec": remainder.restore(_own(parts), remainder.decode(text))})
    return dict(parts) | {"spec": own | {name: spec[name] for name in spec if name == REPLICAS}}


def _lost(original: Body, came_back: Body) -> str | None:
    """What to note so that it comes back; empty for nothing, ``None`` when it is too large."""
    lost = list(remainder.differences(_own(original), _own(came_back)))
    return remainder.encode(lost) if lost else ""


def _own(parts: Body) -> dict[str, Any]:
    """The fields of ``spec`` that may be others in another version."""
    return {name: value for name, value in object_of(parts, "spec").items() if name != REPLICAS}


def _parts(body: Body) -> dict[str, Any]:
    return {part: body[part] for part in _PARTS if part in body}


def _parts_to_v1(parts: Body, version: Version) -> dict[str, Any]:
    return _mapped(parts, {"spec": version.spec_to_v1, "status": version.status_to_v1})


def _parts_from_v1(parts: Body, version: Version) -> dict[str, Any]:
    return _mapped(parts, {"spec": version.spec_from_v1, "status": version.status_from_v1})


def _mapped(parts: Body, functions: Mapping[str, Any]) -> dict[str, Any]:
    """What is no object is carried along as it is."""
    return {name: functions[name](part) if isinstance(part, Mapping) else part for name, part in parts.items()}


def _fields_of(version: str) -> str:
    """The annotation with what only this version has."""
    return f"{_PREFIX}/{version}-fields"


def _annotations(body: Body) -> Body:
    found = metadata_of(body).get("annotations")
    return found if isinstance(found, Mapping) else {}


def _assembled(body: Body, version: str, parts: Body, changes: Mapping[str, str | None]) -> dict[str, Any]:
    """The object with these parts and annotations; everything else stays as it is."""
    annotations = {name: value for name, value in _annotations(body).items() if name not in changes}
    annotations |= {name: value for name, value in changes.items() if value}
    metadata = {name: value for name, value in metadata_of(body).items() if name != "annotations"}
    if annotations:
        metadata["annotations"] = annotations
    kept = {name: value for name, value in body.items() if name not in _PARTS}
    return kept | {"apiVersion": f"{GROUP}/{version}", "metadata": metadata} | dict(parts)


CONVERSION: Final = Conversion(tuple(OLDER), convert, without_notes)
