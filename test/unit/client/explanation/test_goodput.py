"""Goodput: what restarts have cost of a job's running time, as the status of any operator says it."""

from datetime import UTC, datetime

import pytest

from tf_operator.client.explanation import goodput
from tf_operator.client.job import read_job
from tf_operator.dialects import registry

NOW = datetime(2026, 1, 1, 16, 0, tzinfo=UTC)
START, END = "2026-01-01T09:00:00Z", "2026-01-01T15:00:00Z"
USED = {"usage": {"cpuSeconds": 7}}
ENDED = {"startTime": START, "completionTime": END, "conditions": [{"type": "Succeeded", "status": "True"}]}
RUNS = {"startTime": START, "conditions": [{"type": "Running", "status": "True"}]}
FAILED_TWICE = {"replicaStatuses": {"Worker": {"restarts": 2}}}
BEFORE, DURING = (
    {"restartRecords": [{"replica": "Worker-0", "uid": "u", "replaced": True, "time": f"2026-01-01T{time}:00Z"}]}
    for time in ("08:00", "10:00")
)


@pytest.mark.parametrize(
    ("status", "cell", "sentence"),
    [
        (
            ENDED | USED | FAILED_TWICE | DURING | {"lostSeconds": 2376, "disruptions": 1},
            "89 %",
            "11 % of 6h was lost to 3 restarts",
        ),
        (RUNS | {"lostSeconds": 2520, "disruptions": 1}, "90 %", "10 % of 7h was lost to 1 restart"),
        (RUNS | {"lostSeconds": 25200}, "0 %", "100 % of 7h was lost to changes of its size"),
        (ENDED | USED | {"lostSeconds": 2, "disruptions": 1}, "99 %", "less than 1 % of 6h was lost to 1 restart"),
        (ENDED | USED, "100 %", ""),
        (ENDED, "", ""),
        (RUNS, "", ""),
        ({"conditions": [{"type": "Created", "status": "True"}], "lostSeconds": 60}, "", ""),
        (RUNS | {"startTime": "2026-01-01T16:00:00Z", "lostSeconds": 60}, "", ""),
        (RUNS | {"startTime": "2026-01-01T16:01:00Z"} | USED, "", ""),
        (RUNS | {"lostSeconds": 25201}, "", ""),
        (RUNS | BEFORE | {"lostSeconds": 2520}, "", ""),
    ],
    ids=[
        "of a job that has ended",
        "of one that runs so far",
        "resized only",
        "next to nothing",
        "nothing",
        "ended under an operator that counts nothing",
        "nothing yet",
        "not started",
        "started just now",
        "by a clock that is late",
        "more than since it was resumed",
        "before it was resumed",
    ],
)
def test_goodput_is_shown_where_it_is_known(status, cell, sentence):
    spec = {"tfReplicaSpecs": {"Worker": {"replicas": 2, "template": {"spec": {"containers": []}}}}}
    job = read_job({"metadata": {"name": "j"}, "spec": spec, "status": status}, registry.DEFAULT)
    assert (goodput.cell(job, NOW), goodput.sentence(job, NOW)) == (cell, sentence)
