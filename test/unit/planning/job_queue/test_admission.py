"""What a job is told that waits in the queue."""

from datetime import UTC, datetime

import pytest

from support.jobs.builders import tfjob
from tf_operator.dialects.kubeflow.v1 import API
from tf_operator.planning.job_queue import admission
from tf_operator.planning.snapshot import Settings, Snapshot


@pytest.mark.parametrize(("rules", "is_beyond"), [(1000, False), (1001, True)])
def test_a_job_with_more_rules_about_nodes_than_are_compared_is_told_so(rules, is_beyond):
    body = tfjob("j").in_namespace("team").workers(1).body()
    tolerations = [{"key": f"{number}", "operator": "Exists"} for number in range(rules)]
    body["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]["tolerations"] = tolerations
    now = datetime(2026, 3, 1, 8, tzinfo=UTC)
    hold = admission.hold(Snapshot(API.read_object(body), now, settings=Settings(has_job_queue=True)))

    assert ("1001 rules about nodes" if is_beyond else "until its pod fits into") in hold.message
    assert hold.reason == "NoRoom"
