"""kubeflow.org/hub: v1 under a name that is no number, for clusters that show an older version and no v1."""

from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from msgspec import structs

from tf_operator.dialects.kubeflow import hub, v1
from tf_operator.dialects.served import ServedAPI

EXAMPLES = Path(__file__).resolve().parents[4] / "manifests/examples"


@pytest.mark.parametrize(("api", "of_v1"), [(hub.API, v1.API), (hub.FORK_API, v1.FORK_API)], ids=["usual", "fork"])
@pytest.mark.parametrize("file", ["kubeflow-v1alpha1/tf_job.yaml", "kubeflow-v1beta1/tf_job.yaml"])
def test_a_job_differs_from_one_in_v1_by_the_name_of_the_version_alone(
    file: str, api: ServedAPI, of_v1: ServedAPI
) -> None:
    body = yaml.safe_load((EXAMPLES / file).read_text())
    body["metadata"] |= {"namespace": "n", "uid": "u"}
    version = body["apiVersion"].partition("/")[2]
    stored, in_v1 = api.conversion.convert(body, "hub"), of_v1.conversion.convert(body, "v1")

    assert stored == in_v1 | {"apiVersion": "kubeflow.org/hub"}
    assert api.conversion.convert(stored, version) == of_v1.conversion.convert(in_v1, version)
    job, same = api.read_object(stored), of_v1.read_object(in_v1)
    assert job.profile == replace(same.profile, api_version="kubeflow.org/hub")
    assert structs.replace(job, profile=same.profile) == same


def test_it_is_installed_with_one_older_version_beside_it() -> None:
    versions = hub.API.crd.load("v1alpha1")["spec"]["versions"]
    assert {entry["name"]: entry["storage"] for entry in versions} == {"hub": True, "v1alpha1": False}
