"""A release is upgraded, rolled back and removed, and a job that runs does not notice. Last, because it removes."""

from support.jobs.real_namespace import small_job
from support.partners.helm import INSTALLED
from support.settle import eventually

HERE = ("--namespace", "tf-operator")


def is_read_in_v1beta1(here, name):
    return here.kubectl.attempt("get", "tfjobs.v1beta1.kubeflow.org", name).returncode == 0


async def test_a_job_runs_through_upgrade_rollback_removal_and_return(operator, here, sleeps):
    helm, wait = operator.helm, ("--wait", "--timeout", "180s")
    here.kubectl.create(small_job("j", sleeps))
    await here.wait_state("j", "Running")
    uids = here.uids("j")

    without = operator.values | {"apis": operator.values["apis"] | {"kubeflow": {"oldVersions": []}}}
    ways = ((("upgrade", "tf", INSTALLED), without, False), (("rollback", "tf"), None, True))
    for command, values, expected in ways:
        helm.ok(*command, *HERE, *wait, values=values)
        await operator.wait_ready()
        await eventually(lambda expected=expected: is_read_in_v1beta1(here, "j") == expected, within=60, every=1)
    helm.ok("uninstall", "tf", *HERE, "--wait", "--timeout", "180s")
    crd = operator.kubectl.get("crd", "tfjobs.kubeflow.org")
    assert ([version["name"] for version in crd["spec"]["versions"]], crd["spec"]["conversion"]["strategy"]) == (
        ["v1"],
        "None",
    )

    assert operator.kubectl.list("deployments") == []
    assert (here.state("j"), here.uids("j")) == ("Running", uids)
    assert here.pods("j")["worker-0"]["status"]["phase"] == "Running"
    here.end("j", "worker-0")
    helm.ok("install", "tf", INSTALLED, *HERE, *wait, values=operator.values)
    await here.wait_state("j", "Succeeded", within=90)
    assert here.uids("j") == uids
