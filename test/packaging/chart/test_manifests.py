"""The overlays of manifests/: rendered by kubectl, tried on a real API server, and in line with the chart."""

import copy
import json
import shutil
import subprocess

import pytest

from lab.control_plane.api import ApiRefusedError
from lab.control_plane.plane import namespace_name
from support.api import Api
from support.crds import create_crd
from support.partners.helm import CHART, of_kind, one, parsed
from tf_operator.app import controller_config
from tf_operator.app.options.flag_types import Address
from tf_operator.app.options.options import Webhook, parse
from tf_operator.app.webhook.endpoint import path_of
from tf_operator.meta import ObjectKey

ROOT = CHART.parents[1]
OVERLAYS = (
    "cluster-wide",
    "elastic",
    "high-availability",
    "job-queue",
    "kueue",
    "mlkube",
    "mlkube-accelerators",
    "namespaced",
    "native-gangs",
    "network-policies",
    "progress",
    "protected-metrics",
    "restart-in-place",
    "t9k",
)
CRD = "CustomResourceDefinition"
overlays = pytest.mark.parametrize("overlay", OVERLAYS)


_rendered = {}


@pytest.fixture
def render(kubectl):
    """Render an overlay, once for all tests."""

    def render(overlay):
        if overlay not in _rendered:
            _rendered[overlay] = parsed(kubectl("kustomize", str(ROOT / "manifests" / "overlays" / overlay)))
        return _rendered[overlay]

    return render


@overlays
def test_an_overlay_is_accepted_by_the_api_server_as_it_is(kubectl, plane, overlay):
    folder = str(ROOT / "manifests" / "overlays" / overlay)

    output = kubectl(
        "apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict", "-k", folder
    )

    name = "tf-job-operator" if overlay.startswith("mlkube") else "tf-operator"
    assert f"deployment.apps/{name} serverside-applied (server dry run)" in output


@overlays
def test_its_pods_are_what_pod_security_calls_restricted(render, plane, overlay):
    # With its labels from the start: admission may know a namespace as it was before a change.
    namespace, labels = namespace_name("restricted"), {"pod-security.kubernetes.io/enforce": "restricted"}
    plane.admin.create("/api/v1/namespaces", {"metadata": {"name": namespace, "labels": labels}})
    spec = one(render(overlay), "Deployment")["spec"]["template"]["spec"]
    pod = {"metadata": {"name": "p"}, "spec": copy.deepcopy(spec) | {"serviceAccountName": "default"}}
    plane.admin.wait_for(f"/api/v1/namespaces/{namespace}/serviceaccounts/default")

    plane.admin.create(f"/api/v1/namespaces/{namespace}/pods?dryRun=All&fieldValidation=Strict", pod)
    pod["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = True
    with pytest.raises(ApiRefusedError, match="violates PodSecurity"):
        plane.admin.create(f"/api/v1/namespaces/{namespace}/pods?dryRun=All", pod)


def test_the_commands_for_kubectl_install_the_image_of_the_reader(kubectl, plane, tmp_path):
    page = (ROOT / "docs" / "install.md").read_text()
    (block,) = [block for block in page.split("```")[1::2] if "kubectl apply --server-side -k" in block]
    text = block.removeprefix("sh\n").replace("REGISTRY", "registry.example")
    commands, _, apply = text.rpartition("kubectl apply --server-side -k ")
    shutil.copytree(ROOT / "manifests", tmp_path / "manifests")
    shutil.copytree(CHART, tmp_path / "charts" / "tf-operator")

    subprocess.run(["/bin/sh", "-eu", "-c", commands], cwd=tmp_path, check=True)
    folder = str(tmp_path / apply.strip())
    kubectl("apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict", "-k", folder)

    (container,) = one(parsed(kubectl("kustomize", folder)), "Deployment")["spec"]["template"]["spec"]["containers"]
    assert container["image"].startswith("registry.example/tf-operator:")


@overlays
def test_the_commands_that_remove_what_kubectl_has_applied_leave_nothing_but_crds(render, overlay):
    page = (ROOT / "docs" / "install.md").read_text()
    (block,) = [block for block in page.split("```")[1::2] if "delete rolebinding --all-namespaces --selector" in block]
    selected = {
        kind
        for line in block.replace("\\\n", " ").splitlines()
        if "--selector 'app.kubernetes.io/name=tf-operator," in line
        for kind in line.partition(" delete ")[2].split()[0].split(",")
    }
    left = [
        body
        for body in render(overlay)
        if body["metadata"].get("namespace") != "tf-operator" and body["kind"] not in {"Namespace", CRD}
    ]

    assert "kubectl delete namespace tf-operator\n" in block
    assert {body["kind"].lower() for body in left} - selected == set()
    assert {body["metadata"]["labels"]["app.kubernetes.io/name"] for body in left} == {"tf-operator"}


@pytest.mark.parametrize("version", ["v1alpha1", "v1beta1"])
def test_the_parts_of_the_webhook_find_each_other_where_an_older_version_is_shown(render, version):
    objects = render(f"period-{version}")
    spec = one(objects, "Deployment")["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    command, *flags = container["args"]
    options = parse(flags, {})
    secret, role = one(objects, "Secret")["metadata"], next(r for r in of_kind(objects, "Role") if is_webhook(r))
    service = next(entry for entry in of_kind(objects, "Service") if is_webhook(entry))
    crd = one(objects, "CustomResourceDefinition")
    port = next(entry for entry in container["ports"] if entry["name"] == "webhook")

    assert (command, [str(api.resource) for api in options.apis]) == ("run", [crd["metadata"]["name"]])
    assert options.webhook == Webhook(
        Address("", port["containerPort"]),
        secret=ObjectKey(secret["namespace"], secret["name"]),
        host=f"{service['metadata']['name']}.{service['metadata']['namespace']}.svc",
    )
    assert role["rules"][0]["resourceNames"] == [secret["name"]]
    (rights,) = [entry["rules"][0] for entry in of_kind(objects, "ClusterRole") if is_webhook(entry)]
    assert (rights["resources"], rights["resourceNames"]) == (["customresourcedefinitions"], [crd["metadata"]["name"]])
    target = crd["spec"]["conversion"]["webhook"]["clientConfig"]["service"]
    assert (target["name"], target["path"]) == (service["metadata"]["name"], path_of(options.apis[0]))
    assert [entry["targetPort"] for entry in service["spec"]["ports"]] == ["webhook"]
    served = {entry["name"]: entry["storage"] for entry in crd["spec"]["versions"]}
    assert served == {options.apis[0].resource.version: True, version: False}


def is_webhook(entry):
    return entry["metadata"]["name"].endswith("-webhook")


@pytest.fixture
async def monitoring_kinds(plane):
    """The kinds of the Prometheus operator, without their schemas."""
    async with Api(plane.kubeconfig("admin")) as admin:
        for kind in ("PodMonitor", "PrometheusRule"):
            plural, group = f"{kind.lower()}s", "monitoring.coreos.com"
            schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
            version = {"name": "v1", "served": True, "storage": True, "schema": schema}
            names = {"kind": kind, "plural": plural}
            spec = {"group": group, "scope": "Namespaced", "names": names, "versions": [version]}
            crd = {
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition",
                "metadata": {"name": f"{plural}.{group}"},
                "spec": spec,
            }
            await create_crd(admin, crd)


@pytest.mark.usefixtures("monitoring_kinds")
def test_what_prometheus_and_grafana_need_is_accepted_beside_any_other_overlay(kubectl):
    folder = str(ROOT / "manifests" / "overlays" / "monitoring")

    output = kubectl("apply", "--server-side", "--dry-run=server", "--validate=strict", "-k", folder)

    assert "podmonitor.monitoring.coreos.com/tf-operator serverside-applied (server dry run)" in output
    assert "prometheusrule.monitoring.coreos.com/tf-operator serverside-applied (server dry run)" in output
    assert "configmap/tf-operator-dashboard-overview serverside-applied (server dry run)" in output


def test_the_monitor_finds_the_pods_of_the_overlays_and_calls_them_what_the_alerts_call_them(render):
    monitor = one(render("monitoring"), "PodMonitor")["spec"]
    pods = one(render("cluster-wide"), "Deployment")["spec"]["template"]
    (container,) = pods["spec"]["containers"]
    rules = one(render("monitoring"), "PrometheusRule")["spec"]["groups"]

    assert monitor["selector"]["matchLabels"].items() <= pods["metadata"]["labels"].items()
    assert [item["port"] for item in monitor["podMetricsEndpoints"]] == ["metrics"]
    assert "metrics" in {port["name"] for port in container["ports"]}
    job = f'job="{pods["metadata"]["labels"][monitor["jobLabel"]]}"'
    assert all(job in rule["expr"] for group in rules for rule in group["rules"])


def test_the_dashboards_of_the_overlay_are_those_of_the_chart_and_found_by_the_same_label(render, helm_3):
    ours = of_kind(render("monitoring"), "ConfigMap")
    objects = helm_3.objects({"metrics": {"dashboards": {"enabled": True}}})
    charts = [body for body in of_kind(objects, "ConfigMap") if "dashboard" in body["metadata"]["name"]]
    of_overlay, of_chart = (
        {f: json.loads(t) for b in bodies for f, t in b["data"].items()} for bodies in (ours, charts)
    )

    assert of_overlay == of_chart
    assert set(of_overlay) == {path.name for path in (CHART / "dashboards").glob("*.json")}
    assert {body["metadata"]["labels"]["grafana_dashboard"] for body in (*ours, *charts)} == {"1"}


def test_the_namespaced_overlay_gives_no_right_outside_of_the_namespace(render):
    objects = render("namespaced")

    assert of_kind(objects, "ClusterRoleBinding") == []
    bindings = of_kind(objects, "RoleBinding")
    assert {binding["metadata"]["namespace"] for binding in bindings} == {"default", "tf-operator"}
    (container,) = one(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    assert container["args"] == ["run", "--namespace=default"]


@pytest.mark.documents("mlkube/deployment", "mlkube/printed-deployment")
def test_the_overlay_for_mlkube_serves_its_jobs_and_no_others(render):
    objects = render("mlkube")

    assert [crd["metadata"]["name"] for crd in of_kind(objects, "CustomResourceDefinition")] == ["tfjobs.mlkube.io"]
    deployment = one(objects, "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert deployment["metadata"]["name"] == "tf-job-operator"
    assert container["args"] == ["run", "--enable-scheme=TfJob.mlkube.io", "--tensorboards=external"]


def test_the_overlay_with_accelerators_mounts_a_configuration_that_the_operator_reads(render, tmp_path):
    objects = render("mlkube-accelerators")
    spec = one(objects, "Deployment")["spec"]["template"]["spec"]
    ((name, text),) = one(objects, "ConfigMap")["data"].items()
    (tmp_path / name).write_text(text)

    (accelerator,) = controller_config.read(tmp_path / name).accelerators
    assert (accelerator.resource, len(accelerator.volumes)) == ("alpha.kubernetes.io/nvidia-gpu", 3)
    (mount,) = spec["containers"][0]["volumeMounts"]
    (container,) = one(render("mlkube"), "Deployment")["spec"]["template"]["spec"]["containers"]
    file = f"--controller-config-file={mount['mountPath']}/{name}"
    assert spec["containers"][0]["args"] == [*container["args"], file]
    assert [volume["configMap"] for volume in spec["volumes"]] == [{"name": "tf-job-operator-config"}]


def test_protected_metrics_come_with_the_right_to_ask_who_may_read_them(render):
    objects = render("protected-metrics")
    (container,) = one(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    (subject,) = one(objects, "ClusterRoleBinding", "tf-operator-metrics-auth")["subjects"]

    assert container["args"] == ["run", "--metrics-secure"]
    assert subject == {"kind": "ServiceAccount", "name": "tf-operator", "namespace": "tf-operator"}


def test_the_pods_of_the_overlays_are_those_of_the_chart(render, helm_3):
    ours = one(render("high-availability"), "Deployment")["spec"]["template"]["spec"]
    charts = one(helm_3.objects(), "Deployment")["spec"]["template"]["spec"]
    different = {"serviceAccountName", "affinity", "topologySpreadConstraints", "containers"}

    assert {key: ours[key] for key in ours if key not in different} == {
        key: charts[key] for key in charts if key not in different
    }
    (our_container,), (charts_container,) = ours["containers"], charts["containers"]
    assert {**our_container, "args": 0} == {**charts_container, "args": 0}


def test_every_manifest_is_in_an_overlay(render):
    rendered = {
        (body["kind"], body["metadata"]["name"])
        for overlay in (*OVERLAYS, "period-v1alpha1")
        for body in render(overlay)
    }
    files = [path for folder in ("crd", "rbac", "operator") for path in (ROOT / "manifests" / folder).rglob("*.yaml")]
    written = [body for path in files for body in parsed(path.read_text())]

    assert {(body["kind"], body["metadata"]["name"]) for body in written} <= rendered
