"""Explanations of jobs: each situation of explanations.yaml, in the words that a user reads."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from support.jobs.builders import merge
from tf_operator.client import events, job, pods
from tf_operator.client.explanation import checks
from tf_operator.client.explanation.situation import Situation
from tf_operator.dialects import registry

SITUATIONS = yaml.safe_load(Path(__file__).with_name("explanations.yaml").read_text(encoding="utf-8"))
NOW = datetime(2026, 1, 1, 10, 0, tzinfo=UTC)
CREATED = "2026-01-01T09:50:00Z"
OWNER = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": "j", "uid": "u", "controller": True}
LABELS = {"training.kubeflow.org/operator-name": "tfjob-controller"}
TEMPLATE = {"template": {"spec": {"containers": [{"name": "tensorflow", "image": "i"}]}}}


def situation(case):
    """The objects of a case, with what it leaves out: a chief and two workers, ten minutes old."""
    metadata = {"name": "j", "namespace": "default", "uid": "u", "creationTimestamp": CREATED}
    types = case.get("replicas", {"Chief": 1, "Worker": 2})
    specs = {kind: {"replicas": count, **TEMPLATE} for kind, count in types.items()}
    body = {"metadata": metadata, "spec": {"tfReplicaSpecs": specs}}
    training_job = job.read_job(merge(body, case.get("job", {})), registry.DEFAULT)
    bodies = [
        merge({"metadata": {"name": f"j-{replica}", "labels": LABELS, "ownerReferences": [OWNER], "uid": replica}}, pod)
        for replica, pod in case.get("pods", {}).items()
    ]
    reported = [
        {"involvedObject": {"kind": "Pod", "name": name}, "type": "Warning", "reason": reason, "message": message}
        for name, reason, message in case.get("events", [])
    ]
    job_pods = pods.read_pods(training_job, bodies, registry.DEFAULT)
    return Situation(
        training_job,
        job_pods,
        tuple(events.read_events(reported)),
        NOW,
        are_pods_known=case.get("are_pods_known", True),
        room=tuple(case.get("room", ())),
    )


@pytest.mark.parametrize("case", SITUATIONS.values(), ids=SITUATIONS.keys())
def test_a_job_is_explained(case):
    assert f"{checks.explain(situation(case))}\n" == case["text"]
