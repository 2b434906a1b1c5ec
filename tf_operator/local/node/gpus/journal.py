"""Which pods have which GPUs, in a folder that all nodes of this user share: two commands are two nodes on one machine.

    lock                 held while GPUs are taken, so that one node at a time does
    <node>.lock          held by a node while it runs
    <node>.json          the pods of that node, with their GPUs

A pod is written down before it is bound, and crossed out when its last process is gone. So whatever is killed in
between, the next node with the same folder knows what its pods had; what a node had that is gone and does not come back
is free once its processes are.
"""

import fcntl
import hashlib
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from tf_operator.local.node.gpus import holders

_LOCK: Final = "lock"


class Holding(msgspec.Struct, frozen=True):
    """The GPUs of one pod."""

    pod: str
    """``namespace/name``."""
    gpus: tuple[str, ...]
    """UUIDs."""
    sessions: tuple[int, ...] = ()
    """Those of its containers."""


HasAny = Callable[[str, Collection[int]], bool]
"""Whether a process of this pod, with these sessions, is left."""
Holdings = Mapping[str, Holding]
"""By the UID of the pod."""
_READ: Final = msgspec.json.Decoder(dict[str, Holding]).decode


class GpuJournal:
    def __init__(self, folder: Path, node: Path, has_any: HasAny = holders.has_any) -> None:
        """``node`` is the folder of a node, ``has_any`` whether any process of a pod is left."""
        self._folder = folder
        self._name = hashlib.sha256(os.fsencode(node)).hexdigest()[:16]
        self._has_any = has_any
        self._running = -1

    def open(self) -> Holdings:
        """What an earlier node in the same folder had, but for what others have taken since its processes were gone."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self.turn() as others:
            self._running = self._locked(f"{self._name}.lock")
            earlier = _holdings(self._folder / f"{self._name}.json")
            return {
                uid: holding
                for uid, holding in earlier.items()
                if not any(others[uuid] for uuid in holding.gpus) or not self.is_free(uid, holding)
            }

    def close(self) -> None:
        """The node ends. What its pods have is left for the next one in its folder."""
        if self._running >= 0:
            with suppress(OSError), self.turn():
                if not (self._folder / f"{self._name}.json").exists():
                    (self._folder / f"{self._name}.lock").unlink(missing_ok=True)
            os.close(self._running)
            self._running = -1

    def write(self, holdings: Holdings) -> None:
        """Remember this of the own node, all of it or nothing."""
        file = self._folder / f"{self._name}.json"
        if not holdings:
            file.unlink(missing_ok=True)
            return
        temporary = file.with_suffix(".new")
        temporary.write_bytes(msgspec.json.encode(holdings))
        temporary.replace(file)

    def is_free(self, uid: str, holding: Holding) -> bool:
        """Whether no process of a pod is left."""
        return not self._has_any(uid, holding.sessions)

    @contextmanager
    def turn(self) -> Iterator[Counter[str]]:
        """Until the block is left no other node takes GPUs; how many pods of others have each of them, by UUID."""
        descriptor = self._locked(_LOCK)
        try:
            others = (file for file in self._folder.glob("*.json") if file.stem != self._name)
            yield Counter(uuid for file in others for holding in self._live(file).values() for uuid in holding.gpus)
        finally:
            os.close(descriptor)

    def _live(self, file: Path) -> Holdings:
        """What another node has: all of it while it runs, then what its processes still use."""
        holdings = _holdings(file)
        if _is_locked(file.with_suffix(".lock")):
            return holdings
        live_holdings = {uid: holding for uid, holding in holdings.items() if not self.is_free(uid, holding)}
        if not live_holdings:
            file.unlink(missing_ok=True)
            file.with_suffix(".lock").unlink(missing_ok=True)
        return live_holdings

    def _locked(self, name: str) -> int:
        descriptor = os.open(self._folder / name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        return descriptor


def read_all(folder: Path) -> dict[str, list[str]]:
    """Who has which GPU now, by its UUID, as far as nodes have written it down."""
    by_uuid: dict[str, list[str]] = {}
    for file in sorted(folder.glob("*.json")):
        is_running = _is_locked(file.with_suffix(".lock"))
        for uid, holding in _holdings(file).items():
            if is_running or holders.has_any(uid, holding.sessions):
                for uuid in holding.gpus:
                    by_uuid.setdefault(uuid, []).append(holding.pod)
    return by_uuid


def _holdings(file: Path) -> Holdings:
    with suppress(OSError, msgspec.MsgspecError):
        return _READ(file.read_bytes())
    return {}


def _is_locked(file: Path) -> bool:
    with suppress(OSError):
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
    return False
