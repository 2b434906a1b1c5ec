"""The life of each pod of a job, out of the history of the store: what invariants ask of pods.

A life is all revisions of one UID. Moments are revisions of the store, so that they can be compared with those of any
other object.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from support.history import History, Revision
from support.jobs.templates import MAIN_CONTAINER
from support.resources import PODS, Json

CHILD_KINDS = frozenset({"pods", "services", "podgroups"})
_LABEL = "training.kubeflow.org/"
_OVER = {"Succeeded", "Failed"}


@dataclass(frozen=True)
class PodLife:
    """One pod, from its creation to its end or to that of the recording."""

    versions: tuple[Revision, ...]

    @property
    def name(self) -> str:
        return self.versions[0].place.name

    @property
    def born(self) -> int:
        return self.versions[0].revision

    @cached_property
    def replica(self) -> tuple[str, str]:
        """Type and index, as its labels say."""
        labels = self.versions[0].last_body["metadata"].get("labels", {})
        return labels.get(f"{_LABEL}replica-type", ""), labels.get(f"{_LABEL}replica-index", "")

    @property
    def kind(self) -> str:
        return self.replica[0]

    @property
    def finalizers(self) -> set[str]:
        return {name for body in self._bodies() for name in body["metadata"].get("finalizers", ())}

    @property
    def configs(self) -> list[str]:
        body = self.versions[0].last_body
        main = [entry for entry in body["spec"]["containers"] if entry["name"] == MAIN_CONTAINER]
        entries = [entry for container in main for entry in container.get("env", ()) if entry["name"] == "TF_CONFIG"]
        annotations = {
            f"metadata.annotations['{name}']": text for name, text in body["metadata"].get("annotations", {}).items()
        }
        return [entry.get("value") or annotations[entry["valueFrom"]["fieldRef"]["fieldPath"]] for entry in entries]

    def restarts_before(self, revision: float) -> int:
        """In place."""
        bodies = (version.body for version in self.versions if version.body and version.revision < revision)
        return max((sum(_restarts(body)) for body in bodies), default=0)

    @property
    def runs_at_last(self) -> bool:
        body = self.versions[-1].body
        if body is None or body["status"].get("phase") != "Running" or "deletionTimestamp" in body["metadata"]:
            return False
        states = {entry["name"]: entry["state"] for entry in body["status"].get("containerStatuses", ())}
        return "terminated" not in states.get(MAIN_CONTAINER, {})

    def lives_at(self, revision: int) -> bool:
        """Whether it existed then, and was neither Succeeded nor Failed; also terminating."""
        body = self._at(revision)
        return body is not None and body["status"].get("phase") not in _OVER

    def succeeded_before(self, revision: int) -> bool:
        """Whether anybody could see it Succeeded before then, and it was so before a disruption was announced."""
        success = self.success
        return success is not None and success.revision < revision and not _is_disrupted(success.last_body)

    @property
    def success(self) -> Revision | None:
        """Its first version that was Succeeded."""
        return next((entry for entry in self.versions if entry.last_body["status"].get("phase") == "Succeeded"), None)

    @property
    def lost_at(self) -> int | None:
        """The revision in which it had failed, or was to be deleted before it had succeeded."""
        for version in self.versions:
            body = version.last_body
            if body["status"].get("phase") == "Succeeded":
                return None
            if (
                body["status"].get("phase") == "Failed"
                or version.body is None
                or "deletionTimestamp" in body["metadata"]
            ):
                return version.revision
        return None

    def was_told_to_stop(self, since: int) -> bool:
        """Whether it was terminating, from this revision on or later, before it ended in any way."""
        for version in self.versions:
            if version.body is not None and version.body["status"].get("phase") in _OVER:
                return version.revision > since and "deletionTimestamp" in version.body["metadata"]
        return False

    def failed_before(self, revision: float) -> bool:
        """Whether it was Failed before then by its own mistake, and not because it was told to stop."""
        failure = next((body for body in self._bodies() if body["status"].get("phase") == "Failed"), None)
        is_own = failure is not None and "deletionTimestamp" not in failure["metadata"]
        return is_own and self._was(revision, "Failed") and not any(map(_is_disrupted, self._bodies()))

    def _was(self, revision: float, phase: str) -> bool:
        return any(
            version.body is not None and version.body["status"].get("phase") == phase
            for version in self.versions
            if version.revision < revision
        )

    def _at(self, revision: int) -> Json | None:
        versions = [version for version in self.versions if version.revision <= revision]
        return versions[-1].body if versions else None

    def _bodies(self) -> Iterator[Json]:
        return (version.body for version in self.versions if version.body is not None)


def lives_of(history: History, children: Iterable[Revision]) -> Iterator[PodLife]:
    """The lives of a job's pods, in the order in which they were created; those that a test made are left out."""
    uids = dict.fromkeys(entry.uid for entry in children if entry.resource == PODS.qualified)
    versions: dict[str, list[Revision]] = defaultdict(list)
    for entry in history.revisions:
        if entry.resource == PODS.qualified and entry.uid in uids:
            versions[entry.uid].append(entry)
    for revisions in versions.values():
        if not _is_made_by_a_test(revisions[0]):
            yield PodLife(tuple(revisions))


def _is_made_by_a_test(revision: Revision) -> bool:
    """Pods of others and forgeries say nothing about the operator; the tests' own clients are called ``test-...``."""
    return revision.creator.startswith("test-")


def _restarts(body: Json) -> Iterator[int]:
    """Of each container, but for those by which a resize was carried out in place."""
    entries = [
        entry for group in ("containerStatuses", "initContainerStatuses") for entry in body["status"].get(group, ())
    ]
    resizes = sum(entry["restartCount"] for entry in entries if entry["name"] == "tf-operator-resize")
    yield from (max(entry.get("restartCount", 0) - resizes, 0) for entry in entries)


def _is_disrupted(body: Json) -> bool:
    """Evicted, rejected by its node (both leave a reason, and no status of a container), or about to be taken away."""
    status = body["status"]
    is_refused = bool(status.get("reason")) and not status.get("containerStatuses")
    return is_refused or any(
        entry["type"] == "DisruptionTarget" and entry["status"] == "True" for entry in status.get("conditions", ())
    )
