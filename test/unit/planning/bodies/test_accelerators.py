"""What pods get for their accelerators, where a template is not as the API server wants it; the rest is golden."""

import dataclasses

from msgspec import structs

from support.jobs.builders import tfjob
from support.jobs.snapshots import job_of
from tf_operator.planning.bodies.accelerators import Accelerator, HostVolume, attach

GPU = Accelerator("example.org/gpu", (HostVolume("lib", "/lib", "/lib"),), (("WANTED", "here"),))


def test_what_is_no_list_is_left_to_the_api_server():
    container = {
        "name": "tensorflow",
        "image": "training:test",
        "resources": {"limits": {"example.org/gpu": 1}},
        "env": "A=b",
        "volumeMounts": {"name": "data"},
    }
    pod = {"containers": [container], "volumes": "data"}
    worker = {"replicas": 1, "template": {"spec": pod}}
    job = job_of(tfjob().workers(1), {"spec": {"tfReplicaSpecs": {"Worker": worker}}})
    job = structs.replace(job, profile=dataclasses.replace(job.profile, has_operator_config=True))

    assert attach(job, [GPU]) == job
