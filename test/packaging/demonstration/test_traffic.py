"""The jobs that come and go while pictures are made: all of them valid, of every fate, and the same each time."""

import itertools

import pytest

from demonstration import traffic
from tf_operator.dialects.kubeflow import v1
from tf_operator.job import validation

SOME = list(itertools.islice(traffic.arrivals(), 120))


def test_the_same_jobs_come_each_time_and_no_two_have_the_same_name():
    assert list(itertools.islice(traffic.arrivals(), 120)) == SOME
    assert len({arrival.body["metadata"]["name"] for arrival in SOME}) == len(SOME)


def test_every_namespace_gets_jobs_and_every_fate_befalls_some():
    policies = [arrival.body["spec"]["runPolicy"] for arrival in SOME]
    codes = [str(arrival.body).count("demo/exit-code") for arrival in SOME]

    assert {arrival.namespace for arrival in SOME} == traffic.HABITS.keys()
    for field in ("suspend", "backoffLimit", "activeDeadlineSeconds"):
        assert any(field in policy for policy in policies), field
    assert 0 < sum(code > 0 for code in codes) < len(SOME) / 2


@pytest.mark.parametrize("body", [*(arrival.body for arrival in SOME[:40]), traffic.long_job("mnist", 60)])
def test_the_operator_has_nothing_to_say_against_a_job(body):
    stored = {**body, "metadata": {**body["metadata"], "namespace": "vision", "uid": "1", "resourceVersion": "1"}}

    assert validation.validate(v1.API.read_object(stored)) == ()
