"""What is reported of a run of a container beside its state."""

from types import SimpleNamespace

from tf_operator.local.node.logs.container_log import ContainerLog
from tf_operator.local.node.pod import pod_of
from tf_operator.local.node.run.container_run import ContainerRun

OWNER = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": "j", "uid": "u", "controller": True}
POD = {
    "metadata": {"name": "j-worker-0", "namespace": "ns", "uid": "p", "ownerReferences": [OWNER]},
    "spec": {"containers": [{"name": "main", "image": "i", "command": ["true"]}]},
}


def test_a_job_of_which_output_is_lost_is_told_once_for_each_run(clock, tmp_path):
    events = []
    recorder = SimpleNamespace(event=lambda subject, severity, **words: events.append((subject.kind, severity, words)))
    log = ContainerLog(tmp_path / "logs", 0, clock=clock)
    pod = pod_of(POD)
    run = ContainerRun(
        SimpleNamespace(recorder=recorder, clock=clock, limits=None),
        container=pod.containers[0],
        pod=pod,
        launch=SimpleNamespace(group=""),
        log=log,
        message_file=tmp_path / "message",
        listener=SimpleNamespace(on_run_ended=print),
        tasks=None,
        port_of=int,
    )
    run.on_output(b"one\n")
    assert events == []

    log._file.close()
    log._file = open("/dev/full", "wb", buffering=0)  # noqa: PTH123, SIM115 (the log closes it)
    run.on_output(b"two\n")
    run.on_output(b"three\n")
    run.on_ended(0)

    message = "output of container main of pod j-worker-0 was lost: No space left on device"
    assert events == [("TFJob", "Warning", {"reason": "OutputLost", "message": message})]
