"""The search of the queues finds defects by itself: each is put back, and no test but the search runs."""

from functools import cache
from operator import attrgetter
from pathlib import Path

import pytest

import mutants

DEFECTS = tuple(mutants.read([Path(__file__).with_name("defects_of_queues.yaml")]))


@pytest.fixture(scope="module")
def tree():
    with pytest.MonkeyPatch.context() as patch, mutants.copies_of(mutants.ROOT, 1) as copies:
        patch.setenv("PROOF", "planted")
        yield copies[0]


@cache
def status_of(tree, search):
    """What pytest exits with, without a defect."""
    return mutants.run_tests(tree, [search], "--timeout=0")[0]


@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.parametrize("defect", DEFECTS, ids=attrgetter("name"))
def test_the_search_finds_a_planted_defect_of_a_queue(defect, tree):
    assert status_of(tree, defect.test) == 0, "without a defect it finds nothing; else it would prove nothing"

    with mutants.changed_file(tree, defect):
        status, output = mutants.run_tests(tree, [defect.test], "--timeout=0")

    assert status == 1, output
