"""Which objects of a cluster are an installation's, which of them it removes, and what is in its way."""

import copy

import pytest

from tf_operator.client.installation import objects, ownership
from tf_operator.client.installation.objects import Values

VALUES = Values("registry.example/tf-operator:1")
CRD = {"kind": "CustomResourceDefinition", "metadata": {"name": "tfjobs.kubeflow.org"}}
OBJECTS = objects.make_objects(VALUES, CRD)
MANAGED = {"managedFields": [{"manager": ownership.FIELD_MANAGER, "operation": "Apply"}]}


def stored(body, **metadata):
    """The object as the cluster has it after an installation."""
    body = copy.deepcopy(body)
    body["metadata"] |= MANAGED | metadata
    return body


def deployment(name, namespace="team", *, args=(), image="registry.example/x:1", replicas=1, **metadata):
    container = {"name": "c", "image": image, "args": list(args)}
    spec = {"replicas": replicas, "template": {"spec": {"containers": [container]}}}
    return {"kind": "Deployment", "metadata": {"name": name, "namespace": namespace, **metadata}, "spec": spec}


def obstacles(present=(), deployments=(), values=VALUES):
    return list(ownership.obstacles(values, OBJECTS, present, deployments))


def test_an_upgrade_removes_what_is_no_part_any_more_the_deployment_first_and_neither_namespace_nor_crd():
    present = [stored(body) for body in objects.make_objects(Values("i", features=("high-availability", "kueue")), CRD)]
    other = Values("i", namespace="other")

    surplus = ownership.surplus(present, OBJECTS)
    all_of_them = ownership.surplus(present, objects.make_objects(other, CRD))

    assert sorted(map(objects.name_of, surplus)) == [
        "ClusterRole tf-operator-kueue",
        "ClusterRole tf-operator-kueue-classes",
        "ClusterRoleBinding tf-operator-kueue",
        "ClusterRoleBinding tf-operator-kueue-classes",
        "PodDisruptionBudget tf-operator/tf-operator",
    ]
    assert all_of_them[0]["kind"] == "Deployment"
    assert {"Namespace", "CustomResourceDefinition"}.isdisjoint(body["kind"] for body in all_of_them)


@pytest.mark.parametrize(
    "metadata",
    [
        {"labels": {}},
        {"managedFields": []},
        {"managedFields": [{"manager": "kubectl", "operation": "Apply"}]},
        {"managedFields": [{"manager": ownership.FIELD_MANAGER, "operation": "Update"}]},
    ],
)
def test_an_object_that_another_has_made_is_never_removed(metadata):
    body = {"kind": "ClusterRole", "metadata": {"name": "a", "labels": {objects.OWNER_LABEL: objects.OWNER}}}
    assert ownership.surplus([stored(body)], OBJECTS)

    assert not ownership.surplus([stored(body, **metadata)], OBJECTS)


def test_the_own_installation_is_no_obstacle_but_one_in_another_namespace_is():
    present = [stored(body) for body in OBJECTS]
    own = present[-1]

    assert obstacles(present, [own]) == []
    (sentence,) = obstacles([], [own], Values("i", namespace="other"))
    assert sentence.startswith("the operator is installed in namespace tf-operator: name it (--namespace tf-operator)")


def test_a_namespace_and_a_definition_may_have_been_there_before_and_nothing_else():
    (sentence,) = {text.partition(" ")[2] for text in obstacles([OBJECTS[0], CRD, *OBJECTS[2:3]])}
    assert sentence.startswith("tf-operator/tf-operator exists and was not created by tfjob install")


def test_what_kubectl_has_installed_is_named_as_such_and_not_as_a_rival():
    there = deployment("tf-operator", "tf-operator")

    sentences = obstacles([there], [there])
    assert sentences[0].startswith("Deployment tf-operator/tf-operator exists and was not created by tfjob install")


def test_a_definition_with_a_webhook_is_not_taken_over():
    crd = CRD | {"spec": {"conversion": {"strategy": "Webhook"}}}

    (sentence,) = obstacles([crd])
    assert "tf-operator crd --apply removes them first" in sentence


HELM = {"meta.helm.sh/release-name": "tf", "meta.helm.sh/release-namespace": "team"}


def test_a_release_of_helm_is_an_obstacle_even_without_replicas():
    ours = deployment("tf", replicas=0, annotations=HELM, labels={"app.kubernetes.io/name": "tf-operator"})
    others = deployment("web", annotations=HELM, labels={"app.kubernetes.io/name": "web"})

    assert obstacles(deployments=[others]) == []
    (sentence,) = obstacles(deployments=[ours])
    assert "as the release tf in namespace team" in sentence


@pytest.mark.parametrize(
    ("body", "is_rival"),
    [
        (deployment("training-operator"), True),
        (deployment("tf-job-operator"), True),
        (deployment("x", image="kubeflow/training-operator:v1"), True),
        (deployment("x", image="tf-operator@sha256:1"), True),
        (deployment("training-operator", args=["--enable-scheme=tfjob"]), True),
        (deployment("training-operator", args=["--enable-scheme=pytorchjob"]), False),
        (deployment("training-operator", args=["--namespace=vision"]), True),
        (deployment("training-operator", args=["--namespace", "speech"]), False),
        (deployment("training-operator", replicas=0), False),
        (deployment("training-operator-ui", image="a/training-operator-ui:1"), False),
        (deployment("web"), False),
        ({"kind": "Deployment", "metadata": {"name": "training-operator"}, "spec": "damaged"}, False),
    ],
)
def test_a_deployment_that_runs_tfjobs_in_a_namespace_to_be_served_is_an_obstacle(body, is_rival):
    assert bool(obstacles(deployments=[body], values=Values("i", job_namespaces=("vision",)))) is is_rival
