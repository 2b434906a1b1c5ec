"""What the chart makes of values: the operator's flags, the manifests, and what other tools say of it.

The shapes of single objects are in the chart's own tests.
"""

import json
import shutil
import subprocess
from configparser import ConfigParser
from pathlib import Path

import pytest
import yaml

from lab.tools.get import programs
from support.partners.helm import CHART, Helm, of_kind, one, parsed
from tf_operator.app import controller_config
from tf_operator.app.options import flags, options

ROOT = CHART.parents[1]
CONFIG = {
    "accelerators": {
        "example.org/gpu": {"volumes": [{"name": "lib", "hostPath": "/lib", "mountPath": "/usr/lib/gpu"}]},
    },
    "tfImage": "registry.example/tensorflow",
}
# Each makes other objects or other fields; together they reach every branch of the templates.
PROFILES = {
    "defaults": {},
    "namespaced": {"watch": {"namespaces": ["team-a", "team-b"]}},
    "namespaced without a right in the cluster": {
        "watch": {"namespaces": ["team-a"]},
        "crds": {"enabled": False},
        "rbac": {"userRoles": False},
        "test": {"enabled": False},
    },
    "further APIs": {"apis": {"mlkube": {"enabled": True}, "t9k": {"enabled": True}, "tensorboards": "serve"}},
    "elastic": {"elastic": {"horizontalPodAutoscalers": True, "restartInPlace": True}},
    "isolated": {"networkPolicy": {"jobs": "all"}},
    "alone": {"replicaCount": 1, "leaderElection": {"enabled": False}},
    "monitored": {
        "metrics": {
            "podMonitor": {"enabled": True, "additionalLabels": {"release": "prometheus"}, "interval": "30s"},
            "dashboards": {"enabled": True, "annotations": {"grafana_folder": "jobs"}},
            "prometheusRule": {"enabled": True, "additionalLabels": {"release": "prometheus"}},
        }
    },
    "protected": {
        "metrics": {
            "secure": {"enabled": True, "readers": [{"name": "prometheus", "namespace": "monitoring"}]},
            "serviceMonitor": {"enabled": True},
        }
    },
    "protected with a certificate": {
        "metrics": {
            "secure": {"enabled": True, "certificateSecret": "certificate", "tokenSecret": "token"},
            "podMonitor": {"enabled": True},
        }
    },
    "older versions": {"apis": {"kubeflow": {"oldVersions": ["v1beta2", "v1beta1", "v1alpha2", "v1alpha1"]}}},
    "older versions with a certificate": {
        "apis": {"kubeflow": {"oldVersions": ["v1beta1"]}, "webhook": {"port": 9000, "certificateSecret": "tls"}}
    },
    "older versions for namespaces": {
        "apis": {"kubeflow": {"oldVersions": ["v1beta1"]}, "webhook": {"certificateSecret": "tls"}},
        "watch": {"namespaces": ["team-a"]},
        "networkPolicy": {"webhookFrom": [{"ipBlock": {"cidr": "192.0.2.0/28"}}]},
    },
    "configured": {"config": {"inline": CONFIG}},
    "bare": {
        "metrics": {"enabled": False, "service": False},
        "networkPolicy": {"enabled": False},
        "podDisruptionBudget": {"enabled": False},
        "serviceAccount": {"create": False, "name": "mine"},
        "rbac": {"create": False},
        "crds": {"keep": False},
        "topologySpreadConstraints": [],
    },
    "full": {
        "fullnameOverride": "jobs",
        "image": {"repository": "registry.example:5000/tf-operator", "digest": f"sha256:{'0' * 64}"},
        "imagePullSecrets": [{"name": "pull"}],
        "controller": {"gangSchedulerName": "volcano", "clusterDomain": "cluster.local"},
        "affinity": {"nodeAffinity": {}},
        "nodeSelector": {"pool": "system"},
        "tolerations": [{"key": "system", "operator": "Exists"}],
        "priorityClassName": "system-cluster-critical",
        "podLabels": {"team": "ml"},
        "commonLabels": {"team": "all", "release": "prometheus", "2024": "no"},
        "deploymentAnnotations": {"note": "0"},
        "extraArgs": ["--leader-election-namespace=jobs"],
        "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy.example:3128"}],
        "extraEnvFrom": [{"configMapRef": {"name": "site"}}],
        "extraVolumes": [{"name": "authority", "configMap": {"name": "authority"}}],
        "extraVolumeMounts": [{"name": "authority", "mountPath": "/etc/ssl/certs", "readOnly": True}],
        "extraInitContainers": [{"name": "proxy", "image": "proxy:1", "restartPolicy": "Always"}],
        "podAnnotations": {"note": "1"},
        "serviceAccount": {"annotations": {"note": "2"}},
        "crds": {"annotations": {"note": "3"}},
        "securityContext": {"runAsUser": None, "runAsGroup": None},
        "extraObjects": [
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "{{ .Release.Name }}-one"}},
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}-two",
        ],
    },
}
NAMES = {
    *("name", "namespace", "serviceAccountName", "priorityClassName", "secretName", "key", "serverName"),
    *("resourceNames", "matchNames"),
}
# Kinds of the Prometheus operator and of cert-manager.
FOREIGN = "PodMonitor,ServiceMonitor,PrometheusRule,Certificate"
C = {"name": "watcher", "image": "watcher:1"}
profiles = pytest.mark.parametrize("values", PROFILES.values(), ids=PROFILES)


@profiles
def test_helm_3_and_helm_4_make_the_same_objects(values, tmp_path):
    # They put them in another order.
    assert parts(Helm("helm-3", tmp_path).render(values)) == parts(Helm("helm-4", tmp_path).render(values))


def parts(text):
    return sorted(part.strip() for part in text.split("---\n"))


def test_names_that_look_like_numbers_or_switches_stay_texts(helm):
    values = {
        "fullnameOverride": "no",
        "nameOverride": "1",
        "watch": {"namespaces": ["2024", "on"]},
        "serviceAccount": {"name": "7"},
        "leaderElection": {"leaseName": "8"},
        "priorityClassName": "9",
        "metrics": {
            "secure": {"enabled": True, "certificateSecret": "1", "tokenSecret": "2"},
            "serviceMonitor": {"enabled": True},
        },
    }
    objects = parsed(helm.ok("template", "2024", CHART, "--namespace", "42", values=values))

    plain = set(numbers_and_switches(objects))
    assert {path for path in plain if path.rpartition(".")[2] in NAMES or ".labels." in path} == set()


def numbers_and_switches(body, path=""):
    """Where there is a value that is no text."""
    if isinstance(body, dict):
        for name, part in body.items():
            yield from numbers_and_switches(part, f"{path}.{name}")
    elif isinstance(body, list):
        for part in body:
            yield from numbers_and_switches(part, path)
    elif not isinstance(body, str):
        yield path


def test_every_object_of_the_release_has_the_common_labels_and_no_selector_has_them(helm_3):
    objects = helm_3.objects(
        {
            "commonLabels": {"team": "ml", "release": "none"},
            "metrics": {
                "podMonitor": {"enabled": True, "additionalLabels": {"release": "prometheus"}},
                "prometheusRule": {"enabled": True},
                "dashboards": {"enabled": True},
            },
        }
    )

    assert {body["metadata"]["labels"]["team"] for body in objects} == {"ml"}
    assert one(objects, "Deployment")["spec"]["template"]["metadata"]["labels"]["team"] == "ml"
    assert one(objects, "PodMonitor")["metadata"]["labels"]["release"] == "prometheus"
    selectors = [body["spec"]["selector"] for body in objects if "selector" in body.get("spec", {})]
    assert len(selectors) == 4
    assert "team" not in str(selectors)


@profiles
def test_lint_has_no_complaint(helm, values):
    helm.ok("lint", "--strict", CHART, values=values)


def container_of(objects):
    (container,) = one(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    return container


@profiles
def test_the_operator_understands_its_arguments_and_warns_of_none(helm_3, values):
    container = container_of(helm_3.objects(values))
    environment = {item["name"]: item.get("value", "from-the-pod") for item in container["env"]}

    command, *arguments = container["args"]
    understood = options.parse(arguments, environment)

    assert (command, understood.warnings) == ("run", ())
    assert understood.namespaces == tuple(values.get("watch", {}).get("namespaces", ()))


def test_defaults_of_values_are_the_defaults_of_flags(helm_3):
    container = container_of(helm_3.objects())
    arguments = dict(argument.removeprefix("--").split("=", 1) for argument in container["args"][1:])
    renamed = {"leader-election-id": "tf-tf-operator"}

    assert arguments == {name: renamed.get(name, flags.BY_NAME[name].default) for name in arguments}


def test_every_flag_can_be_chosen(helm_3):
    values = {
        "watch": {"namespaces": ["a"]},
        "apis": {
            "mlkube": {"enabled": True},
            "kubeflow": {"oldVersions": ["v1beta2"], "v1alpha1ExitCodes": "fork"},
            "tensorboards": "serve",
        },
        "config": {"configmap": "tf-job-operator-config"},
        "controller": {
            "gangSchedulerName": "volcano",
            "gangSchedulersByJob": ["native"],
            "kueue": "external",
            "jobQueue": {"enabled": True},
        },
        "elastic": {"horizontalPodAutoscalers": True, "restartInPlace": True},
        "networkPolicy": {"jobs": "requested"},
        "metrics": {"secure": {"enabled": True, "certificateSecret": "certificate"}},
        "progress": {"enabled": True},
    }
    with_certificate = {**values, "apis": {**values["apis"], "webhook": {"certificateSecret": "certificate"}}}
    everywhere = {**values, "watch": {"namespaces": []}}
    flag_names = set().union(
        *(given_flags(helm_3.objects(choice)) for choice in (values, with_certificate, everywhere))
    )

    # The pod's own account, and its own namespace, are what there is in a pod; files in a Secret have the names that
    # Kubernetes gives them.
    files = {"metrics-cert-name", "metrics-cert-key"}
    assert {flag.name for flag in flags.FLAGS} - flag_names == {"kubeconfig", "leader-election-namespace", *files}


def test_the_configuration_in_the_values_is_one_that_the_operator_reads(helm_3, tmp_path):
    objects = helm_3.objects(PROFILES["configured"])
    ((name, text),) = one(objects, "ConfigMap", "tf-tf-operator-config")["data"].items()
    (tmp_path / name).write_text(text)
    container = container_of(objects)

    assert controller_config.read(tmp_path / name).server_image == CONFIG["tfImage"]
    assert len(controller_config.read(tmp_path / name).accelerators) == 1
    assert f"--controller-config-file={container['volumeMounts'][0]['mountPath']}/{name}" in container["args"]


def given_flags(objects):
    return {argument.removeprefix("--").partition("=")[0] for argument in container_of(objects)["args"][1:]}


def test_no_object_is_outside_of_namespaces_when_namespaces_are_served_and_the_cluster_s_own_are_left_out(helm_3):
    objects = helm_3.objects(PROFILES["namespaced without a right in the cluster"])

    assert {body["kind"] for body in objects if "namespace" not in body["metadata"]} == set()
    assert {body["metadata"]["namespace"] for body in of_kind(objects, "RoleBinding")} == {"team-a", "tf-operator"}
    assert of_kind(objects, "ClusterRole") == []


def test_rights_in_a_namespace_are_those_of_the_manifests(helm_3):
    rules = yaml.safe_load((ROOT / "manifests/rbac/cluster-role.yaml").read_text())["rules"]
    objects = helm_3.objects(PROFILES["namespaced"])
    roles = [role for role in of_kind(objects, "Role") if role["metadata"]["name"] == "tf-tf-operator"]

    assert [role["rules"] for role in roles] == [rules, rules]
    assert one(helm_3.objects(), "ClusterRole", "tf-tf-operator")["rules"] == rules


def test_rights_to_ask_who_may_read_metrics_are_those_of_the_manifests_and_there_only_when_needed(helm_3):
    folder = ROOT / "manifests/overlays/protected-metrics"
    objects = helm_3.objects(PROFILES["protected"])
    for name in ("metrics-auth", "metrics-reader"):
        rules = yaml.safe_load((folder / f"cluster-role-{name}.yaml").read_text())["rules"]
        assert one(objects, "ClusterRole", f"tf-tf-operator-{name}")["rules"] == rules
    bindings = {body["metadata"]["name"]: body["subjects"] for body in of_kind(objects, "ClusterRoleBinding")}

    assert [subject["name"] for subject in bindings["tf-tf-operator-metrics-auth"]] == ["tf-tf-operator"]
    assert [subject["namespace"] for subject in bindings["tf-tf-operator-metrics-reader"]] == ["monitoring"]
    assert "metrics" not in str([body["metadata"]["name"] for body in of_kind(helm_3.objects(), "ClusterRole")])


def test_the_crd_is_that_of_the_manifests_and_stays_when_the_release_goes(helm_3):
    manifest = yaml.load((ROOT / "manifests/crd/tfjobs.yaml").read_text(), Loader=yaml.CSafeLoader)
    crd = one(helm_3.objects(), "CustomResourceDefinition")

    assert crd["spec"] == manifest["spec"]
    assert crd["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}


ELASTIC_ROLES = ("cluster-role.yaml", "elastic/cluster-role.yaml", "in-place/cluster-role.yaml")
FOLDERS = (".", "mlkube", "t9k", "tensorboard")


def test_an_api_beside_tfjob_comes_with_its_crd_the_rights_that_it_needs_and_the_flag(helm_3):
    objects = helm_3.objects(PROFILES["further APIs"])

    for file in ("mlkube/tfjobs.yaml", "t9k/tensorflowtrainingjobs.yaml", "tensorboard/tensorboards.yaml"):
        manifest = yaml.load((ROOT / "manifests/crd" / file).read_text(), Loader=yaml.CSafeLoader)
        assert one(objects, "CustomResourceDefinition", manifest["metadata"]["name"])["spec"] == manifest["spec"]
    for role, source in (("", "cluster-role"), ("-edit", "user-role-edit"), ("-view", "user-role-view")):
        files = (ROOT / "manifests/rbac" / folder / f"{source}.yaml" for folder in FOLDERS)
        rules = [rule for file in files for rule in yaml.safe_load(file.read_text())["rules"]]
        assert one(objects, "ClusterRole", f"tf-tf-operator{role}")["rules"] == rules
    kinds = [argument.partition("=")[2] for argument in container_of(objects)["args"] if "scheme" in argument]
    assert kinds == ["TFJob", "TfJob.mlkube.io", "TensorFlowTrainingJob"]
    assert "--tensorboards=serve" in container_of(objects)["args"]


def test_rights_for_elastic_jobs_are_those_of_the_manifests_and_there_only_when_needed(helm_3):
    rules = [yaml.safe_load((ROOT / f"manifests/rbac/{file}").read_text())["rules"] for file in ELASTIC_ROLES]

    granted = one(helm_3.objects(PROFILES["elastic"]), "ClusterRole", "tf-tf-operator")["rules"]
    assert granted == [*rules[0], *rules[1], *rules[2]]
    assert one(helm_3.objects(), "ClusterRole", "tf-tf-operator")["rules"] == rules[0]


def test_queues_of_kueue_bring_rights_in_the_served_namespaces_and_on_what_has_no_namespace(helm_3):
    objects = helm_3.objects({"controller": {"kueue": "external"}, "watch": {"namespaces": ["a"]}})
    written = [
        yaml.safe_load((ROOT / "manifests/rbac/kueue" / f"cluster-role{name}.yaml").read_text())["rules"]
        for name in ("", "-classes")
    ]

    role, classes = one(objects, "Role", "tf-tf-operator"), one(objects, "ClusterRole", "tf-tf-operator-kueue")
    assert (role["metadata"]["namespace"], role["rules"][-len(written[0]) :]) == ("a", written[0])
    assert classes["rules"] == written[1]
    assert "kueue" not in str(one(helm_3.objects(), "ClusterRole", "tf-tf-operator"))


def test_alerts_are_those_of_the_manifests_about_the_replicas_of_this_release(helm_3):
    source = (ROOT / "manifests/monitoring/alerts.yaml").read_text()
    ours = source.replace('job="tf-operator"', 'job="tf", namespace="tf-operator"')
    objects = helm_3.objects({"metrics": {"prometheusRule": {"enabled": True}, "podMonitor": {"enabled": True}}})

    assert one(objects, "PrometheusRule", "tf-tf-operator")["spec"] == yaml.safe_load(ours)
    # Both monitors call by the name of the release what the alerts call job.
    assert one(objects, "PodMonitor")["spec"]["jobLabel"] == "app.kubernetes.io/instance"
    assert one(objects, "Deployment")["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/instance"] == "tf"


def test_the_chart_is_of_the_release_that_the_package_is():
    package = ConfigParser()
    package.read(ROOT / "setup.cfg")
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())

    assert chart["appVersion"] == chart["version"] == package["metadata"]["version"]
    assert chart["annotations"]["artifacthub.io/license"] == package["metadata"]["license"]


def test_the_packaged_chart_has_what_users_need_and_no_more(helm, tmp_path):
    helm.ok("package", CHART, "--destination", tmp_path)
    (archive,) = Path(tmp_path).glob("*.tgz")
    shutil.unpack_archive(archive, tmp_path / "unpacked")
    files = {path.name for path in (tmp_path / "unpacked" / "tf-operator").iterdir()}

    assert {"Chart.yaml", "README.md", "values.yaml", "values.schema.json", "templates", "files"} <= files
    assert not files & {"tests", "README.md.gotmpl"}
    assert archive.stat().st_size < 300_000


@pytest.fixture(scope="module")
def kubeconform(plane, tmp_path_factory):
    """Check manifests against the API server's own description of every kind: closed, and numbers may be texts."""
    folder = tmp_path_factory.mktemp("schemas")
    definitions = plane.admin.get("/openapi/v2")["definitions"]
    for definition in definitions.values():
        if definition.get("format") == "int-or-string":
            definition["type"] = ["string", "integer"]
        if "properties" in definition:
            definition.setdefault("additionalProperties", False)
    (folder / "definitions.json").write_text(json.dumps({"definitions": definitions}))
    for name, definition in definitions.items():
        for kind in definition.get("x-kubernetes-group-version-kind", ()):
            group = f"{kind['group'].partition('.')[0]}-" if kind["group"] else ""
            path = folder / f"{kind['kind']}-{group}{kind['version']}.json".lower()
            path.write_text(json.dumps({"$ref": f"definitions.json#/definitions/{name}"}))
    location = f"{folder}/{{{{ .ResourceKind }}}}{{{{ .KindSuffix }}}}.json"
    command = [programs("kubeconform")["kubeconform"], "-strict", "-skip", FOREIGN, "-schema-location", location]
    return lambda text: subprocess.run(command, input=text, capture_output=True, text=True, check=False)


def test_every_object_fits_the_schemas_of_the_api_server(helm_3, kubeconform):
    process = kubeconform(
        "\n---\n".join(helm_3.render(values) for values in (*PROFILES.values(), {"extraContainers": [C]}))
    )

    assert process.returncode == 0, process.stdout + process.stderr


def test_a_field_that_does_not_exist_does_not_fit_the_schemas(helm_3, kubeconform):
    process = kubeconform(helm_3.render().replace("revisionHistoryLimit: 3", "revisionHistoryLimits: 3"))

    assert process.returncode == 1
    assert "revisionHistoryLimits" in process.stdout


@pytest.mark.parametrize("name", ["defaults", "namespaced", "monitored", "protected with a certificate", "alone"])
def test_kube_score_finds_nothing_critical_and_nothing_to_warn_of(helm_3, name):
    command = [programs("kube-score")["kube-score"], "score", "--output-format", "ci", "-"]

    process = subprocess.run(command, input=helm_3.render(PROFILES[name]), capture_output=True, text=True, check=False)
    findings = [line for line in process.stdout.splitlines() if not line.startswith(("[OK]", "[SKIPPED]"))]

    # One replica is what its user asked for.
    expected = "[WARNING] tf-tf-operator/tf-operator apps/v1/Deployment" if name == "alone" else "none"
    assert [line for line in findings if not line.startswith(expected)] == []


def test_what_kube_score_is_told_to_ignore_has_a_reason_beside_it():
    for path in (CHART / "templates").rglob("*.yaml"):
        lines = path.read_text().splitlines()
        for number, line in enumerate(lines):
            if "kube-score/ignore:" in line:
                assert lines[number - 1].strip().startswith("#"), f"{path}: say why"


def test_the_job_of_helm_test_is_one_that_this_api_server_takes(helm_3, plane):
    job = json.loads(one(helm_3.objects(), "ConfigMap", "tf-tf-operator-test")["data"]["job.json"])
    job["metadata"]["namespace"] = namespace = plane.make_namespace("dry-run")

    plane.admin.create(f"/apis/kubeflow.org/v1/namespaces/{namespace}/tfjobs?dryRun=All&fieldValidation=Strict", job)
