"""The CRD that is installed with the package."""

from tf_operator.dialects import crd


def test_the_crd_is_there():
    assert crd.load()["metadata"]["name"] == "tfjobs.kubeflow.org"


def test_each_caller_gets_an_object_of_its_own():
    crd.load()["metadata"]["name"] = "changed"

    assert crd.load()["metadata"]["name"] == "tfjobs.kubeflow.org"


def test_the_text_is_one_line():
    assert len(crd.text().splitlines()) == 1
