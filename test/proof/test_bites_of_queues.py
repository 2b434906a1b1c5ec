"""The search of the queues finds defects by itself: each of these is put back, and no test but the search runs."""

from dataclasses import replace
from queue import SimpleQueue

import pytest

import mutants
from mutants import Mutant

FILE = "test/proof/test_search_of_queues.py"
OF_THE_QUEUE = f"{FILE}::test_no_state_of_the_job_queue_breaks_a_sentence"
OF_KUEUE = f"{FILE}::test_no_state_of_a_job_in_a_queue_of_kueue_breaks_a_sentence"
QUEUE, JOBS = "tf_operator/controller/job_queue/planner.py", "tf_operator/controller/job_queue/queue_jobs.py"
LISTED = {
    "a decision is written whatever the job has become": f"{OF_THE_QUEUE}[jobs of two priorities]",
    "the queue knows no priority": f"{OF_THE_QUEUE}[jobs of two priorities]",
    "the room of pods that are not bound yet is given away": f"{OF_THE_QUEUE}[jobs of two priorities]",
    "a job is resized twice within five minutes": f"{OF_THE_QUEUE}[an elastic job gives way]",
    "small jobs pass a large one for as long as they come": (
        f"{OF_THE_QUEUE}[a large job among small ones that come again and again]"
    ),
    "a job runs before its Workload is admitted": f"{OF_KUEUE}[a worker is evicted twice]",
    "quota is given back while pods of an evicted job are there": f"{OF_KUEUE}[a worker is evicted twice]",
    "who asks for more than was admitted gets it": f"{OF_KUEUE}[a job is edited]",
    "a job whose label is taken away leaves its queue": f"{OF_KUEUE}[a job changes its queue]",
}
"""Names of entries of test/mutants, and the search that finds each."""
OWN = (
    Mutant(
        "a job whose replicas have no pods stops the queue",
        JOBS,
        "if not specs or shapes.rules_of(",
        "if shapes.rules_of(",
        f"{OF_THE_QUEUE}[a job without pods and one that cannot fit]",
    ),
    Mutant(
        "the queue decides again before its caches show what it has decided",
        QUEUE,
        "return not (self._written or self.nodes",
        "return not (self.nodes",
        f"{OF_THE_QUEUE}[an elastic job gives way]",
    ),
    Mutant(
        "a job that is queued again before it has started is forgotten",
        QUEUE,
        "or old_state != new_state or is_queued_again",
        "or old_state != new_state",
        f"{OF_THE_QUEUE}[jobs are edited]",
    ),
)
"""Those that no other test has to find."""


@pytest.fixture(scope="module")
def tree():
    with pytest.MonkeyPatch.context() as patch, mutants.copies_of(mutants.ROOT, 1) as copies:
        patch.setenv("PROOF", "planted")
        yield copies[0]


@pytest.fixture(scope="module")
def is_clean(tree):
    """Without a defect the search finds nothing; else it would prove nothing."""
    return mutants.run_tests(tree, [FILE])[0] == 0


@pytest.fixture(scope="module")
def listed():
    return {entry.name: entry for entry in mutants.read(sorted((mutants.ROOT / "test/mutants").glob("*.yaml")))}


@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", [*LISTED, *(mutant.name for mutant in OWN)])
def test_the_search_finds_a_planted_defect(name, tree, listed, is_clean):
    assert is_clean
    own = {mutant.name: mutant for mutant in OWN}
    mutant = own[name] if name in own else replace(listed[name], test=LISTED[name])
    free: SimpleQueue = SimpleQueue()
    free.put(tree)

    assert mutants.judge(mutant, copies=free, failing=frozenset()) == mutants.CAUGHT
