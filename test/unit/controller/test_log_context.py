"""Records of a pass say which job and which pass, wherever they are written."""

import asyncio

import pytest

from tf_operator.controller import log_context
from tf_operator.machinery import log
from tf_operator.meta import ObjectKey


def bound():
    return dict(log.bound_fields())


@pytest.mark.documents("v1alpha1/logs-by-runtime-id")
async def test_everything_inside_of_a_pass_knows_it_also_tasks_that_were_started_there():
    key = ObjectKey("ns", "mnist")
    with log_context.reconcile_of(key), log_context.replica("Worker-3"):
        log_context.job_found("uid-1")
        log_context.job_read("76no")
        inside = await asyncio.create_task(asyncio.to_thread(bound))

    assert inside.pop("reconcile_id")
    assert inside == {
        "job_namespace": "ns",
        "job_name": "mnist",
        "job_uid": "uid-1",
        "runtime_id": "76no",
        "replica": "Worker-3",
    }
    assert bound() == {}


def test_each_pass_has_an_identifier_of_its_own():
    identifiers = set()
    for _ in range(2):
        with log_context.reconcile_of(ObjectKey("ns", "mnist")):
            identifiers.add(bound()["reconcile_id"])

    assert len(identifiers) == 2
