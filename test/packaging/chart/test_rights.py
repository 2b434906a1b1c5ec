"""The operator's rights: the table of docs/security.md is what the chart gives, and less by an admission policy."""

import json
import subprocess

import pytest
import yaml

from pages import rights
from support.partners.helm import CHART, of_kind, one
from support.settle import eventually

ROOT = CHART.parents[1]
OWN = ("tf-tf-operator", "-leader-election", "-webhook", "-kueue", "-job-queue", "-progress", "-metrics-auth")
ACCOUNT = "system:serviceaccount:tf-operator:tf-tf-operator"
NAMESPACE = "team"


def granted(objects):
    """What the operator may do: in what it serves, in the whole cluster, and at home."""
    places = {"served": set(), "everywhere": set(), "at home": set()}
    for role in [*of_kind(objects, "ClusterRole"), *of_kind(objects, "Role")]:
        name, namespace = role["metadata"]["name"], role["metadata"].get("namespace")
        if name == OWN[0]:
            places["served"] |= spelled(role["rules"])
        elif name.removeprefix(OWN[0]) in OWN:
            places["at home" if namespace else "everywhere"] |= spelled(role["rules"])
    return places


def spelled(rules):
    return {
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def listed(option):
    places = {"served": option.served, "everywhere": option.everywhere, "at home": option.at_home}
    return {place: spelled(rights.rules(ROOT, *files)) for place, files in places.items()}


@pytest.mark.parametrize("option", rights.OPTIONS, ids=lambda option: option.name)
def test_the_table_of_rights_is_what_the_chart_gives(helm_3, option):
    by_default = listed(rights.OPTIONS[0])
    by_place, by_table = granted(helm_3.objects(dict(option.values))), listed(option)
    if "certificateSecret" in json.dumps(option.values):
        by_place["everywhere"] -= {("apiextensions.k8s.io", "customresourcedefinitions", "get")}

    assert by_place == {place: by_default[place] | by_table[place] for place in by_place}


@pytest.mark.parametrize("option", rights.OPTIONS, ids=lambda option: option.name)
def test_an_operator_for_namespaces_has_in_the_whole_cluster_only_what_the_table_says(helm_3, option):
    objects = helm_3.objects({**option.values, "watch": {"namespaces": [NAMESPACE]}})
    listed_rights = set() if "oldVersions" in option.name else listed(option)["everywhere"]

    assert granted(objects)["everywhere"] == listed_rights
    assert OWN[0] not in {role["metadata"]["name"] for role in of_kind(objects, "ClusterRole")}


def test_the_policy_of_the_manifests_is_that_of_the_chart(helm_3):
    policy = one(helm_3.objects({"apis": {"tensorboards": "serve"}}), "ValidatingAdmissionPolicy")
    text = (ROOT / "manifests/rbac/tensorboard/admission-policy.yaml").read_text()
    expected = yaml.safe_load(text.replace("system:serviceaccount:tf-operator:tf-operator", ACCOUNT))

    assert policy["spec"] == expected["spec"]


def deployment(name, **metadata):
    labels = {"app": name}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": pod}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, **metadata}, "spec": spec}


OWNER = {"apiVersion": "tensorstack.dev/v1beta1", "kind": "TensorBoard", "name": "b", "uid": "0", "controller": True}
OURS = {"labels": {"training.kubeflow.org/operator-name": "tensorboard-controller"}, "ownerReferences": [OWNER]}


async def test_a_stolen_token_changes_no_deployment_but_those_of_tensorboards(helm_3, plane, kubectl):
    namespace = plane.make_namespace("policy")
    objects = helm_3.objects({"apis": {"tensorboards": "serve"}})
    kinds = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
    policies = [of_kind(objects, kind)[0] for kind in kinds]
    for body in (one(objects, "ClusterRole", OWN[0]), one(objects, "ClusterRoleBinding", OWN[0]), *policies):
        plane.admin.apply(body)
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    for body in (deployment("foreign"), deployment("board", **OURS), deployment("labelled", labels=OURS["labels"])):
        plane.admin.create(path, body)

    def change(*arguments, stdin=""):
        """Empty when it is allowed."""
        try:
            kubectl(*arguments, f"--namespace={namespace}", f"--as={ACCOUNT}", "--dry-run=server", stdin=stdin)
        except subprocess.CalledProcessError as failure:
            return failure.stderr
        return ""

    def scale(name):
        return change("patch", "deployment", name, "--patch", '{"spec": {"replicas": 1}}')

    refusal = "This account may change Deployments of TensorBoards only."
    await eventually(lambda: refusal in scale("foreign"), within=30)
    assert scale("board") == change("delete", "deployment", "board") == ""
    adopted = json.dumps({"metadata": OURS})
    for refused in (
        scale("labelled"),
        change("delete", "deployment", "foreign"),
        change("patch", "deployment", "foreign", "--patch", adopted),
        change("create", "--filename=-", stdin=json.dumps(deployment("new"))),
    ):
        assert refusal in refused
    assert change("create", "--filename=-", stdin=json.dumps(deployment("next-board", **OURS))) == ""
    for body in policies:
        kubectl("delete", body["kind"], body["metadata"]["name"])
