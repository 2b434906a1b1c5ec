"""In which order a plan is carried out."""

import pytest

from tf_operator.controller.writing.steps import Act, DeleteJob, ResumeJob, StoreStatus, after_failure, steps
from tf_operator.planning.actions import Create, Delete, Plan, Stage
from tf_operator.planning.bodies.children import PODS

POD = Create(PODS, "p", "pod p", dict, Stage.PODS)
EXTRA = Create(PODS, "x", "the extra", dict, Stage.EXTRAS)
GONE = Delete(PODS, "old", "u")
STAGES = Act((
    (Stage.DELETES, (GONE,)),
    (Stage.PODS, (POD,)),
    (Stage.EXTRAS, (EXTRA,)),
))  # fmt: skip


@pytest.mark.parametrize(
    ("status_first", "expected"),
    [(True, (StoreStatus(), STAGES)), (False, (STAGES, StoreStatus(is_progress=True)))],
)
def test_the_status_comes_first_or_last_and_the_stages_follow_one_another(status_first, expected):
    assert steps(Plan(status_first=status_first, actions=(EXTRA, POD, GONE))) == expected


@pytest.mark.parametrize(
    ("plan", "expected"),
    [(Plan(deletes_job=True), DeleteJob()), (Plan(resumes_job=True, actions=(POD,)), ResumeJob())],
)
def test_a_job_that_is_deleted_or_resumed_is_left_for_the_next_plan(plan, expected):
    assert steps(plan) == (expected,)


def test_when_an_action_fails_only_progress_is_still_stored():
    progress = StoreStatus(is_progress=True)

    assert after_failure((StoreStatus(), STAGES, progress)) == (progress,)
