"""An apiserver for one controller, in memory: what it stores shows up in stores only when the test says so.

It takes the place of ``ApiClient`` where a test is about what is written, and in which order: ``calls`` has every call
as ``verb resource name``. ``fail`` has the next call of a kind end in an error. That objects get versions, UIDs and
preconditions is kept as a real apiserver does; schemas and defaults are not.
"""

import copy
import itertools
from collections import deque
from collections.abc import Mapping
from typing import Any

import msgspec

from support.builders import merge
from support.resources import Json
from tf_operator.machinery.transport import errors
from tf_operator.machinery.transport.requests import Request, Resource
from tf_operator.meta import ObjectKey


class FakeApi:
    def __init__(self) -> None:
        self.objects: dict[tuple[str, ObjectKey], Json] = {}
        self.calls: list[str] = []
        self._numbers = itertools.count(101)
        self._failures: dict[str, deque[errors.ApiError]] = {}

    def fail(self, call: str, *failures: errors.ApiError) -> None:
        """The next calls that begin with ``call`` end in these errors, one each."""
        self._failures.setdefault(call, deque()).extend(failures)

    def put(self, resource: Resource, body: Json) -> Json:
        """Store an object as somebody else's write would."""
        stored = copy.deepcopy(body)
        number = next(self._numbers)
        stored["metadata"] = {"uid": f"uid-{number}", **stored["metadata"], "resourceVersion": str(number)}
        self.objects[str(resource), self._key(stored)] = stored
        return stored

    def of(self, resource: Resource) -> list[Json]:
        return [body for (name, _), body in sorted(self.objects.items()) if name == str(resource)]

    async def get(self, resource: Resource, key: ObjectKey) -> Json:
        self._call("get", resource, key.name)
        return self._stored(resource, key)

    async def create(self, resource: Resource, namespace: str, body: Mapping[str, Any]) -> Json:
        key = ObjectKey(namespace, body["metadata"]["name"])
        self._call("create", resource, key.name)
        if (str(resource), key) in self.objects:
            raise refused(409, "AlreadyExists", f"{key.name} already exists")
        return self.put(resource, merge({"metadata": {"namespace": namespace}}, body))

    async def merge_patch(
        self, resource: Resource, key: ObjectKey, body: Mapping[str, Any], *, subresource: str = ""
    ) -> Json:
        self._call("patch", resource, "/".join(part for part in (key.name, subresource) if part))
        stored = self._stored(resource, key)
        asked = body.get("metadata", {})
        for field in ("resourceVersion", "uid"):
            if field in asked and asked[field] != stored["metadata"][field]:
                raise refused(409, "Conflict", f"{field} is another")
        return self.put(resource, merge(stored, body))

    async def delete(self, resource: Resource, key: ObjectKey, *, uid: str, version: str = "", **_: object) -> Json:
        self._call("delete", resource, key.name)
        metadata = self._stored(resource, key)["metadata"]
        if metadata["uid"] != uid or version not in {"", metadata["resourceVersion"]}:
            raise refused(409, "Conflict", "the UID or the version is another")
        return self.objects.pop((str(resource), key))

    async def send(self, request: Request) -> bytes:
        """A request as it goes onto the wire: a list, a get, or the deletion of a collection."""
        *_, namespace, plural = request.path.split("/") if request.verb != "get" else request.path.split("/")[:-1]
        self.calls.append(f"{request.verb} {plural} {request.query.get('labelSelector', '')}".rstrip())
        self._raise_failure(self.calls[-1])
        if request.verb == "get":
            return self._sent_get(request)
        found = [body for body in self._all(plural, namespace) if _is_selected(body, request)]
        if request.verb == "deletecollection":
            for body in found:
                self.objects = {key: kept for key, kept in self.objects.items() if kept is not body}
            return b"{}"
        return msgspec.json.encode({"metadata": {"resourceVersion": str(next(self._numbers))}, "items": found})

    def _sent_get(self, request: Request) -> bytes:
        *_, namespace, plural, name = request.path.split("/")
        for body in self._all(plural, namespace):
            if body["metadata"]["name"] == name:
                return msgspec.json.encode(body)
        raise missing(name)

    def _all(self, plural: str, namespace: str) -> list[Json]:
        return [
            body
            for (resource, key), body in sorted(self.objects.items())
            if resource.partition(".")[0] == plural and key.namespace == namespace
        ]

    def _stored(self, resource: Resource, key: ObjectKey) -> Json:
        found = self.objects.get((str(resource), key))
        if found is None:
            raise missing(key.name)
        return found

    def _call(self, verb: str, resource: Resource, name: str) -> None:
        self.calls.append(f"{verb} {resource} {name}")
        self._raise_failure(self.calls[-1])

    def _raise_failure(self, call: str) -> None:
        for beginning, failures in self._failures.items():
            if call.startswith(beginning) and failures:
                raise failures.popleft()

    @staticmethod
    def _key(body: Json) -> ObjectKey:
        return ObjectKey(body["metadata"]["namespace"], body["metadata"]["name"])


def refused(code: int, reason: str, message: str = "") -> errors.Refused:
    return errors.from_status(errors.Status(code=code, reason=reason, message=message))


def missing(name: str) -> errors.Refused:
    details = errors.Details(name=name)
    return errors.from_status(errors.Status(404, "NotFound", f"there is no {name}", details))


def _is_selected(body: Json, request: Request) -> bool:
    labels = body["metadata"].get("labels", {})
    selector = request.query.get("labelSelector", "")
    pairs = (pair.partition("=") for pair in selector.split(",") if pair)
    return all(labels.get(name) == value for name, _, value in pairs)
