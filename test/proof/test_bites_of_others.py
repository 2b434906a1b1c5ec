"""The searches of test_search_of_others find defects by themselves: each is put back, and no other test runs."""

from dataclasses import replace
from queue import SimpleQueue

import pytest

import mutants

SEARCH = "test/proof/test_search_of_others.py::test_no_state_breaks_a_sentence"
PLANTED = (
    "a candidate takes a Lease that is held",
    "the fence counts from the reply instead of from the request",
    "a Lease that was deleted counts from when it was last seen, although others may have held it since",
    "what only v1 knows is lost by an edit in an older version",
    "an edit in v1alpha1 removes the evaluator",
    "an annotation that is written in an older version gives a stored job to somebody else",
    "Sidecars are stopped together with the main containers",
    "A pod past its deadline completes by the exit code of what was stopped",
    "A container that ran under an earlier node is taken for one that still runs",
    "An init container that is about to run again is stopped",
    "A TensorBoard of a job that has ended is created again",
    "A TensorBoard does not follow edits",
    "The children of a TensorBoard that became invalid go on",
)
"""Names of entries of test/mutants."""


@pytest.fixture(scope="module")
def tree():
    with pytest.MonkeyPatch.context() as patch, mutants.copies_of(mutants.ROOT, 1) as copies:
        patch.setenv("PROOF", "planted")
        yield copies[0]


@pytest.fixture(scope="module")
def is_clean(tree):
    return mutants.run_tests(tree, [SEARCH])[0] == 0


@pytest.fixture(scope="module")
def defects():
    return {entry.name: entry for entry in mutants.read(sorted((mutants.ROOT / "test/mutants").glob("*.yaml")))}


@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", PLANTED)
def test_the_search_finds_a_planted_defect(name, tree, defects, is_clean):
    assert is_clean
    free: SimpleQueue = SimpleQueue()
    free.put(tree)

    verdict = mutants.judge(replace(defects[name], test=SEARCH), copies=free, failing=frozenset())

    assert verdict == mutants.CAUGHT
