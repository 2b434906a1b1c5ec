"""The jobs that come and go while pictures are made."""

import itertools

import pytest

from demonstration import traffic
from tf_operator.dialects.kubeflow import v1
from tf_operator.job import validation

SOME = list(itertools.islice(traffic.arrivals(), 120))


@pytest.mark.parametrize("body", [*(arrival.body for arrival in SOME[:40]), traffic.long_job("mnist", 60)])
def test_the_operator_has_nothing_to_say_against_a_job(body):
    stored = {**body, "metadata": {**body["metadata"], "namespace": "vision", "uid": "1", "resourceVersion": "1"}}

    assert validation.validate(v1.API.read_object(stored)) == ()
