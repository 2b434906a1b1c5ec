"""The rules of the condition list, step by step."""

from datetime import UTC, datetime, timedelta

import pytest

from tf_operator.dialects.kubeflow.conditions import ConditionType, with_condition

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
LATER = NOON + timedelta(minutes=1)


def after(conditions, kind, *, is_true=True, reason="R", message="m", now=NOON):
    return with_condition(conditions, kind, is_true=is_true, reason=reason, message=message, now=now)


def summary(conditions):
    return " ".join(f"{'' if entry.is_true else '!'}{entry.type}" for entry in conditions)


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        (["Created", "Running"], "Created Running"),
        (["Created", "Running", "Restarting"], "Created Restarting"),
        (["Created", "Running", "Restarting", "Running"], "Created Running"),
        (["Created", "Running", "Failed"], "Created !Running Failed"),
        (["Created", "Running", "Succeeded"], "Created !Running Succeeded"),
        (["Created", "Restarting", "Failed"], "Created Failed"),
        (["Created", "Suspended", "Running"], "Created Suspended Running"),
    ],
    ids=" ".join,
)
def test_running_and_restarting_replace_each_other_and_an_end_ends_both(kinds, expected):
    """training-operator: TestUpdateJobConditions."""
    conditions = ()
    for kind in kinds:
        conditions = after(conditions, ConditionType(kind))

    assert summary(conditions) == expected


def test_a_new_reason_moves_the_condition_to_the_end_and_is_no_transition():
    conditions = after(after((), ConditionType.CREATED), ConditionType.RUNNING)

    told = after(conditions, ConditionType.CREATED, reason="Other", now=LATER)

    assert summary(told) == "Running Created"
    assert told[1].last_transition == NOON
