"""When the containers of a pod were started, and what follows for one that was told to start them all again."""

import msgspec
import pytest

from support.jobs import builders
from tf_operator.dialects.kubeflow import v1
from tf_operator.meta import parse_time
from tf_operator.planning.bodies import resize_sidecar
from tf_operator.planning.pods import pod_state
from tf_operator.projections.pods import pod_reader

READ = pod_reader((v1.API,))
JOB = builders.tfjob("j").in_namespace("ns").workers(2).merged({"metadata": {"uid": "u"}}).body()
IN_PLACE = {resize_sidecar.SIZES_ANNOTATION: "attempt=2"}
NEVER = "1970-01-01T00:00:00Z"
"""What containerd says of a program that could not be started."""
ALL_RESTART = [{"type": "AllContainersRestarting", "status": "True"}]


def moment(second):
    return f"2026-01-01T00:00:0{second}Z"


def began(second, **end):
    return {"terminated" if end else "running": {"startedAt": moment(second), **end}}


def could_not_start(second):
    ended = {"exitCode": 128, "reason": "StartError", "startedAt": NEVER, "finishedAt": moment(second)}
    return {"terminated": ended}


def read(sidecar, main, *, annotations=IN_PLACE, **status):
    body = builders.child_pod(JOB, "Worker", 1).body()
    body["metadata"] |= {"annotations": annotations, "uid": "p", "namespace": "ns", "name": "j-worker-1"}
    body["status"] = {
        "phase": "Running",
        "containerStatuses": [{"name": "tensorflow", "state": main}],
        "initContainerStatuses": [
            {"name": "init", "restartCount": 1, "state": began(9)},
            {"name": resize_sidecar.SIDECAR, "restartCount": 1, "state": sidecar},
        ],
    } | status
    return READ(msgspec.json.encode(body)).pod


@pytest.mark.parametrize(
    ("sidecar", "main", "is_deaf"),
    [
        (began(1), began(0), True),
        (began(0), began(0), False),
        (began(0), began(1), False),
        ({"running": {}}, began(0), False),
        (began(1, exitCode=resize_sidecar.EXIT_CODE), began(0), False),
        (began(1), {"waiting": {"reason": "PodInitializing"}}, False),
        (began(1), began(0, exitCode=1), True),
        (began(1, exitCode=0), began(0, exitCode=1), True),
        (began(1), began(0, exitCode=137, reason="RestartingAllContainers"), False),
        (began(1), could_not_start(2), False),
        (began(1), could_not_start(0), True),
    ],
    ids=[
        *("alone", "at once", "first", "no time", "ends", "program follows", "alone, and the program has failed"),
        *("the same, and the pod is over", "both", "the program could not", "before, the program could not"),
    ],
)
def test_a_pod_is_deaf_if_its_sidecar_was_started_after_its_program(sidecar, main, is_deaf):
    assert not read(sidecar, main, annotations={}).is_deaf, "it has no sidecar of ours"

    assert read(sidecar, main).is_deaf is is_deaf


def test_no_pod_is_deaf_while_its_kubelet_starts_all_containers_again():
    assert not read(began(1), began(0, exitCode=137), conditions=ALL_RESTART).is_deaf


@pytest.mark.parametrize(("phase", "times"), [("Running", 2), ("Failed", 1)])
def test_a_kubelet_starts_nothing_again_in_a_pod_that_is_over(phase, times):
    sidecar = began(0, exitCode=resize_sidecar.EXIT_CODE)

    assert read(sidecar, began(0, exitCode=1), phase=phase).restarts_together == times


def test_a_program_that_could_not_be_started_ended_as_it_began():
    pod = read(began(0), could_not_start(2), phase="Failed")

    assert pod.main.started_at == pod.main.finished_at == parse_time(moment(2))
    assert not pod_state.is_disrupted(pod), "its node has not rejected it"
