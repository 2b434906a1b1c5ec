"""The search finds defects by itself: each of these is put back, and no test but the search runs."""

from dataclasses import replace
from queue import SimpleQueue

import pytest

import mutants

SEARCH = "test/proof/test_search.py"
PLANTED = (
    "a failure is decided before a success that is seen in the same step",
    "the backoff limit is exceeded one failure too early",
    "an evicted pod of the policy ExitCode fails its job",
    "a retryable exit code is final",
    "a pod that a person has deleted is a failure",
    "a failed pod is counted again in each step until it is deleted",
    "a worker that has done its work runs again after its pod is gone",
    "a disruption counts as a restart",
    "restarts in place are counted again in each step",
    "clean-up by the policy Running takes pods that have ended",
    "a pod is deleted before its failure is recorded",
    "a pod is made before its Service",
    "what actions destroy the evidence of is stored after them",
    "A resumed job goes on with pods of before its suspension",
    "a failure that is first seen together with a suspension is not counted",
    "a suspension hides a failure that ends the job",
    "a suspended job fails although its chief has succeeded",
    "a failure from before the suspension has a resumed job begin as Restarting",
    "a pod that ran, and is gone before a status says so, was not lost",
    "A drained program that exits with 0 has completed",
    "an invalid edit ends a job that runs",
    "a number of workers beyond the policy is in force as far as the policy goes",
    "a number that the user has changed since is overruled by the queue",
    "a decision of the job queue that was overruled comes back",
    "a pod that is out of sight counts as deleted",
    "a job ends although its deadline has not been reached",
    "the delay of a replacement does not grow",
    "a quota that refuses a pod fails its job",
    "a replica that does not decide fails the job",
)
"""Names of entries of test/mutants."""


@pytest.fixture(scope="module")
def tree():
    with pytest.MonkeyPatch.context() as patch, mutants.copies_of(mutants.ROOT, 1) as copies:
        patch.setenv("PROOF", "planted")
        yield copies[0]


@pytest.fixture(scope="module")
def is_clean(tree):
    """Without a defect the search finds nothing; else it would prove nothing."""
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
