"""What checkov says of the chart as production should have it, and of the Dockerfile: nothing but what has a reason."""

import json
import shutil
import subprocess

import pytest

from support.partners.helm import CHART, Helm

ROOT = CHART.parents[1]
# The first time on a machine, its venv is made. It takes a minute of CPU; kube-score tells most of the same at once.
pytestmark = [pytest.mark.nightly, pytest.mark.timeout(700)]
DIGEST = {"image": {"digest": f"sha256:{'0' * 64}"}}
# Each has its reason beside it. Not listed: CKV_K8S_43, which asks for a digest, and is content with one.
OPERATOR = {"CKV_K8S_38"}
TEST_POD = {"CKV_K8S_8", "CKV_K8S_9", "CKV_K8S_38"}
DOCKERFILE = {"CKV_DOCKER_2", "CKV_DOCKER_7"}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """What checkov says of both, by framework; it takes longer to start than to check."""
    folder = tmp_path_factory.mktemp("checkov")
    (folder / "all.yaml").write_text(Helm("helm-3", tmp_path_factory.mktemp("helm")).render(DIGEST))
    shutil.copy(ROOT / "Dockerfile", folder)
    command = [ROOT / "hack" / "checkov", "--directory", folder, "--framework", "kubernetes", "dockerfile"]
    process = subprocess.run([*command, "--output", "json"], capture_output=True, text=True, check=False, timeout=600)
    return {report["check_type"]: report["results"] for report in json.loads(process.stdout)}


def verdict(results):
    """What has failed, and what was skipped where."""
    assert results["passed_checks"]
    failed = [f"{check['check_id']} {check['check_name']}: {check['resource']}" for check in results["failed_checks"]]
    return failed, {(check["check_id"], check["resource"]) for check in results["skipped_checks"]}


def test_checkov_finds_nothing_in_what_the_chart_makes(results):
    failed, skipped = verdict(results["kubernetes"])

    assert failed == []
    assert skipped == {
        *((check_id, "Deployment.tf-operator.tf-tf-operator") for check_id in OPERATOR),
        *((check_id, "Pod.tf-operator.tf-tf-operator-test") for check_id in TEST_POD),
    }


def test_checkov_finds_nothing_in_the_dockerfile(results):
    failed, skipped = verdict(results["dockerfile"])

    assert failed == []
    assert {check_id for check_id, _ in skipped} == DOCKERFILE
