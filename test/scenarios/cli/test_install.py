"""``tfjob install`` and ``uninstall`` on a real API server; controllers make the pods, and the test starts them."""

import asyncio
import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from lab.control_plane.access import VIEWER, role_of
from lab.control_plane.api import ApiRefusedError
from lab.control_plane.plane import ControlPlane
from support.jobs.builders import tfjob
from support.partners.helm import INSTALLED, PROGRAMS, Helm
from support.partners.image_registry import ImageRegistry, image_of
from support.settle import eventually
from tf_operator.cli import main
from tf_operator.client.images import operator_image
from tf_operator.client.installation import cluster_check, objects
from tf_operator.machinery.transport import requests

pytestmark = pytest.mark.real_server("RBAC, admission, and controllers that make pods")
RBAC = Path(__file__).resolve().parents[3] / "manifests" / "rbac"
IMAGE = "registry.example/tf-operator:1"
ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
DEPLOYMENTS = "/apis/apps/v1/namespaces/{}/deployments"
NAMESPACES = "/api/v1/namespaces"
CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/tfjobs.kubeflow.org"
ALL = {
    "ClusterRole tf-operator",
    "ClusterRole tf-operator-edit",
    "ClusterRole tf-operator-view",
    "ClusterRoleBinding tf-operator",
    "CustomResourceDefinition tfjobs.kubeflow.org",
    "Deployment tf-operator/tf-operator",
    "Namespace tf-operator",
    "NetworkPolicy tf-operator/tf-operator",
    "Role tf-operator/tf-operator-leader-election",
    "RoleBinding tf-operator/tf-operator-leader-election",
    "Service tf-operator/tf-operator-metrics",
    "ServiceAccount tf-operator/tf-operator",
}


class Terminal(io.StringIO):
    """Somebody who has typed this."""

    def isatty(self):
        return True


def is_gone(plane, path):
    try:
        return not plane.admin.get(path)
    except ApiRefusedError as refusal:
        return refusal.status == 404


def delete(plane, path):
    if not is_gone(plane, path):
        plane.admin.delete(path)


@pytest.fixture(scope="module")
def plane(fresh_plane):
    """A plane of this module's own, without what planes have of the operator."""
    with fresh_plane("controller-manager", "audit") as plane:
        for path in RBAC.glob("*.yaml"):
            body = yaml.safe_load(path.read_text())
            if body["kind"] in {"ClusterRole", "ClusterRoleBinding"}:
                plane.admin.delete(
                    requests.path_of(objects.RESOURCES[body["kind"]], requests.ObjectKey("", body["metadata"]["name"]))
                )
        plane.admin.delete(CRD)
        plane.admin.delete(f"{NAMESPACES}/tf-operator")
        yield plane


@dataclass(frozen=True)
class Site:
    """A cluster, and somebody who types."""

    plane: ControlPlane

    async def call(self, line, *, user="admin", code=0):
        """Both outputs of a command that ends with this code."""
        words = [*line.split(), "--kubeconfig", str(self.plane.kubeconfig(user))]
        with redirect_stdout(io.StringIO()) as output, redirect_stderr(io.StringIO()) as errors:
            exit_code = await asyncio.to_thread(main.main, words)
        text = output.getvalue() + errors.getvalue()
        assert exit_code == code, text
        return text

    def installed(self):
        """What has the label of the command: versions by name."""
        versions = {}
        for kind, resource in objects.RESOURCES.items():
            body = self.plane.admin.get(f"{requests.path(resource)}?labelSelector={objects.OWNER_LABEL}%3Dtfjob")
            versions |= {
                objects.name_of({**item, "kind": kind}): cluster_check.version_of(item)
                for item in body["items"]
                if not item["metadata"].get("deletionTimestamp")
            }
        return versions

    def pods(self):
        items = self.plane.admin.get(f"{NAMESPACES}/tf-operator/pods")["items"]
        return [item for item in items if not item["metadata"].get("deletionTimestamp")]

    async def start_pods(self):
        """Do as nodes do: the pods of the operator become ready, and one takes the Lease."""
        for pod in await eventually(self.pods, within=60):
            ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
            path = f"{NAMESPACES}/tf-operator/pods/{pod['metadata']['name']}/status"
            self.plane.admin.patch(path, {"status": {"phase": "Running", "conditions": [ready]}})
        now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        spec = {
            "holderIdentity": f"{self.pods()[0]['metadata']['name']}_1",
            "leaseDurationSeconds": 15,
            "renewTime": now,
        }
        leases = "/apis/coordination.k8s.io/v1/namespaces/tf-operator/leases"
        self.plane.admin.create(leases, {"metadata": {"name": "tf-operator"}, "spec": spec})


@pytest.fixture
async def site(plane):
    site = Site(plane)
    await eventually(lambda: is_gone(plane, f"{NAMESPACES}/tf-operator"), within=60)
    yield site
    await site.call("uninstall --crds --yes")
    delete(plane, f"{ROLES}/copied")
    delete(plane, f"{NAMESPACES}/tf-operator")


async def test_the_operator_is_installed_waited_for_examined_and_removed_without_its_jobs(site):
    installing = asyncio.create_task(site.call(f"install --image {IMAGE}"))
    await site.start_pods()
    text = await installing

    assert "Deployment tf-operator/tf-operator created" in text
    assert "the operator's Deployment tf-operator/tf-operator has 1 of 1 pods available" in text
    assert "FAIL" not in text
    assert set(site.installed()) == ALL
    site.plane.admin.create("/apis/kubeflow.org/v1/namespaces/default/tfjobs", tfjob("j").workers(1).body())

    await site.call("uninstall")

    assert set(site.installed()) == {"CustomResourceDefinition tfjobs.kubeflow.org"}
    assert not is_gone(site.plane, "/apis/kubeflow.org/v1/namespaces/default/tfjobs/j")
    await eventually(lambda: is_gone(site.plane, f"{NAMESPACES}/tf-operator"), within=60)
    assert "tfjob install has made nothing" in await site.call("uninstall")


@pytest.mark.programs("registry")
async def test_with_a_registry_the_image_is_pushed_first_and_named_by_its_digest(site, tmp_path, monkeypatch):
    monkeypatch.setattr(operator_image, "requirements", lambda: "")  # no package is had from outside
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    with ImageRegistry.up(tmp_path / "registry") as registry:
        registry.put_image("python", "1", [image_of({}, Env=["PYTHON_VERSION=3.99.0"])])
        base = f"--base {registry.address}/python:1"
        await site.call(f"install --registry {registry.address}/team --no-wait {base}")
        spec = site.plane.admin.get(f"{DEPLOYMENTS.format('tf-operator')}/tf-operator")["spec"]["template"]["spec"]
        name, _, digest = spec["containers"][0]["image"].partition("@")
        tag = operator_image.version()
        assert name == f"{registry.address}/team/tf-operator:{tag}"
        assert registry.manifest("team/tf-operator", digest) == registry.manifest("team/tf-operator", tag)


async def test_a_registry_that_cannot_be_reached_changes_nothing(site):
    text = await site.call("install --registry 127.0.0.1:1 --base 127.0.0.1:1/python:1", code=1)

    assert "tfjob: 127.0.0.1:1 cannot be reached" in text
    assert site.installed() == {}


async def test_a_second_time_changes_nothing_and_an_upgrade_removes_what_is_no_part_any_more(site):
    await site.call(f"install --image {IMAGE} --no-wait --with kueue --with high-availability")
    versions = site.installed()
    text = await site.call(f"install --image {IMAGE} --no-wait --with kueue --with high-availability")
    assert text.count("unchanged") == len(versions), text
    copied = site.plane.admin.get(f"{ROLES}/tf-operator-kueue")
    labels = copied["metadata"]["labels"]
    site.plane.admin.create(ROLES, {"metadata": {"name": "copied", "labels": labels}, "rules": copied["rules"]})

    text = await site.call("install --image registry.example/tf-operator:2 --no-wait")

    assert "ClusterRoleBinding tf-operator-kueue deleted" in text
    assert "PodDisruptionBudget tf-operator/tf-operator deleted" in text
    assert set(site.installed()) == ALL | {"ClusterRole copied"}
    spec = site.plane.admin.get(f"{DEPLOYMENTS.format('tf-operator')}/tf-operator")["spec"]
    container = spec["template"]["spec"]["containers"][0]
    assert (spec["replicas"], container["image"], container["args"]) == (1, "registry.example/tf-operator:2", ["run"])
    assert "affinity" not in spec["template"]["spec"]


async def test_an_operator_for_some_namespaces_has_rights_in_no_other(site):
    await site.call(f"install --image {IMAGE} --no-wait --watch default --watch kube-public")

    bindings = {name for name in site.installed() if "Binding" in name}
    assert bindings == {
        "RoleBinding default/tf-operator",
        "RoleBinding kube-public/tf-operator",
        "RoleBinding tf-operator/tf-operator-leader-election",
    }
    text = await site.call(f"install --image {IMAGE} --no-wait --watch absent", code=1)
    assert "nothing was changed: there is no namespace absent" in text
    await site.call(f"install --image {IMAGE} --no-wait --watch default")
    assert {name for name in site.installed() if name.startswith("RoleBinding")} == bindings - {
        "RoleBinding kube-public/tf-operator"
    }


async def test_a_dry_run_prints_the_objects_and_changes_nothing(site):
    text = await site.call(f"install --image {IMAGE} --dry-run -n elsewhere")

    bodies = [*yaml.safe_load_all(text)]
    assert {objects.name_of(body) for body in bodies} == {
        name.replace(" tf-operator/", " elsewhere/").replace("Namespace tf-operator", "Namespace elsewhere")
        for name in ALL
    }
    assert site.installed() == {}
    assert is_gone(site.plane, f"{NAMESPACES}/elsewhere")


async def refused(site, sentence, options="", user="admin"):
    before = site.installed()
    assert sentence in await site.call(f"install --image {IMAGE} --no-wait {options}", user=user, code=1)
    assert site.installed() == before


@pytest.mark.programs(PROGRAMS["helm-4"])
async def test_it_is_refused_beside_a_release_of_helm_and_leaves_that_alone(site, tmp_path):
    helm = Helm("helm-4", tmp_path, kubeconfig=site.plane.kubeconfig("admin"))
    helm.ok("install", "tf", INSTALLED, "--namespace", "team", "--create-namespace", "--wait=false")

    await refused(site, "Helm installed the operator, as the release tf in namespace team: use helm upgrade")
    assert "helm uninstall removes it" in await site.call("uninstall", code=1)

    helm.ok("uninstall", "tf", "--namespace", "team", "--wait=false")
    delete(site.plane, CRD)
    delete(site.plane, f"{NAMESPACES}/team")
    await eventually(lambda: is_gone(site.plane, f"{DEPLOYMENTS.format('team')}/tf-tf-operator"), within=60)
    await eventually(lambda: is_gone(site.plane, CRD), within=60)


async def test_it_is_refused_beside_kubeflows_operator_and_where_its_names_are_taken(site):
    admin, template = site.plane.admin, {"metadata": {"labels": {"a": "b"}}}
    container = {"name": "operator", "image": "kubeflow/training-operator:v1-855e096"}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template | {"spec": {"containers": [container]}}}
    admin.create(DEPLOYMENTS.format("default"), {"metadata": {"name": "training"}, "spec": spec})
    await refused(site, "kubectl --namespace default scale deployment training --replicas=0")
    admin.delete(f"{DEPLOYMENTS.format('default')}/training")
    admin.create(ROLES, {"metadata": {"name": "tf-operator"}})

    await refused(site, "ClusterRole tf-operator exists and was not created by tfjob install")

    admin.delete(f"{ROLES}/tf-operator")


async def test_it_is_refused_without_rights_and_in_a_namespace_that_is_being_deleted(site):
    await refused(site, "you lack permissions to install the operator", user="viewer")
    site.plane.admin.create(NAMESPACES, {"metadata": {"name": "leaving"}})
    held = {"name": "c", "finalizers": ["example.com/held"]}
    site.plane.admin.create(f"{NAMESPACES}/leaving/configmaps", {"metadata": held})
    site.plane.admin.delete(f"{NAMESPACES}/leaving")

    await refused(site, "namespace leaving is being deleted; try again when it is gone", "-n leaving")

    site.plane.admin.patch(f"{NAMESPACES}/leaving/configmaps/c", {"metadata": {"finalizers": None}})


async def test_who_may_define_kinds_and_not_grant_rights_leaves_nothing_half_done(site):
    rules = [
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list"]},
        {"apiGroups": ["", "apps", "apiextensions.k8s.io"], "resources": ["*"], "verbs": ["create", "patch"]},
    ]
    site.plane.grant(*role_of(VIEWER, rules))

    await refused(site, "you lack permissions to install the operator: clusterroles", user="viewer")


async def test_what_keeps_it_from_being_ready_is_said_when_the_time_is_over(site):
    await site.call(f"install --image {IMAGE} --no-wait")
    waiting = {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}
    (pod,) = await eventually(site.pods, within=60)
    container = {"name": "operator", "image": IMAGE, "imageID": "", "ready": False, "restartCount": 0}
    status = {"containerStatuses": [container | {"state": {"waiting": waiting}}]}
    site.plane.admin.patch(f"{NAMESPACES}/tf-operator/pods/{pod['metadata']['name']}/status", {"status": status})

    text = await site.call(f"install --image {IMAGE} --timeout 1s", code=124)

    assert "not ready after 1 s: ImagePullBackOff: Back-off pulling image" in text


async def test_nothing_is_removed_by_somebody_who_may_not_remove_all(site):
    await site.call(f"install --image {IMAGE} --no-wait")
    rules = [
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list"]},
        {"apiGroups": ["", "apps"], "resources": ["*"], "verbs": ["delete"]},
    ]
    site.plane.grant(*role_of(VIEWER, rules))
    versions = site.installed()

    assert "cannot delete resource" in await site.call("uninstall", user="viewer", code=1)
    assert site.installed() == versions


async def test_only_one_namespace_has_it_and_a_namespace_with_other_things_stays(site):
    await site.call(f"install --image {IMAGE} --no-wait")
    site.plane.admin.create(f"{NAMESPACES}/tf-operator/configmaps", {"metadata": {"name": "notes"}})

    await refused(site, "is installed in namespace tf-operator: name it (--namespace tf-operator)", "-n other")
    assert "is installed in namespace tf-operator" in await site.call("uninstall -n other", code=1)
    assert "stays, because of ConfigMap notes" in await site.call("uninstall")

    assert set(site.installed()) == {"CustomResourceDefinition tfjobs.kubeflow.org", "Namespace tf-operator"}


async def test_what_no_list_of_common_kinds_has_keeps_the_namespace_too(site):
    await site.call(f"install --image {IMAGE} --no-wait")
    role = {"metadata": {"name": "team"}, "rules": []}
    site.plane.admin.create("/apis/rbac.authorization.k8s.io/v1/namespaces/tf-operator/roles", role)

    assert "Namespace tf-operator stays, because of Role team" in await site.call("uninstall")

    assert not is_gone(site.plane, f"{NAMESPACES}/tf-operator")


async def test_after_a_cut_the_next_call_removes_the_lease_from_a_namespace_that_stays(site):
    site.plane.admin.create(NAMESPACES, {"metadata": {"name": "tf-operator"}})
    await site.call(f"install --image {IMAGE} --no-wait")
    await site.start_pods()
    site.plane.admin.delete(f"{DEPLOYMENTS.format('tf-operator')}/tf-operator")  # and here it was cut

    assert "Lease tf-operator/tf-operator deleted" in await site.call("uninstall")


async def test_crds_are_deleted_only_after_the_number_of_jobs_was_confirmed(site, monkeypatch):
    await site.call(f"install --image {IMAGE} --no-wait")
    jobs = "/apis/kubeflow.org/v1/namespaces/default/tfjobs"
    await eventually(lambda: not is_gone(site.plane, jobs), within=30)
    site.plane.admin.create(jobs, tfjob("k").workers(1).body())
    versions = site.installed()

    text = await site.call("uninstall --crds", code=1)
    assert "with the CRD 1 TFJob in 1 namespace and their pods are deleted" in text
    monkeypatch.setattr(sys, "stdin", Terminal("n\n"))
    assert "Go on? [y/N] tfjob: nothing was changed" in await site.call("uninstall --crds", code=1)
    assert site.installed() == versions

    monkeypatch.setattr(sys, "stdin", Terminal("y\n"))
    await site.call("uninstall --crds")
    await eventually(lambda: is_gone(site.plane, CRD), within=60)
