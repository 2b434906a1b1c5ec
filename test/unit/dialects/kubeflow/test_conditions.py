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
        (["Created", "Queued", "Failed"], "Created !Queued Failed"),
    ],
    ids=" ".join,
)
def test_running_and_restarting_replace_each_other_and_an_end_ends_both(kinds, expected):
    """training-operator: TestUpdateJobConditions."""
    conditions = ()
    for kind in kinds:
        conditions = after(conditions, ConditionType(kind))

    assert summary(conditions) == expected


def test_a_new_message_changes_only_the_time_of_the_update_and_the_same_one_nothing():
    conditions = after(after((), ConditionType.CREATED), ConditionType.RUNNING)

    assert after(conditions, ConditionType.CREATED, now=LATER) is conditions
    told = after(conditions, ConditionType.CREATED, message="other", now=LATER)
    assert summary(told) == "Created Running"
    assert told[1] == conditions[1]
    assert (told[0].message, told[0].last_update, told[0].last_transition) == ("other", LATER, NOON)


def test_what_an_end_ends_is_false_since_then():
    conditions = after(after((), ConditionType.CREATED), ConditionType.RUNNING)

    created, running, _ = after(conditions, ConditionType.FAILED, now=LATER)
    assert (created.last_update, running.last_update, running.last_transition) == (NOON, LATER, LATER)


def test_a_new_reason_moves_the_condition_to_the_end_and_is_no_transition():
    conditions = after(after((), ConditionType.CREATED), ConditionType.RUNNING)

    told = after(conditions, ConditionType.CREATED, reason="Other", now=LATER)

    assert summary(told) == "Running Created"
    assert told[1].last_transition == NOON
