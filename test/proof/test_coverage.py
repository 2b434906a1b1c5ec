"""No sentence of the oracle is idle, and no move of the world: each applies, and happens, to some job."""

import ast
import inspect

import pytest

from proof import bounds, engine, oracle
from proof.bounds import AGAIN
from proof.policies import service_oracle, whole_job_oracle
from proof.world import JobWorld

TELLING = (
    "a node is avoided after one failure",
    "T9k, paused and resumed",
    "time passes, all start again",
    "time passes while the job is suspended and resumed",
    "time passes, ExitCode",
    "the job is made again",
    "caches lag while the job is suspended and resumed",
    "an invalid edit",
    "one Service, asked for with the suspension",
    "one Service, ExitCode",
    "all start again, suspended and resumed",
    "v1alpha1",
    "pods lose their labels",
)
"""The jobs to which all that applies, which ``make proof`` searches whole with all others."""
NEAREST, ALL = 2500, 10_000
"""So many states of each job are enough for this, and all of one whose pods lose their labels."""
SENTENCES = ("on_status", "on_expiry", "on_create", "on_delete", "on_delete_services", "on_rest")
MOVES = (
    "runs",
    "exits with 0",
    "has its label back",
    "is gone",
    "of the old job is gone",
    "the operator plans",
    "stores the status",
    "creates the Service",
    "creates the pod",
    "deletes the pod",
    "deletes Services",
    "deletes the job",
    "and meets a conflict",
    "whose name is taken",
    "sees the change, and stops",
    "a write of its earlier life arrives",
    "while the old one",
    "the cache catches up",
    "the operator forgets the refusal",
    "the time to try again comes",
    "time passes",
    f"somebody {AGAIN} while the operator",
)


class Noted(ast.NodeTransformer):
    """Has each sentence noted where it applies: when all is true but what must not be, the last that ``and`` joins."""

    def __init__(self):
        self.sentences = set()

    def visit_If(self, node):
        self.generic_visit(node)
        first = node.body[0]
        if not (isinstance(first, ast.Expr) and isinstance(first.value, ast.Yield)):
            return node
        sentence = first.value.value
        if isinstance(sentence, ast.Constant | ast.JoinedStr):
            self.sentences.add(ast.unparse(sentence))
            is_joined = isinstance(node.test, ast.BoolOp) and isinstance(node.test.op, ast.And)
            *when, never = node.test.values if is_joined else [node.test]
            note = ast.Call(ast.Name("note", ast.Load()), [ast.Constant(ast.unparse(sentence))], [])
            node.test = ast.BoolOp(ast.And(), [*when, note, never])
        return node


@pytest.fixture(scope="module")
def search():
    """The sentences of the oracle, those that applied, and the moves that happened; none was broken on the way."""
    noted, applied, moves = Noted(), set(), set()
    with pytest.MonkeyPatch.context() as patch:
        for module in (oracle, whole_job_oracle, service_oracle):
            tree = ast.fix_missing_locations(noted.visit(ast.parse(inspect.getsource(module))))
            namespace = {"__name__": module.__name__, "note": lambda sentence: applied.add(sentence) is None}
            exec(compile(tree, module.__file__, "exec"), namespace)
            for name in SENTENCES:
                if name in namespace:
                    patch.setattr(module, name, namespace[name])
        for bound in map(bounds.FEW.__getitem__, TELLING):
            most = ALL if "loses its label" in bound.may else NEAREST
            outcome = engine.search(JobWorld(bound), most=most)
            assert not outcome.breaks, (bound.name, outcome.breaks)
            moves |= outcome.moves
    return noted.sentences, applied, moves


def test_each_sentence_applies_somewhere(search):
    sentences, applied, _ = search

    assert len(sentences) > 50
    assert not sentences - applied


def test_every_move_of_the_world_happens_somewhere(search):
    moves = search[2]

    assert not [text for text in MOVES if not any(text in move for move in moves)]
