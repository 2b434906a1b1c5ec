"""Paths and names of API resources."""

import pytest

from support.resources import CRDS, NODES, PODS, TFJOBS, resource_of


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (PODS.path("ns", "a", "status"), "/api/v1/namespaces/ns/pods/a/status"),
        (PODS.path("ns"), "/api/v1/namespaces/ns/pods"),
        (PODS.path(), "/api/v1/pods"),
        (NODES.path(name="n"), "/api/v1/nodes/n"),
        (TFJOBS.path("ns", "j"), "/apis/kubeflow.org/v1/namespaces/ns/tfjobs/j"),
        (TFJOBS.path("ns", "../a?b"), "/apis/kubeflow.org/v1/namespaces/ns/tfjobs/..%2Fa%3Fb"),
    ],
    ids=["subresource", "namespace", "all namespaces", "cluster-scoped", "group", "quoted"],
)
def test_a_path_names_what_is_given(found, expected):
    assert found == expected


def test_names_carry_the_group_except_in_the_core_api():
    assert (PODS.qualified, PODS.api_version) == ("pods", "v1")
    assert (TFJOBS.qualified, TFJOBS.api_version) == ("tfjobs.kubeflow.org", "kubeflow.org/v1")
    assert CRDS.qualified == "customresourcedefinitions.apiextensions.k8s.io"


def test_a_crd_is_read_at_its_storage_version_unless_another_is_named():
    versions = [{"name": "v1alpha1", "storage": False}, {"name": "v2", "storage": True}]
    crd = {"spec": {"group": "example.test", "names": {"plural": "things"}, "versions": versions}}

    assert resource_of(crd).path() == "/apis/example.test/v2/things"
    assert resource_of(crd, "v1alpha1").path() == "/apis/example.test/v1alpha1/things"
