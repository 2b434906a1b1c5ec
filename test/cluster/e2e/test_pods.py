"""Pods of shapes that users have: sidecars of both kinds, and an image that cannot be had."""

from support.jobs.real_namespace import Program, small_job
from support.settle import eventually


def with_pod(job, **fields):
    job["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"] |= fields
    return job


async def test_a_job_ends_when_its_pods_have_a_native_sidecar(here, images, counts, sleeps):
    sidecar = sleeps.container("sidecar") | {"restartPolicy": "Always"}
    here.kubectl.create(with_pod(small_job("j", counts), initContainers=[sidecar]))

    await here.wait_state("j", "Succeeded", within=90)

    assert here.log("j", "worker-0") == "done\n"


async def test_a_job_ends_and_its_pod_goes_when_a_plain_sidecar_would_run_for_ever(here, images, counts, sleeps):
    containers = [counts.container(), sleeps.container("sidecar")]
    here.kubectl.create(with_pod(small_job("j", counts, cleanPodPolicy="Running"), containers=containers))

    await here.wait_state("j", "Succeeded", within=90)
    await here.wait_pods("j", only=set())

    assert here.job("j")["status"]["replicaStatuses"]["Worker"]["succeeded"] == 1


async def test_the_status_says_why_when_an_image_cannot_be_pulled(here):
    # Nobody listens there, on any node.
    here.kubectl.create(small_job("j", Program("localhost:1/nobody/has-this:1", "")))

    message = await here.wait_condition_message("j", "j-worker-0")

    assert "ErrImagePull" in message or "ImagePullBackOff" in message
    (event,) = await eventually(lambda: here.events("j", reason="ReplicaPending"), within=30, every=0.5)
    assert event["type"] == "Warning"
    assert here.state("j") == "Created"


RULED = """
import pathlib, sys
starts = pathlib.Path('/counts/starts')
starts.write_text(starts.read_text() + '.' if starts.exists() else '.')
sys.exit(0 if starts.read_text() == '..' else 42)
"""


def ruled(name, image, restart, action):
    """A job whose program exits with 42 first, after which a rule of its container has it started again."""
    rule = {"action": action, "exitCodes": {"operator": "In", "values": [42]}}
    mount = {"volumeMounts": [{"name": "work", "mountPath": "/counts"}]}
    main = Program(image, RULED).container() | mount | {"restartPolicy": "Never", "restartPolicyRules": [rule]}
    job = with_pod(small_job(name, Program(image, RULED), backoffLimit=2), containers=[main])
    job["spec"]["tfReplicaSpecs"]["Worker"]["restartPolicy"] = restart
    return with_pod(job, volumes=[{"name": "work", "emptyDir": {}}])


async def test_a_job_goes_on_when_a_rule_of_a_container_has_it_or_all_of_its_pod_restarted(here, images, sleeps):
    sidecar = sleeps.container("sidecar") | {"restartPolicy": "Always"}
    here.kubectl.create(ruled("one", images.operator, "Never", "Restart"))
    together = ruled("together", images.operator, "ExitCode", "RestartAllContainers")
    here.kubectl.create(with_pod(together, initContainers=[sidecar]))

    for name in ("one", "together"):
        await here.wait_state(name, "Succeeded", within=90)
        assert here.job(name)["status"]["restarts"] == 1
        (event,) = await eventually(
            lambda name=name: here.events(name, reason="ReplicaRestarted"), within=30, every=0.5
        )
        assert "(1 of 2 restarts used)" in event["message"]
        (pod,) = here.pods(name).values()
        assert pod["status"]["containerStatuses"][0]["restartCount"] == 1
    assert pod["status"]["initContainerStatuses"][0]["restartCount"] == 1, "and its sidecar with it"
