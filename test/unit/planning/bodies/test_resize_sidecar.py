"""What a pod has so that its containers can start again: for the program and for nothing beside it."""

from support.jobs.builders import tfjob
from support.jobs.templates import CONTAINER
from tf_operator.dialects.kubeflow.v1 import API
from tf_operator.job.record import ReplicaType
from tf_operator.planning.bodies import resize_sidecar
from tf_operator.planning.bodies.children import ChildBuilder
from tf_operator.planning.snapshot import Settings

PROXY = {"name": "proxy", "image": "a-proxy"}
SPEC = {"containers": [PROXY, CONTAINER]}


def test_the_program_alone_is_started_again_and_gives_the_sidecar_its_image():
    job = tfjob("j").workers(2, restart="ExitCode").restarts_as_a_whole("InPlace").body()
    job["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"] = SPEC
    builder = ChildBuilder(API.read_object(job), Settings(restarts_in_place=True))
    spec = builder.pod(ReplicaType.WORKER, 0, name="j-worker-0")["spec"]

    proxy, program = spec["containers"]
    (sidecar,) = spec["initContainers"]
    assert "restartPolicyRules" not in proxy
    assert program["restartPolicyRules"][0]["exitCodes"]["operator"] == "In"
    assert (program["image"], sidecar["image"]) == (CONTAINER["image"],) * 2


def test_the_sidecar_counts_in_a_queue_with_what_it_asks_for():
    resources = {"requests": {"cpu": "10m"}}
    sidecar = {"name": resize_sidecar.SIDECAR, "image": "i", "restartPolicy": "Always", "resources": resources}
    own = {"name": "own", "image": "i"}
    pod = SPEC | {"initContainers": [own]}
    rendered = pod | {"initContainers": [sidecar | {"command": ["sh"]}, own]}

    assert resize_sidecar.counted(pod, rendered) == pod | {"initContainers": [sidecar, own]}
    assert resize_sidecar.counted(pod, pod) == pod
