"""One TFJob, stored in v1, and people who read and write it through each of its versions.

The embedded API server is real, with the schemas, rules and conversions of all versions. The sentences are those of
docs/older-versions.md and decision 0030.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from msgspec import structs

from proof.engine import Move, State
from support.fake_clock import FakeClock
from support.jobs.builders import ObjectBuilder, tfjob
from support.resources import Json
from tf_operator.dialects import registry
from tf_operator.dialects.kubeflow.versions import conversion
from tf_operator.local.apiserver.built_in import catalog
from tf_operator.local.apiserver.definitions import custom_kinds
from tf_operator.local.apiserver.messages import Response
from tf_operator.local.apiserver.server import ApiServer
from tf_operator.local.apiserver.storage.store import path_of
from tf_operator.machinery.transport import requests
from tf_operator.machinery.transport.requests import Request, Resource
from tf_operator.meta import ObjectKey

KEY: Final = ObjectKey("ns", "job")
STORED: Final = registry.DEFAULT.resource
DOORS: Final = {
    version: structs.replace(STORED, version=version) for version in ("v1", "v1beta2", "v1beta1", "v1alpha1")
}
_NAMESPACES = Resource("", "v1", "namespaces", "Namespace", is_namespaced=False)
_STATUS: Final[Json] = {"conditions": [{"type": "Running", "status": "True", "reason": "R", "message": "m"}]}
_OURS: Final = "tf-operator.kubeflow.org/"

Path = tuple[str | int, ...]
_FLAT = dict.fromkeys(("v1beta2", "v1beta1"), ("spec",))
_POLICY: Final = ("spec", "runPolicy")
_WORKER: Final = ("spec", "tfReplicaSpecs", "Worker")
_LISTED: Final = ("spec", "replicaSpecs", 1)
_IMAGE: Final = ("template", "spec", "containers", 0, "image")


@dataclass(frozen=True, slots=True)
class Field:
    """A field that people change: where it is in each version that has it, and which values they give it."""

    places: Mapping[str, Path]
    values: tuple[Any, ...]


FIELDS: Final = {
    "cleanPodPolicy": Field(
        {
            "v1": (*_POLICY, "cleanPodPolicy"),
            **{version: (*spec, "cleanPodPolicy") for version, spec in _FLAT.items()},
            "v1alpha1": ("spec", "cleanupPodPolicy"),
        },
        ("All", "Running"),
    ),
    "ttlSecondsAfterFinished": Field(
        {
            "v1": (*_POLICY, "ttlSecondsAfterFinished"),
            **{version: (*spec, "ttlSecondsAfterFinished") for version, spec in _FLAT.items()},
        },
        (60,),
    ),
    "backoffLimit": Field({"v1": (*_POLICY, "backoffLimit"), "v1beta2": ("spec", "backoffLimit")}, (3,)),
    "replicas": Field(
        {
            "v1": (*_WORKER, "replicas"),
            **dict.fromkeys(_FLAT, (*_WORKER, "replicas")),
            "v1alpha1": (*_LISTED, "replicas"),
        },
        (1, 2, 3),
    ),
    "image": Field(
        {
            "v1": (*_WORKER, *_IMAGE),
            **dict.fromkeys(_FLAT, (*_WORKER, *_IMAGE)),
            "v1alpha1": (*_LISTED, *_IMAGE),
        },
        ("other",),
    ),
    "label": Field(dict.fromkeys(DOORS, ("metadata", "labels", "team")), ("ml",)),
    "suspend": Field({"v1": (*_POLICY, "suspend")}, (True, False)),
    "managedBy": Field({"v1": (*_POLICY, "managedBy")}, ("kueue.x-k8s.io/multikueue",)),
}
FORGED: Final = ("metadata", "annotations", f"{_OURS}v1-fields")


@dataclass(frozen=True, slots=True)
class ConversionBound:
    """A job, and how often people write it."""

    name: str
    job: ObjectBuilder
    edits: int = 2
    fields: tuple[str, ...] = tuple(FIELDS)


JOB: Final = tfjob("job").chief(restart="ExitCode").workers(2, restart="OnFailure").evaluators().startup_deadline(300)
ELASTIC: Final = tfjob("job").chief(restart="Never").workers(2, restart="ExitCode").elastic(1, 2)
SIZES: Final = {
    "quick": (ConversionBound("a job", JOB, edits=1),),
    "gate": (ConversionBound("a job", JOB), ConversionBound("an elastic job", ELASTIC)),
    "night": (ConversionBound("a job", JOB, edits=3), ConversionBound("an elastic job", ELASTIC, edits=3)),
}


class ConversionWorld:
    """The world of one bound. A state is the stored object, as JSON, and how many writes are left."""

    def __init__(self, bound: ConversionBound) -> None:
        self.bound = bound
        crd = registry.DEFAULT.crd.load(*(version for version in DOORS if version != "v1"))
        self._server = ApiServer(FakeClock(), kinds=(*catalog.KINDS, *custom_kinds.defined(crd)))
        self._server.handle(requests.create(_NAMESPACES, "", {"metadata": {"name": KEY.namespace}}))
        answer = self._server.handle(requests.create(STORED, KEY.namespace, bound.job.body()))
        assert isinstance(answer, Response)
        assert answer.code == 201, answer.body
        self._first = self._stored()
        self._forgeries = self._forged()

    def start(self) -> State:
        return self._first, self.bound.edits

    def resting(self, state: State) -> Iterator[str]:
        """In each version the job can be read, twice the same, and written back as it is."""
        stored, _ = state
        previous = self._read(stored, "v1")
        for version in DOORS:
            body = self._read(stored, version)
            if body is None:
                yield f"a read in {version} fails"
            elif body != self._read(stored, version):
                yield f"two reads in {version} differ"
            elif (refusal := self._replace(stored, version, body)) is not None:
                yield f"what was read in {version} cannot be written back: {refusal}"
            elif _parts(json.loads(self._stored())) != _parts(previous):
                yield f"a write in {version} that changes nothing changes the job in v1"

    def moves(self, state: State) -> Iterator[Move]:
        stored, edits = state
        body = self._read(stored, "v1")
        if not body.get("status"):
            refusal = self._patch(stored, "v1", {"status": _STATUS}, "status")
            yield Move("the operator writes a status", (self._stored(), edits), (refusal,) if refusal else (), False)
        for version in DOORS if edits else ():
            for name in self.bound.fields:
                yield from self._edits(stored, edits, version, name)
            yield from self._forgeries_of(stored, edits, version)

    def _edits(self, stored: str, edits: int, version: str, name: str) -> Iterator[Move]:
        field, previous = FIELDS[name], self._read(stored, "v1")
        for value in field.values if version in field.places else ():
            body = self._read(stored, version)
            _put(body, field.places[version], value)
            writes = {"writes": partial(self._replace, stored, version, body)}
            if not any(isinstance(part, int) for part in field.places[version]):
                patch: Json = {}
                _put(patch, field.places[version], value)
                writes["patches"] = partial(self._patch, stored, version, patch)
            if name == "replicas" and version != "v1alpha1":
                writes["scales"] = partial(self._patch, stored, version, {"spec": {"replicas": value}}, "scale")
            for way, write in writes.items():
                refusal = write()
                after = json.loads(self._stored())
                breaks = _broken(name, value, previous, after, refusal=refusal)
                state = self._stored(), edits - 1
                yield Move(f"somebody {way} {name}={value} in {version}", state, tuple(breaks), is_fair=False)

    def _forgeries_of(self, stored: str, edits: int, version: str) -> Iterator[Move]:
        previous = self._read(stored, "v1")
        for deed, text in self._forgeries.get(version, {}).items():
            body = self._read(stored, version)
            if text is None:
                body["metadata"].get("annotations", {}).pop(FORGED[-1], None)
            else:
                _put(body, FORGED, text)
            self._replace(stored, version, body)
            is_same = _parts(json.loads(self._stored())) == _parts(previous)
            breaks = (
                () if is_same or "status" not in previous else (f"an annotation in {version} changes the job in v1",)
            )
            state = (self._stored() if is_same else stored), edits - 1
            yield Move(f"somebody {deed} in {version}", state, breaks, is_fair=False)

    def _forged(self) -> Mapping[str, Mapping[str, str | None]]:
        """What annotations of other jobs say: those that are suspended, or somebody else's."""
        texts: dict[str, dict[str, str | None]] = {}
        for version in DOORS:
            if version == "v1":
                continue
            texts[version] = {"removes the annotation": None}
            for name, value in (("suspend", True), ("managedBy", "kueue.x-k8s.io/multikueue")):
                body = json.loads(self._first)
                _put(body, FIELDS[name].places["v1"], value)
                noted = conversion.convert(body, version)["metadata"]["annotations"][FORGED[-1]]
                texts[version][f"forges {name}"] = noted
        return texts

    # --- The server

    def _read(self, stored: str, version: str) -> Any:  # noqa: ANN401 (JSON)
        self._put_back(stored)
        answer = self._server.handle(requests.get(DOORS[version], KEY))
        assert isinstance(answer, Response)
        body = json.loads(answer.body) if answer.code == 200 else None
        if body:
            del body["metadata"]["resourceVersion"]
        return body

    def _replace(self, stored: str, version: str, body: Json) -> str | None:
        self._put_back(stored)
        current = self._server.store.collection(str(STORED)).objects[path_of(KEY)].body["metadata"]["resourceVersion"]
        metadata = {**body["metadata"], "resourceVersion": current}
        return self._answer(requests.update(DOORS[version], KEY, {**body, "metadata": metadata}))

    def _patch(self, stored: str, version: str, change: Json, subresource: str = "") -> str | None:
        self._put_back(stored)
        return self._answer(requests.merge_patch(DOORS[version], KEY, change, subresource=subresource))

    def _answer(self, request: Request) -> str | None:
        """Why a write is refused, if it is."""
        answer = self._server.handle(request)
        assert isinstance(answer, Response)
        return None if answer.code == 200 else str(json.loads(answer.body)["message"])

    def _put_back(self, stored: str) -> None:
        self._server.store.commit(str(STORED), path_of(KEY), json.loads(stored))

    def _stored(self) -> str:
        """The object without what each write changes."""
        body = dict(self._server.store.collection(str(STORED)).objects[path_of(KEY)].body)
        dropped = {"resourceVersion", "generation", "managedFields"}
        metadata = {name: value for name, value in body["metadata"].items() if name not in dropped}
        return json.dumps({**body, "metadata": metadata}, sort_keys=True)


def _broken(name: str, value: object, previous: Json, after: Json, *, refusal: str | None) -> Iterator[str]:
    """The sentences that a write of one field breaks."""
    is_allowed = _may_change(name, value, previous)
    if refusal is not None:
        if is_allowed:
            yield f"{name} may change, and the write is refused: {refusal}"
        if _parts(after) != _parts(previous):
            yield "a refused write changes the job"
        return
    place = FIELDS[name].places["v1"]
    if not is_allowed:
        yield f"{name} cannot change, and the write is accepted"
    if _get(after, place) != value:
        yield f"the new {name} is not in v1"
    expected = json.loads(json.dumps(previous))
    _put(expected, place, value)
    if _parts(expected) != _parts(after):
        yield f"a write of {name} changes something else in v1"


def _may_change(name: str, value: object, job: Json) -> bool:
    spec = job["spec"]
    if _get(job, FIELDS[name].places["v1"]) == value:
        return True
    if name == "managedBy":
        return False
    if name == "replicas":
        elastic = spec.get("elasticPolicy")
        if elastic and not elastic["minReplicas"] <= value <= elastic["maxReplicas"]:
            return False
        return bool(elastic) or spec["runPolicy"].get("suspend") is True
    return True


def _parts(job: Json) -> Json:
    """What a job says; not the notes for other versions."""
    metadata = job["metadata"]
    annotations = {name: text for name, text in metadata.get("annotations", {}).items() if not name.startswith(_OURS)}
    return {"spec": job["spec"], "status": job.get("status"), "labels": metadata.get("labels"), "own": annotations}


def _get(body: Any, place: Path) -> object:  # noqa: ANN401 (JSON)
    for part in place:
        if isinstance(body, Mapping) and part not in body:
            return None
        body = body[part]
    return body


def _put(body: Any, place: Path, value: object) -> None:  # noqa: ANN401 (JSON)
    for part in place[:-1]:
        body = body[part] if isinstance(part, int) else body.setdefault(part, {})
    body[place[-1]] = value
