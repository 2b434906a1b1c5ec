"""The status goes to JSON and comes back; a patch holds what differs, and nothing of what others have written."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.builders import merge
from tf_operator.api.ranges import Indexes
from tf_operator.api.status import (
    NO_STATUS,
    Account,
    Condition,
    FirstFailure,
    JobStatus,
    ReplicaStatus,
    ReplicaType,
)
from tf_operator.dialects import kubeflow_status

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
TIMES = st.none() | st.integers(0, 10**6).map(lambda seconds: NOON + timedelta(seconds=seconds))
TEXTS = st.text("abc", max_size=3)
SOME = st.integers(1, 5)
COUNTS = st.integers(0, 5)
SETS = st.frozensets(st.integers(0, 9)).map(Indexes)
KINDS = st.sampled_from(list(ReplicaType))
CONDITIONS = st.builds(Condition, TEXTS, st.booleans(), TEXTS, TEXTS, TIMES, TIMES)
REPLICAS = st.builds(ReplicaStatus, COUNTS, COUNTS, COUNTS, COUNTS, COUNTS, SETS, SETS, TEXTS)
ACCOUNTS = st.builds(Account, KINDS, COUNTS, TEXTS, COUNTS, st.booleans(), COUNTS, TIMES)
FAILURES = st.none() | st.builds(FirstFailure, st.just("pod"), TEXTS, st.none() | COUNTS, TEXTS, TEXTS, TIMES)
STATUSES = st.builds(
    JobStatus,
    conditions=st.lists(CONDITIONS, max_size=3).map(tuple),
    replicas=st.dictionaries(KINDS, REPLICAS),
    start_time=TIMES,
    completion_time=TIMES,
    all_running_time=TIMES,
    ready=TEXTS,
    restarts=COUNTS,
    disruptions=COUNTS,
    first_failure=FAILURES,
    accounts=st.lists(ACCOUNTS, max_size=3).map(tuple),
    observed_generation=COUNTS,
)


@settings(max_examples=40)
@given(STATUSES, STATUSES)
def test_a_patch_leads_from_any_status_to_any_other_and_leaves_what_others_have_written(old, new):
    stored = merge({"theirs": {"x": 1}}, kubeflow_status.patch(NO_STATUS, old))
    stored = merge(stored, {"replicaStatuses": {"Other": {"y": 2}}})

    after = merge(stored, kubeflow_status.patch(kubeflow_status.read(stored), new))

    assert kubeflow_status.read(after) == new
    assert after["theirs"] == {"x": 1}
    assert after["replicaStatuses"]["Other"] == {"y": 2}


@settings(max_examples=20)
@given(STATUSES)
def test_a_status_that_says_the_same_needs_no_patch(status):
    assert kubeflow_status.patch(status, replace(status)) == {}


def test_fractions_of_a_second_are_no_difference():
    status = JobStatus(start_time=NOON)

    assert kubeflow_status.patch(status, replace(status, start_time=NOON + timedelta(microseconds=7))) == {}


@pytest.mark.parametrize(
    "found", [None, 7, [], "x", {"conditions": 1, "replicaStatuses": {"Worker": 3}, "restarts": -1}]
)
def test_what_is_no_status_is_an_empty_one(found):
    assert kubeflow_status.read(found) == NO_STATUS


@pytest.mark.parametrize("replica", ["Worker", "worker-1", "Worker-x", "Worker-1,2", "", 5], ids=repr)
def test_an_account_of_no_replica_is_passed_over(replica):
    found = kubeflow_status.read({"replicaAccounts": [{"replica": replica}, {"replica": "PS-0", "uid": "u"}]})

    assert found.accounts == (Account(ReplicaType.PS, 0, "u"),)


def test_an_exit_code_of_0_is_written():
    """A failure can have it: the kubelet may have ended the pod after its program had."""
    status = JobStatus(first_failure=FirstFailure("pod", exit_code=0))

    assert kubeflow_status.patch(NO_STATUS, status) == {"firstFailure": {"pod": "pod", "exitCode": 0}}


def test_an_exit_code_that_is_no_number_is_none():
    found = kubeflow_status.read({"firstFailure": {"pod": "p", "exitCode": "1"}}).first_failure

    assert found == FirstFailure("p")
