"""TensorBoards on a real API server: of TensorFlowTrainingJobs, of tenants, and of jobs that run one themselves."""

import pytest
import yaml

from support.api import Api, RefusedError
from support.crds import apply_rights, create_crd
from support.jobs import t9k
from support.jobs.job_namespace import PATIENCE, JobNamespace
from support.jobs.t9k import ROOT, T9kNamespace, documented, over
from support.operators.operator_fixture import ONE_OPERATOR, QUICK
from support.partners.kubectl import Kubectl
from support.resources import CRDS, EVENTS, SERVICES, TRAINING_JOBS, Resource
from support.settle import eventually

pytestmark = ONE_OPERATOR
ARGUMENTS = (QUICK, "--enable-scheme=tensorflowtrainingjob,tfjob.mlkube.io", "--tensorboards=serve")
BOARDS = Resource("tensorstack.dev", "v1beta1", "tensorboards")
DEPLOYMENTS = Resource("apps", "v1", "deployments")
MLKUBE = Resource("mlkube.io", "v1beta1", "tfjobs")
NAME = "tensorflow-example"
EXAMPLE = over(documented(NAME), documented("fragments/tensorboard"))


def manifest(path):
    return yaml.load((ROOT / "manifests" / path).read_text(), yaml.CSafeLoader)


async def prepare(admin: Api) -> None:
    """Two kinds of jobs, and TensorBoards, as in the overlays."""
    await t9k.prepare(admin)
    for crd in ("mlkube/tfjobs", "tensorboard/tensorboards"):
        await create_crd(admin, manifest(f"crd/{crd}.yaml"))
    for folder in ("mlkube", "tensorboard"):
        await apply_rights(admin, (ROOT / "manifests/rbac" / folder).glob("c*.yaml"))


@pytest.fixture(scope="module")
def control_plane(fresh_plane):
    """A plane of this module's own, with the collector of what has lost its owner."""
    with fresh_plane("controller-manager", "audit") as plane:
        yield plane


@pytest.fixture
def here(job_namespace: JobNamespace) -> T9kNamespace:
    return T9kNamespace.of(job_namespace)


async def shows(here, **fields):
    """Wait until the job says this of its TensorBoard."""

    async def check():
        status = (await here.job(NAME)).get("status", {}).get("tensorboard")
        assert status == fields, f"{status}"
        return True

    assert await eventually(check, within=PATIENCE)


async def says(here, name, **fields):
    """Wait until a TensorBoard has exactly this status."""

    async def check():
        tensorboard = await here.admin.find(BOARDS.path(here.namespace, name))
        assert tensorboard is not None
        assert tensorboard.get("status") == fields, f"{tensorboard}"
        return tensorboard

    return await eventually(check, within=PATIENCE)


async def child(here, resource, name, *, is_there=True, **fields):
    """Wait until a child is there, or gone, with these fields in its spec; its body."""

    async def check():
        body = await here.admin.find(resource.path(here.namespace, name))
        assert (body is not None) == is_there, f"{resource.plural} {name}: {body}"
        assert body is None or fields.items() <= body["spec"].items(), f"{body['spec']}"
        return body or {"gone": name}

    return await eventually(check, within=PATIENCE)


def container(deployment):
    (main,) = deployment["spec"]["template"]["spec"]["containers"]
    return main


async def become_ready(here, name):
    """Have the pod run that the Deployment asks for."""

    async def its_pod():
        return next((pod for pod in await here.pods() if pod.startswith(f"{name}-") and "worker" not in pod), "")

    await here.kubelet.run(await eventually(its_pod, within=PATIENCE))


@pytest.mark.real_server("the controller of Deployments")
@pytest.mark.programs("kubectl")
@pytest.mark.documents("t9k/tensorboard", "t9k/tensorboard-status", "t9k/printed-tensorboard-status")
async def test_a_training_job_has_a_tensorboard_from_its_beginning_to_its_deletion(
    here: T9kNamespace, tmp_path
) -> None:
    """Also while the job is paused; the status goes to what the manual prints, and the TensorBoard follows edits."""
    body = over(EXAMPLE, {"spec": {"runMode": {"pause": {"enabled": True}}}})
    await here.submit(body)
    board = await says(here, NAME, phase="Pending")
    assert board["spec"] == EXAMPLE["spec"]["tensorboardSpec"]
    printed = documented("status/tensorboard")["status"]["tensorboard"]
    own = {"name": NAME, "namespace": here.namespace, "uid": board["metadata"]["uid"]}
    dependent = printed["dependent"] | own
    waits = {"ready": False, "reason": "DependentNotReady", "note": f"TensorBoard [{NAME}] is not ready"}
    await shows(here, **{**printed, **waits, "dependent": dependent})

    deployment = await child(here, DEPLOYMENTS, NAME, replicas=1)
    (mount,) = container(deployment)["volumeMounts"]
    (volume,) = deployment["spec"]["template"]["spec"]["volumes"]
    claim = "tensorflow-tensorboard-pvc"
    assert volume == {"name": mount["name"], "persistentVolumeClaim": {"claimName": claim}}
    assert mount["mountPath"].startswith("/logs/")
    assert (mount["subPath"], mount["readOnly"]) == ("log", True)
    (port,) = (await child(here, SERVICES, NAME))["spec"]["ports"]
    assert (port["port"], port["targetPort"]) == (80, 6006)
    await become_ready(here, NAME)
    await says(here, NAME, phase="Running", url=f"http://{NAME}.{here.namespace}.svc")
    await shows(here, **printed | {"dependent": dependent, "note": f"TensorBoard [{NAME}] is ready"})
    kubectl = Kubectl(here.plane.kubeconfig("admin"), tmp_path, here.namespace)
    assert kubectl.run("get", "tensorboards").split()[:4] == ["NAME", "PHASE", "URL", "AGE"]

    await here.edit({"spec": {"tensorboardSpec": {"image": "other", "suspend": True}}}, NAME)
    assert container(await child(here, DEPLOYMENTS, NAME, replicas=0))["image"] == "other"
    await says(here, NAME, phase="Pending", message="it is suspended")
    await here.admin.delete(TRAINING_JOBS.path(here.namespace, NAME))
    for resource in (BOARDS, DEPLOYMENTS, SERVICES):
        await child(here, resource, NAME, is_there=False)


def board(name, *filesets, **spec):
    return {
        "apiVersion": BOARDS.api_version,
        "kind": "TensorBoard",
        "metadata": {"name": name},
        "spec": {"image": "i", "trainingLogFilesets": list(filesets), **spec},
    }


async def create(here, resource, body):
    return await here.admin.create(resource.path(here.namespace), body)


@pytest.mark.real_server("the controller of Deployments")
async def test_what_a_tenant_asks_for_is_refused_in_words_and_takes_nothing_of_others(here: T9kNamespace) -> None:
    """Another's Deployment or Service of the name stays as it is; neighbours are served."""
    for wrong in (
        board("x" * 64),
        board("1a"),
        board("a", "s3://b"),
        board("a", image=""),
        board("a", *["t9k://pvc/a"] * 65),
    ):
        with pytest.raises(RefusedError, match="422"):
            await create(here, BOARDS, wrong)
    service = {"metadata": {"name": "taken"}, "spec": {"ports": [{"port": 1}], "selector": {"app": "theirs"}}}
    theirs = await create(here, SERVICES, service)
    await create(here, BOARDS, board("taken", "t9k://pvc/a/b"))
    await create(here, BOARDS, board("minio", "t9k://minio/s/b/p", logDir={"s3": {"uri": ["s3://a"]}}))
    await create(here, BOARDS, board("up", "t9k://pvc/a/../b"))
    await create(here, BOARDS, board("less", resources={"limits": {"cpu": 1}, "requests": {"cpu": 2}}))
    await create(here, BOARDS, board("good", "t9k://pvc/a/b", logDir={"pvc": [{"name": "a", "subPath": ["b", "c"]}]}))

    unsupported = "is not supported: logs have to be in a claim"
    fileset = f"spec.trainingLogFilesets[0]: {unsupported}, as t9k://pvc/CLAIM/PATH"
    folder = "spec.trainingLogFilesets[0]: must name a claim and a folder in it, without '..'"
    for name, message in {"minio": f"{fileset}; spec.logDir.s3: {unsupported}", "up": folder}.items():
        await says(here, name, phase="Pending", message=message)
        await child(here, DEPLOYMENTS, name, is_there=False)
    for name, words in {"taken": "belongs to nobody", "less": "must be less than or equal to cpu limit"}.items():

        async def check(name=name, words=words):
            tensorboard = await here.admin.get(BOARDS.path(here.namespace, name))
            assert words in tensorboard.get("status", {}).get("message", ""), f"{tensorboard}"
            return True

        assert await eventually(check, within=PATIENCE)
    assert await child(here, SERVICES, "taken") == theirs
    deployment = await child(here, DEPLOYMENTS, "good")
    assert [mount["subPath"] for mount in container(deployment)["volumeMounts"]] == ["b", "c"]
    await here.admin.delete(DEPLOYMENTS.path(here.namespace, "good"))
    again = await child(here, DEPLOYMENTS, "good")
    assert again["metadata"]["uid"] != deployment["metadata"]["uid"]
    await here.admin.delete(SERVICES.path(here.namespace, "taken"))
    await become_ready(here, "taken")
    await says(here, "taken", phase="Running", url=f"http://taken.{here.namespace}.svc")


async def test_a_tfjob_of_mlkube_runs_a_tensorboard_until_it_is_deleted(here: T9kNamespace) -> None:
    """Also after its end; what is wrong with it is an event, and the job trains."""
    job = manifest("examples/mlkube/tf_job.yaml")
    volume = {"volumes": [{"name": "v", "emptyDir": {}}], "volumeMounts": [{"name": "v", "mountPath": "/l"}]}
    tensorboard = {"logDir": "/l", "serviceType": "ClusterIP", **volume}
    name = "tensorboard-1234"
    await create(here, MLKUBE, over(job, {"spec": {"tfImage": "own", "tensorboard": tensorboard}}))
    deployment = await child(here, DEPLOYMENTS, name, replicas=1)
    main = container(deployment)
    assert (main["image"], main["command"]) == ("own", ["tensorboard", "--logdir", "/l", "--host", "0.0.0.0"])
    assert [mount["name"] for mount in main["volumeMounts"]] == ["v"]
    (port,) = (await child(here, SERVICES, name, type="ClusterIP"))["spec"]["ports"]
    assert (port["port"], port["targetPort"]) == (80, 6006)

    second = over(job, {"metadata": {"name": "second"}, "spec": {"tensorboard": {"logDir": "/l"}}})
    await create(here, MLKUBE, second)

    async def check():
        events = await here.admin.list(EVENTS.path(here.namespace))
        texts = [event["message"] for event in events if event["involvedObject"]["name"] == "second"]
        assert any("its name is taken" in text for text in texts), texts
        return True

    assert await eventually(check, within=PATIENCE)
    await here.admin.delete(MLKUBE.path(here.namespace, job["metadata"]["name"]))
    for resource in (DEPLOYMENTS, SERVICES):

        async def is_the_seconds(resource=resource):
            body = await here.admin.find(resource.path(here.namespace, name))
            assert body is not None
            assert [owner["name"] for owner in body["metadata"]["ownerReferences"]] == ["second"]
            return True

        assert await eventually(is_the_seconds, within=2 * PATIENCE)
    await here.admin.patch(MLKUBE.path(here.namespace, "second"), {"spec": {"tensorboard": None}})
    for resource in (DEPLOYMENTS, SERVICES):
        await child(here, resource, name, is_there=False)


async def says_why(here, words):
    """Wait until the job says so of a TensorBoard that could not be made."""

    async def check():
        status = (await here.job(NAME)).get("status", {}).get("tensorboard", {})
        assert (status.get("type"), status.get("reason")) == ("Warning", "DependentCreateFailed"), f"{status}"
        assert words in status["note"], f"{status}"
        return True

    assert await eventually(check, within=PATIENCE)


async def test_a_job_trains_without_its_tensorboard_and_says_why_it_has_none(here: T9kNamespace) -> None:
    """Refused, then edited; and where the kind is not served. The last test: it takes the CRD away."""
    wrong = over(EXAMPLE, {"spec": {"tensorboardSpec": {"trainingLogFilesets": ["s3://a"]}}})
    await here.submit(wrong)
    await here.wait_pods(*(f"{NAME}-worker-{index}" for index in range(4)))
    await says_why(here, "has to begin with t9k://pvc/")
    await here.edit({"spec": {"tensorboardSpec": EXAMPLE["spec"]["tensorboardSpec"]}}, NAME)
    await says(here, NAME, phase="Pending")

    await here.admin.delete(TRAINING_JOBS.path(here.namespace, NAME))
    await here.wait_pods()
    await here.admin.delete(CRDS.path(name=BOARDS.qualified))
    await here.submit(EXAMPLE)
    await here.wait_pods(*(f"{NAME}-worker-{index}" for index in range(4)))
    await says_why(here, "tensorboards.tensorstack.dev cannot be read; is it installed, and may it be listed?")
