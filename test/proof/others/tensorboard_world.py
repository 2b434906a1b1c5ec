"""One TensorBoard, its Deployment and its Service: the plan and the status are real, and so is their order.

The server, the caches (which do not lag) and the people are a model. The sentences are those of docs/t9k.md and
docs/behaviour.md, TensorBoards.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from proof.engine import Move
from proof.engine import State as Packed
from support.resources import Json
from tf_operator.dialects.tensorboard import v1beta1
from tf_operator.meta import OwnerRef
from tf_operator.planning import tensorboards
from tf_operator.planning.actions import Action, Create, Delete, Patch
from tf_operator.planning.child_kinds.kind import DIGEST
from tf_operator.planning.tensorboards import Observed, TensorBoardChild, TensorBoardPlan

_OWNER: Final = OwnerRef("tensorstack.dev/v1beta1", "TensorBoard", "t", "u", controller=True, block_owner_deletion=True)
_INVALID: Final = "logs in s3"
_SPECS: Final[dict[str, Json]] = {
    "a": {"image": "a"},
    "b": {"image": "b"},
    "suspended": {"image": "a", "suspend": True},
    _INVALID: {"image": "a", "logDir": {"s3": [{}]}},
    "none": {},
}
"""What people ask for; ``none`` is a job that asks for nothing any more."""
_TAKEN: Final = "its name is taken by one that belongs to somebody else"
KINDS: Final = ("Deployment", "Service")


class Child(NamedTuple):
    """An object on the server that has the name."""

    uid: int
    is_ours: bool = True
    digest: str = ""
    image: str = ""
    """Of a Deployment: of the pod that is wanted; empty without one."""
    is_available: bool = False


class State(NamedTuple):
    """Everything that what happens next depends on."""

    spec: str
    faults: int
    edits: int
    children: tuple[Any, ...] = ((), ())
    births: int = 0
    status: tuple[str, ...] = ("", "", "")
    plan: tuple[Any, ...] = ()
    """What the plan in flight was made from, how many of its writes are done, and the refusal of the last one."""
    waits: str = ""
    """Why a write was refused: it is tried again after a while."""
    has_ended: bool = False
    is_deleted: bool = False


@dataclass(frozen=True, slots=True)
class TensorBoardBound:
    """How often people, and others, do something."""

    name: str
    faults: int = 2
    edits: int = 1
    is_job: bool = False
    """It is of a job, which may end."""


SIZES: Final = {
    "quick": (TensorBoardBound("an object", faults=1),),
    "gate": (TensorBoardBound("an object"), TensorBoardBound("of a job", is_job=True)),
    "night": (
        TensorBoardBound("an object", faults=3, edits=2),
        TensorBoardBound("of a job", faults=3, edits=2, is_job=True),
    ),
}


class TensorBoardWorld:
    """The world of one bound."""

    def __init__(self, bound: TensorBoardBound) -> None:
        self.bound = bound

    def start(self) -> Packed:
        return tuple(State("a", self.bound.faults, self.bound.edits))

    def resting(self, packed: Packed) -> Iterator[str]:
        """The sentences about a state in which nothing is left to do."""
        state = State._make(packed)
        if any(move.is_fair for move in self.moves(packed)):
            return
        own = [child for child in _children(state) if child and child.is_ours]
        if state.is_deleted:
            yield from ("something is left behind",) if own else ()
            return
        message = state.status[2]
        if state.spec in {_INVALID, "none"}:
            yield from ("children of a TensorBoard that is not to run are left",) if own else ()
            yield from () if message or state.spec == "none" or self.bound.is_job else ("no status says what is wrong",)
            return
        is_whole = len(own) == len(KINDS)
        if not is_whole and not state.waits and not state.has_ended:
            yield "a child is missing, and nobody tries to create it"
        yield from self._on_whole(state, own, is_whole=is_whole)

    def _on_whole(self, state: State, own: list[Child], *, is_whole: bool) -> Iterator[str]:
        """The sentences about one that is to run."""
        image = "" if state.spec == "suspended" else state.spec
        deployments = [
            child for child, kind in zip(_children(state), KINDS, strict=True) if child and _runs(child, kind)
        ]
        # While a write is refused, the pod of an earlier spec may run, and the message says why.
        if not state.waits and any(child.image != image for child in deployments):
            yield "the Deployment does not follow an edit"
        if self.bound.is_job:
            return
        phase, url, message = state.status
        is_running = is_whole and own[0].is_available
        if (phase == "Running") is not is_running or bool(url) is not is_running:
            yield f"the phase is {phase}, which is not so"
        if state.waits and not message:
            yield "a write is refused, and no status says why"

    def moves(self, packed: Packed) -> Iterator[Move]:
        state = State._make(packed)
        if not state.is_deleted or state.plan:
            yield from self._operator(state)
        for number, kind in enumerate(KINDS):
            child = _children(state)[number]
            if child and child.is_ours and state.is_deleted:
                yield _move(f"the {kind} is collected", _with(state, number, None))
            elif child and _runs(child, kind) and child.is_available is not bool(child.image):
                yield _move("the pod changes", _with(state, number, child._replace(is_available=bool(child.image))))
        if state.faults:
            yield from self._faults(state._replace(faults=state.faults - 1))
        if state.edits and not state.is_deleted:
            yield from self._edits(state._replace(edits=state.edits - 1))

    # --- The operator

    def _operator(self, state: State) -> Iterator[Move]:
        if not state.plan:
            plan = tensorboards.plan(self._observed(state))
            is_free = all(child is None or child.is_ours for child in _children(state))
            if state.waits or plan.actions or self._status(plan, state) != state.status:
                planned = state._replace(plan=((state.spec, state.children, state.has_ended), 0, ""), waits="")
                yield _move("the operator plans", planned, is_fair=is_free or state.waits != _TAKEN)
        else:
            yield from self._carry_out(state)

    def _carry_out(self, state: State) -> Iterator[Move]:
        """The next step of the plan in flight, in the order of the reconciler."""
        origin, done, refusal = state.plan
        observed = self._observed(state._replace(spec=origin[0], children=origin[1], has_ended=origin[2]))
        actions = tensorboards.plan(observed).actions
        plan = tensorboards.plan(replace(observed, rejected=refusal))
        # An edit that came meanwhile has it planned again at once.
        is_current = origin[0::2] == (state.spec, state.has_ended)
        over = state._replace(plan=(), waits=refusal if is_current else "")
        if refusal or done == len(actions):
            reported = (
                over if state.is_deleted or self.bound.is_job else over._replace(status=self._status(plan, state))
            )
            yield _move("it reports", reported)
            if state.faults:
                killed = state._replace(plan=(), faults=state.faults - 1)
                yield _move("it is killed before it reports", killed, False)
            return
        after, answer, breaks = self._acted(state, actions[done])
        if answer == "outdated":
            yield Move("a write is outdated", tuple(state._replace(plan=())), breaks)
            return
        going_on = after._replace(plan=(origin, done + 1, answer))
        yield Move(f"it {_deed(actions[done])}", tuple(going_on), breaks)
        if state.faults:
            fewer = state._replace(faults=state.faults - 1)
            killed = after._replace(plan=(), faults=fewer.faults)
            yield _move(f"it is killed after it {_deed(actions[done])}", killed, False)
            yield _move(
                f"it {_deed(actions[done])}, and is refused", fewer._replace(plan=(origin, done, "quota")), False
            )

    def _observed(self, state: State) -> Observed:
        board = None if state.spec == "none" else v1beta1.read("t", _SPECS[state.spec])
        deployments, services = (
            (TensorBoardChild("t", str(child.uid), child.digest, is_available=child.is_available),)
            if child and child.is_ours
            else ()
            for child in _children(state)
        )
        return Observed("ns", _OWNER, board, deployments, services, state.has_ended)

    def _status(self, plan: TensorBoardPlan, state: State) -> tuple[str, ...]:
        if self.bound.is_job:
            return state.status
        stored = dict(zip(("phase", "url", "message"), state.status, strict=True))
        written = v1beta1.status(plan.phase, url=plan.url, message=plan.message, stored_status=stored)
        return tuple(str(written.get(name, "")) for name in ("phase", "url", "message"))

    def _acted(self, state: State, action: Action) -> tuple[State, str, tuple[str, ...]]:
        """The state after a write, why it was refused, and the sentences that it breaks."""
        number = KINDS.index(action.resource.kind)
        child = _children(state)[number]
        match action:
            case Create():
                breaks = ("a TensorBoard of a job that has ended is created",) if state.plan[0][2] else ()
                if child:
                    return state, "" if child.is_ours else _TAKEN, breaks
                born = state._replace(births=state.births + 1)
                return _with(born, number, _written(Child(born.births), action.body())), "", breaks
            case Patch() if child and str(child.uid) == action.uid:
                breaks = () if child.is_ours else ("an object of somebody else is changed",)
                return _with(state, number, _written(child, action.content())), "", breaks
            case Delete() if child and str(child.uid) == action.uid:
                breaks = () if child.is_ours else ("an object of somebody else is deleted",)
                return _with(state, number, None), "", breaks
        return state, "outdated" if isinstance(action, Patch) else "", ()

    # --- Others

    def _faults(self, state: State) -> Iterator[Move]:
        for number, kind in enumerate(KINDS):
            child = _children(state)[number]
            if child:
                yield _move(f"somebody deletes the {kind}", _with(state, number, None), False)
            else:
                foreign = Child(state.births + 1, is_ours=False)
                taken = _with(state._replace(births=state.births + 1), number, foreign)
                yield _move(f"somebody takes the name of the {kind}", taken, False)

    def _edits(self, state: State) -> Iterator[Move]:
        yield _move("somebody deletes it", state._replace(is_deleted=True), False)
        for spec in _SPECS:
            if spec != state.spec and (spec != "none" or self.bound.is_job) and not state.has_ended:
                yield _move(f"somebody asks for {spec}", state._replace(spec=spec, waits=""), False)
        if self.bound.is_job and not state.has_ended:
            yield _move("the job ends", state._replace(has_ended=True), False)


def _move(name: str, state: State, is_fair: bool = True) -> Move:
    return Move(name, tuple(state), is_fair=is_fair)


def _children(state: State) -> list[Child | None]:
    return [Child._make(child) if child else None for child in state.children]


def _with(state: State, number: int, child: Child | None) -> State:
    children = [*state.children]
    children[number] = tuple(child) if child else ()
    return state._replace(children=tuple(children))


def _runs(child: Child | None, kind: str) -> bool:
    return child is not None and child.is_ours and kind == "Deployment"


def _written(child: Child, body: Mapping[str, Any]) -> Child:
    """The child after a write of this body."""
    spec = body["spec"]
    has_pod = "template" in spec and spec["replicas"] > 0
    image = spec["template"]["spec"]["containers"][0]["image"] if has_pod else ""
    return child._replace(digest=body["metadata"]["annotations"][DIGEST], image=image, is_available=False)


def _deed(action: Action) -> str:
    verbs = {Create: "creates", Patch: "changes", Delete: "deletes"}
    return f"{verbs[type(action)]} the {action.resource.kind}"
