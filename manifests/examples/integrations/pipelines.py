"""A pipeline of Kubeflow Pipelines with a step that runs a training job and waits for its end.

Compile it with ``python pipelines.py``, and upload pipeline.yaml. docs/how-to/pipelines.md says which rights it needs.
"""

from kfp import compiler, dsl


@dsl.component(base_image="python:3.12", packages_to_install=["tf-operator"])
def train(job: dict, timeout_seconds: int = 86400) -> str:
    """Submit the job, print what its replicas print, and fail with it. Returns its name."""
    from tf_operator.client import JobPhase, TFJobs  # noqa: PLC0415 (a component is this function alone)

    with TFJobs() as jobs:
        submitted = jobs.submit(job)
        for line in jobs.logs(submitted, follow=True):
            print(line.replica, line.text)
        ended = jobs.wait(submitted, timeout=timeout_seconds)
        if ended.phase is not JobPhase.SUCCEEDED:
            raise RuntimeError(ended.message)
        return ended.name


@dsl.pipeline(name="training")
def training(image: str = "tensorflow/tensorflow:2.19.0") -> None:
    """One step; what follows takes the name of the job."""
    container = {"name": "tensorflow", "image": image, "command": ["python", "-c", "print('trained')"]}
    container["terminationMessagePolicy"] = "FallbackToLogsOnError"
    replica = {"replicas": 2, "restartPolicy": "OnFailure", "template": {"spec": {"containers": [container]}}}
    train(
        job={
            "apiVersion": "kubeflow.org/v1",
            "kind": "TFJob",
            "metadata": {"generateName": "training-"},
            "spec": {"tfReplicaSpecs": {"Worker": replica}},
        }
    )


if __name__ == "__main__":
    compiler.Compiler().compile(training, "pipeline.yaml")
