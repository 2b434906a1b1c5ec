"""The GPUs of a node: gives them to pods, and takes them back when the last process of a pod is gone.

``GpuKeeper.run`` is a loop that wakes when a pod has come, changed or ended. Nobody says when another command has given
up its GPUs, or a process is gone that has left its container: while it waits for either, it looks twice in a second.
"""

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, Protocol

import msgspec

from tf_operator.local.node.gpus import assignment, devices, holders
from tf_operator.local.node.gpus.devices import Device, Load
from tf_operator.local.node.gpus.journal import GpuJournal, Holding
from tf_operator.local.node.pod import LocalContainer, LocalPod
from tf_operator.machinery.clock import Clock
from tf_operator.machinery.log import Logger

_log = Logger(__name__)
_AGAIN_AFTER: Final = 0.5
_ALLOW_GROWTH: Final = "TF_FORCE_GPU_ALLOW_GROWTH"


class PodSource(Protocol):
    """The pods of the node."""

    def waiting(self) -> Iterable[LocalPod]:
        """Those without a node that nothing but GPUs keeps waiting."""

    def refusal(self, pod: LocalPod) -> str:
        """Why something else keeps one waiting by now, as a pod before it has taken the room."""

    def active(self) -> Collection[str]:
        """The UIDs of those that may start a program, or run one."""

    def on_assigned(self, pod: LocalPod) -> None:
        """It has its GPUs, and can be bound."""

    def on_refused(self, pod: LocalPod, reason: str) -> None:
        """It waits for GPUs."""


def _ignore(_pod: LocalPod, _devices: Sequence[Device]) -> None:
    """Nobody wants to know."""


class GpuKeeper:
    """``usable``: the GPUs that pods may have. With ``shares``, several pods may have the same."""

    def __init__(self, usable: Sequence[Device], journal: GpuJournal, clock: Clock, *, shares: bool = False) -> None:
        self.usable = tuple(usable)
        self._journal = journal
        self._clock = clock
        self._shares = shares
        self.on_given: Callable[[LocalPod, Sequence[Device]], object] = _ignore
        """Is called when a pod gets its GPUs."""
        self._holdings: dict[str, Holding] = {}
        self._changed = asyncio.Event()

    def open(self) -> None:
        """Take over what an earlier node in the same folder had; of its programs, nothing goes on."""
        self._holdings = dict(self._journal.open())
        for uid in self._holdings:
            for process in holders.processes_of(uid):
                with suppress(OSError):
                    os.kill(process, signal.SIGKILL)

    def close(self) -> None:
        """The node ends, and all programs have: its GPUs are free, but for what cannot be killed."""
        with suppress(OSError):
            self.release(active=())
        self._journal.close()

    def on_changed(self) -> None:
        """A pod has come, changed or ended."""
        self._changed.set()

    async def run(self, pods: PodSource) -> None:
        """Give GPUs to pods until cancelled. All pods are known when this is called."""
        self.forget(pod.uid for pod in pods.waiting())
        while True:
            self._changed.clear()
            try:
                is_waiting = self.give(pods)
            except OSError as error:
                _log.warning("GPUs cannot be given to pods; retrying", error=str(error))
                is_waiting = True
            with suppress(TimeoutError):
                async with self._clock.timeout(_AGAIN_AFTER if is_waiting else None):
                    await self._changed.wait()

    def forget(self, uids: Iterable[str]) -> None:
        """An earlier node was killed before it had bound these pods: they wait like others."""
        unbound = set(uids)
        if unbound & self._holdings.keys():
            self._write({uid: holding for uid, holding in self._holdings.items() if uid not in unbound})

    def give(self, pods: PodSource) -> bool:
        """Take back what no pod needs, and give what is free; whether a pod waits, or a process, after that."""
        self.release(pods.active())
        is_waiting = bool(self._unneeded_pods(pods.active()))
        for pod in sorted((pod for pod in pods.waiting() if pod.uid not in self._holdings), key=assignment.rank):
            if reason := pods.refusal(pod) or self.assign(pod):
                is_waiting = True
                pods.on_refused(pod, reason)
            else:
                pods.on_assigned(pod)
        return is_waiting

    def needs(self, pod: LocalPod) -> assignment.Needs:
        """What a pod needs of a machine with GPUs; nothing on one without."""
        return assignment.needs_of(pod) if self.usable else {}

    def assign(self, pod: LocalPod) -> str:
        """Give a pod its GPUs for as long as it lives; why it has to wait, in words of kube-scheduler."""
        needs = self.needs(pod)
        with self._journal.turn() as others:
            users = self._users(others)
            if not (choice := assignment.pick(needs, self.usable, users, shares=self._shares)):
                return assignment.refusal(needs, self.usable, users)
            holding = Holding(str(pod.key), tuple(device.uuid for device in choice))
            self._write({**self._holdings, pod.uid: holding})
        self.on_given(pod, choice)
        return ""

    def adopt(self, pod: LocalPod) -> tuple[str, str] | None:
        """A pod is bound to this node, by whomever; why it is rejected, as a kubelet says it: reason and message."""
        if pod.uid in self._holdings or not (needs := self.needs(pod)):
            return None
        try:
            if not self.assign(pod):
                return None
            with self._journal.turn() as others:
                return assignment.rejection(needs, self.usable, self._users(others))
        except OSError as error:
            return "UnexpectedAdmissionError", f"its GPUs cannot be written down: {error}"

    def on_started(self, pod: LocalPod, session: int) -> None:
        if holding := self._holdings.get(pod.uid):
            holding = msgspec.structs.replace(holding, sessions=(*holding.sessions, session))
            with suppress(OSError):  # its environment names it, too
                self._write({**self._holdings, pod.uid: holding})

    def release(self, active: Collection[str]) -> None:
        """Take back what pods had that do nothing any more, and of which no process is left."""
        uids = {uid for uid in self._unneeded_pods(active) if self._journal.is_free(uid, self._holdings[uid])}
        if uids:
            self._write({uid: holding for uid, holding in self._holdings.items() if uid not in uids})

    def of(self, pod: LocalPod) -> tuple[Device, ...]:
        holding = self._holdings.get(pod.uid)
        return tuple(device for device in self.usable if holding and device.uuid in holding.gpus)

    def variables(self, pod: LocalPod, container: LocalContainer) -> dict[str, str]:
        """What a container sees: its own GPUs. Of these it may choose by number, as in a cluster."""
        own = assignment.of_container(pod, container.name, self.of(pod))
        choice = next((entry.value for entry in container.spec.env if entry.name == devices.VARIABLE), None)
        if choice is not None:
            numbers = [Device(device.uuid, str(index), device.name) for index, device in enumerate(own)]
            own = devices.visible(numbers, choice)
        uuids = ",".join(device.uuid for device in own)
        growth = {_ALLOW_GROWTH: "true"} if self._shares and own else {}
        return {devices.VARIABLE: uuids, "NVIDIA_VISIBLE_DEVICES": uuids or "void", **growth}

    def usage(self, pod: LocalPod, container: str, loads: Mapping[str, Load]) -> dict[str, str]:
        """What the GPUs of a container do, together and each, as quantities of the metrics API."""
        own = assignment.of_container(pod, container, self.of(pod))
        own_loads = {device.index: loads[device.uuid] for device in own if device.uuid in loads}
        if not own_loads:
            return {}
        times = [load.used for load in own_loads.values() if load.used is not None]
        time = {devices.GPU: _thousandths(sum(times))} if times else {}
        memory = {devices.GPU_MEMORY: _kibibytes(sum(load.memory for load in own_loads.values()))}
        return {**time, **memory, **dict(_of_each_device(own_loads))}

    def _unneeded_pods(self, active: Collection[str]) -> set[str]:
        return self._holdings.keys() - active

    def _users(self, others: Counter[str]) -> Counter[str]:
        return others + Counter(uuid for holding in self._holdings.values() for uuid in holding.gpus)

    def _write(self, holdings: Mapping[str, Holding]) -> None:
        self._journal.write(holdings)
        self._holdings = dict(holdings)


def _of_each_device(loads: Mapping[str, Load]) -> Iterator[tuple[str, str]]:
    """What each device does. The name of a resource has no colon, as the index of an instance has."""
    for index, load in loads.items():
        place = index.replace(":", "-")
        if load.used is not None:
            yield f"{devices.GPU}.{place}", _thousandths(load.used)
        yield f"{devices.GPU_MEMORY}.{place}", _kibibytes(load.memory)
        yield f"{devices.GPU_MEMORY_TOTAL}.{place}", _kibibytes(load.total_memory)


def _thousandths(amount: float) -> str:
    return f"{amount * 1000:.0f}m"


def _kibibytes(size: int) -> str:
    return f"{size // 1024}Ki"
