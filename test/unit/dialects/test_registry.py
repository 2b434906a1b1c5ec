"""How users name a served API."""

import pytest

from tf_operator.dialects import registry


@pytest.mark.parametrize(
    ("name", "api_version"),
    [
        ("TFJob", "kubeflow.org/v1"),
        ("tfjob.kubeflow.org", "kubeflow.org/v1"),
        ("tfjob.v1.kubeflow.org", "kubeflow.org/v1"),
        ("TFJob.hub.kubeflow.org", "kubeflow.org/hub"),
        ("job", None),
        ("tfjob.v2.kubeflow.org", None),
    ],
)
def test_an_api_is_named_by_kind_group_and_version_in_any_letter_case(name, api_version):
    api = registry.find(name)

    assert (api and api.resource.api_version) == api_version
