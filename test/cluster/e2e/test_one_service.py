"""TensorFlow whose processes find each other as hosts in one Service: by the DNS of the cluster, also after a kill."""

import pytest

from support.jobs.real_namespace import PATIENCE_SECONDS, accuracy, training
from support.settle import eventually

# Enough that a training is far from its end when it has saved for the first time.
LONG = 3000


def hosts_of(here, service):
    """The names that its DNS has."""
    slices = here.kubectl.list("endpointslices", selector=f"kubernetes.io/service-name={service}")
    return {endpoint.get("hostname") for it in slices for endpoint in it.get("endpoints") or ()}


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("name", "saves"),
    [
        pytest.param("digits-mirrored", "worker-0", id="mirrored workers"),
        pytest.param("digits-parameter-servers", "chief-0", id="parameter servers"),
    ],
)
async def test_a_training_goes_on_under_the_same_names_when_a_worker_was_killed(here, images, name, saves):
    here.provide_volume(name)
    job = training(name, steps=LONG, image=images.training, pod={"shareProcessNamespace": True})
    job["spec"] |= {"serviceMode": "Job", "runPolicy": {"cleanPodPolicy": "None", "backoffLimit": 6}}
    here.kubectl.create(job)
    await here.wait_log(name, saves, "Saved step")
    await eventually(lambda: f"{name}-worker-1" in hosts_of(here, name), within=PATIENCE_SECONDS, every=1.0)
    pods = here.pods(name)
    assert hosts_of(here, name) <= {f"{name}-{replica}" for replica in pods}
    assert [it["metadata"]["name"] for it in here.kubectl.list("services")] == [name]

    here.kill(name, "worker-1")
    await here.wait_state(name, "Succeeded")

    replaced = here.pods(name)["worker-1"]
    assert replaced["metadata"]["uid"] != pods["worker-1"]["metadata"]["uid"]
    assert (replaced["spec"]["hostname"], replaced["spec"]["subdomain"]) == (f"{name}-worker-1", name)
    assert accuracy(here.log(name, saves)) >= 90
