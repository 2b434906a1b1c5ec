"""How users name a served API."""

import pytest

from tf_operator.dialects import registry
from tf_operator.dialects.kubeflow import hub, v1


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


@pytest.mark.parametrize("api", registry.SERVED, ids=lambda api: api.profile.kind)
def test_an_object_is_of_the_api_of_its_version_and_kind_and_a_kind_of_every_api_that_has_it(api):
    for version in (api.resource.version, *api.conversion.versions):
        body = {"apiVersion": f"{api.resource.group}/{version}", "kind": api.resource.kind}
        assert registry.api_of(body) is api
        assert registry.api_of(body | {"kind": "Job"}) is None
        assert registry.api_of(body | {"apiVersion": f"example.com/{version}"}) is None
    assert registry.api_of({"apiVersion": f"{api.resource.group}/v9", "kind": api.resource.kind}) is None
    assert registry.of_kind(api.resource.kind) == (api,)


def test_the_kinds_are_named_for_people():
    assert registry.kinds() == "TFJob or TfJob or TensorFlowTrainingJob"


def test_only_an_api_with_jobs_of_v1alpha1_has_the_exit_codes_of_the_fork():
    changed = {api: registry.with_codes_of_fork(api) for api in (*registry.SERVED, *registry.ON_REQUEST)}

    assert changed.pop(v1.API) is v1.FORK_API
    assert changed.pop(hub.API) is hub.FORK_API
    assert all(api is same for api, same in changed.items())
