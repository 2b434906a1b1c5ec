"""A history that the search has found, with a whole operator: on the embedded API server, or on a real one.

    PYTHONPATH=hack:test .venv/bin/python -m proof.replay FILE [--real]

Here the operator's controller reads and writes objects; what kubelets and people do, and what goes wrong on the way, is
played as the moves say. After each write the status and the pods are compared with those of the search. It ends with 1
when the history breaks a sentence here, too; with 0 when it breaks none, or does not come about; with 2 when the
operator does not do what the search says.
"""

import argparse
import asyncio
import sys
import tempfile
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from lab.control_plane.plane import ControlPlane
from proof import bounds, world
from proof.bounds import Bound
from proof.engine import Break, Move
from proof.planner import DELETE_JOB, DELETE_POD, DELETE_SERVICES, MAKE_POD, MAKE_SERVICE, STORE, Step, without_usage
from proof.pods import JOB, PodState
from proof.stage import Stage
from proof.world import NOTHING, JobWorld, State
from support.embedded.controller_harness import Harness
from support.embedded.embedded_api import refused
from support.fake_clock import FakeClock
from support.resources import Json
from tf_operator.controller.resources import PODS
from tf_operator.controller.result import Result
from tf_operator.controller.writing.execute import UNFINISHED_WAITS, Executor
from tf_operator.controller.writing.shares import Slots
from tf_operator.local.apiserver.messages import Response
from tf_operator.local.apiserver.reads.watches import WatchStream
from tf_operator.machinery.queue.workqueue import RateLimitedQueue
from tf_operator.machinery.ratelimit import ExponentialBackoff
from tf_operator.machinery.transport import errors
from tf_operator.machinery.transport.requests import Request, Resource
from tf_operator.meta import Body, ObjectKey, key_of
from tf_operator.planning.actions import Plan
from tf_operator.planning.snapshot import Snapshot

_WRITES = frozenset({"create", "patch", "delete", "deletecollection"})
_ENDS_OF_LIFE = ("the operator is killed", "another operator leads")
_OPERATORS = ("the operator", "the server fails", "another operator")
_NOBODY = RateLimitedQueue[ObjectKey](FakeClock(), ExponentialBackoff(base=1, cap=1))
"""Waits for the worker that reconciles the job."""


class Difference(Exception):
    """The operator does not do what the search says that it does."""


class Impossible(Exception):
    """The history does not come about."""


class Killed(Exception):
    """The operator, in the middle of a plan; or the history is over."""


class History(NamedTuple):
    """What a file has."""

    bound: Bound
    moves: tuple[str, ...]


def write(file: Path, bound: Bound, brk: Break, *, states: int) -> None:
    """Keep a break, of which the search knew when it had seen so many states."""
    size = {"bound": bound.name, "faults": bound.faults, "edits": bound.edits, "may": sorted(bound.may)}
    content = size | {"states": states, "sentence": brk.sentence, "moves": brk.history}
    file.write_bytes(msgspec.json.format(msgspec.json.encode(content)) + b"\n")


def read(file: Path) -> History:
    content = msgspec.json.decode(file.read_bytes())
    size = {"faults": content["faults"], "edits": content["edits"], "may": frozenset(content["may"])}
    return History(replace(bounds.BY_NAME[content["bound"]], **size), tuple(content["moves"]))


@dataclass(frozen=True, slots=True)
class _Waiting(Executor):
    """Begins a plan when all has happened that is to happen before."""

    begins: Callable[[], Awaitable[None]]

    async def carry_out(self, snapshot: Snapshot, plan: Plan) -> Result:
        await self.begins()
        return await Executor.carry_out(self, snapshot, plan)


class _Operator(Harness):
    """A life of the operator, whose writes come one after the other, and whose caches lack what they are told to."""

    lacks: frozenset[Resource] = frozenset()

    def __init__(self, replay: "Replay") -> None:
        api = replace(replay.bound.api, progress_waits=lambda _: 0.0)
        super().__init__(settings=replay.bound.settings, api=api, world=replay)
        parts = {part.name: getattr(self.executor, part.name) for part in fields(self.executor)}
        parts["shares"] = replace(self.executor.shares, slots=Slots(1), line=_NOBODY)
        self.reconciler = replace(self.reconciler, executor=_Waiting(**parts, begins=replay.until_the_next_write))

    def _fill(self, resource: Resource, store: Any, read: Any) -> list[Any]:  # noqa: ANN401
        if resource in self.lacks:
            return []
        cached = {item.metadata.uid: item for item in store}
        gone = super()._fill(resource, store, read)
        for item in store if resource == PODS else ():
            old = cached.get(item.metadata.uid)
            if old is None:
                self.on_pod.on_add(item)
            elif old is not item:
                self.on_pod.on_update(old, item)
        return gone


class Replay(Stage):
    """One history."""

    def __init__(self, history: History, plane: ControlPlane | None = None) -> None:
        super().__init__(history.bound, plane)
        self.world = JobWorld(history.bound)
        self.state = State._make(self.world.start())
        self.sentences: list[str] = []
        self._left = deque(history.moves)
        self._is_killed = False
        self._late: Request | None = None
        self.operator = _Operator(self)

    async def run(self) -> list[str]:
        """The sentences that it breaks. Raises Difference and Impossible."""
        self.operator.sync()
        while self._left:
            if self._left[0] in {"the operator plans", "the operator forgets the refusal"}:
                self._take()
                await self._reconcile()
            elif self._left[0] in _ENDS_OF_LIFE:
                self._begin_life(self._take())
            else:
                await self._happens()
        self.sentences += self.world.resting(tuple(self.state))
        return self.sentences

    # --- The operator

    async def _reconcile(self) -> None:
        end = ""
        try:
            await self.operator.reconcile(self.key)
        except (errors.ApiError, Killed) as error:
            end = str(error)
        if end.startswith(_ENDS_OF_LIFE):
            self._begin_life(end)
        while self._left and self.state.plan != NOTHING:
            if self._writes_nothing() or self._left[0] == "the operator sees the change, and stops":
                self._take()
            elif self._left[0].startswith(_OPERATORS):
                self._move(self._left[0])
                raise Difference(f"{self._left[0]}: it does not")
            else:
                await self._happens()

    def _begin_life(self, how: str) -> None:
        if how.startswith("another"):
            self.operator.notes.begin_term()
        else:
            self.operator = _Operator(self)
        self._is_killed = False
        self._sync()

    async def until_the_next_write(self) -> None:
        """What happens before the operator goes on with its plan."""
        while self._left and self.state.plan != NOTHING:
            if self._left[0] in _ENDS_OF_LIFE:
                self._kill()
            if self._left[0].startswith(_OPERATORS):
                return
            await self._happens()

    async def on_request(self, request: Request) -> None:
        await super().on_request(request)
        if request.verb not in _WRITES:
            return
        call = self.calls[-1]
        while self._writes_nothing() and not call.endswith("/status"):
            self._take()
            await self.until_the_next_write()
        if self._is_killed or not self._left:
            self._is_killed = True
            raise Killed
        name, step = self._left[0], self._step()
        if not step or not self._is_step(call, step) or world.worded(step) not in name:
            self._move(name)
            raise Difference(f"{name}: it sends {call}")
        if " while the old one " in name:
            self._late = request
            self._kill()
        if name.startswith("the server fails") or name.endswith("exceeds a quota"):
            await self._fail(self._take())

    async def _fail(self, name: str) -> None:
        # Long enough for progress that has been collected to be stored all the same.
        self.operator.notes.status_batches.time_left(self.uid, 0.0)
        await self.clock.advance(UNFINISHED_WAITS + 1)
        code, reason = (403, "Forbidden") if name.endswith("quota") else (500, "InternalError")
        raise refused(code, reason, "exceeded quota")

    async def on_reply(self, request: Request, answer: Response | WatchStream) -> Response | WatchStream:
        if request.verb in _WRITES:
            name = self._take()
            if self.calls[-1].startswith("create pods") and answer.code < 300:
                self.hold(self.calls[-1].rpartition(" ")[2])
            self._sync()
            self._compare(name)
            if name.endswith("the reply is lost"):
                raise errors.ReplyLost(name)
            await self.until_the_next_write()
        return answer

    def _kill(self) -> None:
        self._is_killed = True
        raise Killed(self._take())

    def _step(self) -> Step:
        return self.world.planner.plans[self.state.plan].steps[self.state.at] if self.state.plan != NOTHING else ()

    def _writes_nothing(self) -> bool:
        """Whether the next step stores a status that says nothing new."""
        is_store = bool(self._left) and self._left[0] == f"the operator {STORE}"
        return is_store and self._step()[:2] == (STORE, self.state.status)

    def _is_step(self, call: str, step: Step) -> bool:
        jobs = str(self.bound.api.resource)
        match step[0]:
            case verb if verb == STORE:
                return call == f"patch {jobs} {JOB}/status"
            case verb if verb in {MAKE_POD, MAKE_SERVICE}:
                return call == f"create {'pods' if verb == MAKE_POD else 'services'} {step[3]}"
            case verb if verb == DELETE_POD:
                return call == f"delete pods {step[1].partition('#')[0]}"
            case verb if verb == DELETE_SERVICES:
                return call.startswith("delete") and " services" in call
        return step[0] == DELETE_JOB and call == f"delete {jobs} {JOB}"

    # --- Everything else

    def _take(self) -> str:
        """The next move, as the search has it."""
        name = self._left.popleft()
        move = self._move(name)
        self.state = State._make(move.state)
        self.sentences += move.breaks
        print(f"  {name}", *move.breaks, sep="\n    ")  # noqa: T201
        return name

    def _move(self, name: str) -> Move:
        for move in self.world.moves(tuple(self.state)):
            if move.name == name:
                return move
        raise Impossible(f"{name}: it does not come to that")

    async def _happens(self) -> None:
        old, name = self.state, self._take()
        if old.lagging != self.state.lagging:
            self.operator.lacks -= {PODS}
            self.operator.sync()
        if self.state.leftovers or old.leftovers:
            raise Difference(f"{name}: what is left of a job before cannot be replayed")
        if name == "a write of its earlier life arrives" and self._late:
            self.server.handle(self._late)
        elif name in {"time passes", "the time to try again comes"}:
            await self.clock.advance(await self.operator.reconcile(self.key) or 0.0)
        elif old.spec != self.state.spec:
            self.edit({"spec": self.bound.wording.edit(self.state.spec)}, generation=self.state.spec[3])
        else:
            self.change_pods(old.pods, self.state.pods)
        if not self.bound.is_timed and not self.state.rejected:
            await self.clock.advance(1)  # what comes after it is younger
        self._sync()
        self._compare(name)

    def _sync(self) -> None:
        lagging = {PODS} if self.state.lagging else set()
        self.operator.lacks = frozenset(lagging | ({self.bound.api.resource} if self.state.cached else set()))
        self.operator.sync()

    def _compare(self, name: str) -> None:
        """That what is stored is what the search says."""
        if self.state.is_deleted:
            return
        status = self.bound.wording.status(self.job.get("status", {}))
        expected = self.world.planner.told[self.state.status]
        if _gist(status) != _gist(expected):
            raise Difference(f"{name}: the status is {_gist(status)}, and in the search it is {_gist(expected)}")
        here = {(key_of(body).name, "deletionTimestamp" in body["metadata"]) for body in self.of(PODS)}
        there = {(pod.name, pod.is_terminating) for pod in map(PodState._make, self.state.pods)}
        if here != there:
            raise Difference(f"{name}: the pods are {sorted(here)}, and in the search they are {sorted(there)}")


def _gist(status: Body) -> Json:
    """What the oracle looks at, without moments."""
    conditions = [
        [entry.get(field) for field in ("type", "status", "reason")] for entry in status.get("conditions", ())
    ]
    counts = {name: status[name] for name in ("restarts", "disruptions", "replicaStatuses") if status.get(name)}
    return {"conditions": conditions, **without_usage(counts)}


@contextmanager
def _plane(*, is_real: bool) -> Iterator[ControlPlane | None]:
    if not is_real:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="replay-") as folder, ControlPlane.up(Path(folder) / "plane") as plane:
        yield plane


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m proof.replay", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", type=Path, metavar="FILE", help="written by the search")
    parser.add_argument("--real", action="store_true", help="on a real etcd and kube-apiserver")
    options = parser.parse_args(arguments)
    with _plane(is_real=options.real) as plane:
        try:
            sentences = asyncio.run(Replay(read(options.file), plane).run())
        except Impossible as difference:
            print(f"holds: {difference}")  # noqa: T201
            return 0
        except Difference as difference:
            print(f"differs: {difference}")  # noqa: T201
            return 2
    print(*(f"breaks: {sentence}" for sentence in sentences) if sentences else ("holds",), sep="\n")  # noqa: T201
    return 1 if sentences else 0


if __name__ == "__main__":
    sys.exit(main())
