"""What jobs use without a cluster, as ``tfjob top`` and kubectl show it."""

import re

import pytest

from lab.tools.get import programs
from support.jobs.real_namespace import Program, small_job
from support.settle import eventually
from tf_operator.client.manifests import kube_yaml

BUSY = Program("none", "while True: pass")


async def test_top_shows_what_a_job_uses(local_server):
    assert (await local_server.run("submit", "-", manifest=kube_yaml.write(small_job("j", BUSY))))[0] == 0

    async def top():
        _, output, _ = await local_server.run("top", "j")
        return re.fullmatch(r"REPLICA +POD +CPU +MEMORY +NODE\nworker-0 +j-worker-0 +\d+m +\d+Mi +local\n", output)

    await eventually(top)


@pytest.mark.programs("kubectl")
@pytest.mark.real_server("kubectl is a program of Kubernetes")
async def test_kubectl_top_shows_it_too(local_server):
    assert (await local_server.run("submit", "-", manifest=kube_yaml.write(small_job("j", BUSY))))[0] == 0
    kubeconfig = (await local_server.run("local", "kubeconfig"))[1].strip()
    kubectl = (programs("kubectl")["kubectl"], f"--kubeconfig={kubeconfig}")

    async def run(*arguments):
        process = await local_server.start(*arguments, command=kubectl)
        output, errors = await process.communicate()
        assert process.returncode == 0, errors.decode()
        return output.decode()

    of_job = ("-l", "training.kubeflow.org/job-name=j", "--no-headers")
    await eventually(lambda: run("top", "pods", *of_job))
    assert re.fullmatch(r"j-worker-0 +tensorflow +\d+m +\d+Mi +\n", await run("top", "pods", "--containers", *of_job))
    assert await run("top", "pods", "-l", "a=b") == ""
