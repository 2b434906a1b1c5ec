"""The room of a single machine, and what jobs that wait in the queue wait for: who has how much of what.

Of a cluster of several nodes this would be a report about all of them, so nothing is said there, nor to a user who may
not list nodes and pods.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Final

from tf_operator.cli.ui import board, feed
from tf_operator.cli.ui.feed import RunningFeed
from tf_operator.client import ApiError, AsyncTFJobs, Forbidden, Job, queue_notes
from tf_operator.job.record import JobPhase
from tf_operator.machinery.clock import Clock
from tf_operator.meta import Body, controller_of, key_of, mapping_of
from tf_operator.planning.job_queue import shapes

_EVERY: Final = 5.0
_AFTER_REFUSAL: Final = 60.0
_MOST_HOLDERS: Final = 20
_ENDED: Final = frozenset({"Succeeded", "Failed"})
_GIBIBYTE: Final = 1024**3
_SHOWN: Final = ("cpu", "memory")
"""Beside devices, whose names have a domain."""
Shown = Mapping[str, object]


class RoomFeed(RunningFeed):
    """Kept up for as long as somebody looks at the table."""

    def __init__(self, jobs: AsyncTFJobs, has_waiting: Callable[[], bool], clock: Clock) -> None:
        """``has_waiting``: whether a job waits in the queue, so that it is worth to list them."""
        super().__init__()
        self._jobs = jobs
        self._has_waiting = has_waiting
        self._clock = clock
        self.text = b""

    async def run(self) -> None:
        while True:
            pause, machine = _EVERY, None
            try:
                machine = await queue_notes.machine(self._jobs.client)
            except Forbidden:
                pass
            except ApiError:  # it comes back, and until then the table says why nothing changes
                await self._clock.sleep(_EVERY)
                continue
            resources, notes = list[Shown](), dict[str, str]()
            if machine is None:
                pause = _AFTER_REFUSAL
            else:
                resources, notes = list(resources_of(*machine)), await self._notes(*machine)
            text = feed.frame("room", {"resources": resources, "notes": notes})
            if text != self.text and (self.text or resources or notes):
                self.text = text
                self.changed()
            await self._clock.sleep(pause)

    async def _notes(self, node: Body, pods: list[Body]) -> dict[str, str]:
        """By the names that rows have."""
        if not self._has_waiting():
            return {}
        waiting = list[Job]()
        with suppress(ApiError):
            waiting = [job for job in await self._jobs.list(all_namespaces=True) if job.phase is JobPhase.QUEUED]
        notes, kind = queue_notes.notes_of(waiting, node, pods), board.kind_name(self._jobs.api)
        return {
            f"{kind}/{job.namespace}/{job.name}": feed.printable(notes[job.uid]) for job in waiting if job.uid in notes
        }


class RoomCursor:
    is_ended = False

    def __init__(self, source: RoomFeed) -> None:
        self._source = source
        self._read = b""

    def news(self) -> list[bytes]:
        if self._read == self._source.text:
            return []
        self._read = self._source.text
        return [self._read]


def resources_of(node: Body, pods: Iterable[Body]) -> Iterable[Shown]:
    """What the machine has, how much of it is asked for, and by whom; processors and memory only if anybody asks."""
    total = dict(shapes.amounts_of(mapping_of(node.get("status")).get("allocatable")))
    used, holders = Counter[str](), defaultdict[str, dict[str, None]](dict)
    for pod in pods:
        spec, phase = mapping_of(pod.get("spec")), mapping_of(pod.get("status")).get("phase")
        if spec.get("nodeName") and phase not in _ENDED:
            owner = controller_of(pod)
            for resource, amount in shapes.requests_of(spec):
                used[resource] += amount
                holders[resource][owner.name if owner else key_of(pod).name] = None
    for resource in sorted(total, key=lambda name: ("/" not in name, name)):
        if total[resource] and ("/" in resource or (resource in _SHOWN and used[resource])):
            yield {
                "name": feed.printable(resource, 100),
                "share": min(100, used[resource] * 100 // total[resource]),
                "text": f"{_text_of(resource, used[resource])} of {_text_of(resource, total[resource])}",
                "holders": [feed.printable(name, 100) for name in list(holders[resource])[:_MOST_HOLDERS]],
            }


def _text_of(resource: str, amount: int) -> str:
    number = amount / shapes.ONE
    return f"{number / _GIBIBYTE:.1f} GiB" if resource == "memory" else f"{number:.4g}"
