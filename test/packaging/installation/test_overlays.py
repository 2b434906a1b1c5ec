"""``tfjob install`` applies what kubectl does by the overlays of manifests/, and has no source of its own."""

import subprocess

import pytest
import yaml

from installation import outputs
from lab.tools.get import programs
from support.partners.helm import CHART
from tf_operator.client.installation import objects
from tf_operator.client.installation.objects import Values
from tf_operator.dialects import registry

MANIFESTS = CHART.parents[1] / "manifests"
IMAGE = "localhost/tf-operator:0.1.0"
OVERLAYS = {
    "cluster-wide": Values(IMAGE),
    "namespaced": Values(IMAGE, job_namespaces=("default",)),
    **{name: Values(IMAGE, features=(name,)) for name in outputs.FEATURES},
}

pytestmark = [pytest.mark.programs("kubectl"), pytest.mark.real_server("kubectl is a program of Kubernetes")]


def kustomized(folder):
    command = [programs("kubectl")["kubectl"], "kustomize", str(folder)]
    text = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    return by_name(yaml.load_all(text, yaml.CSafeLoader))


def installed(values):
    bodies = objects.make_objects(values, registry.DEFAULT.crd.load())
    assert all(body["metadata"]["labels"].pop(objects.OWNER_LABEL) == objects.OWNER for body in bodies)
    for body in bodies:
        if not body["metadata"]["labels"]:
            del body["metadata"]["labels"]
    return by_name(bodies)


def by_name(bodies):
    return {objects.name_of(body): body for body in bodies}


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_an_installation_has_the_objects_of_the_overlay_and_no_other(overlay):
    assert installed(OVERLAYS[overlay]) == kustomized(MANIFESTS / "overlays" / overlay)


def test_another_namespace_is_that_of_all_objects_and_of_whom_they_name(tmp_path):
    (tmp_path / "manifests").symlink_to(MANIFESTS)
    (tmp_path / "copy").mkdir()
    resources = "resources: [../manifests/overlays/high-availability]\nnamespace: other\n"
    (tmp_path / "copy/kustomization.yaml").write_text(resources)

    assert installed(Values(IMAGE, "other", features=("high-availability",))) == kustomized(tmp_path / "copy")


def test_features_add_up_whatever_their_order():
    features = ("kueue", "elastic", "restart-in-place", "kueue")
    bodies = installed(Values(IMAGE, features=features))

    container = bodies["Deployment tf-operator/tf-operator"]["spec"]["template"]["spec"]["containers"][0]
    assert container["args"] == ["run", "--horizontal-pod-autoscalers", "--kueue=external", "--restart-in-place"]
    assert bodies == installed(Values(IMAGE, features=features[::-1]))
    assert {"ClusterRole tf-operator-elastic", "ClusterRole tf-operator-kueue"} <= set(bodies)


def test_a_kustomization_that_is_not_fully_read_is_an_error(tmp_path):
    folder = tmp_path / outputs.BASE
    folder.mkdir(parents=True)
    (folder / "Kustomization").write_text("kind: Kustomization\nresources: []\ncomponents: [../webhook]\n")
    chart = tmp_path / CHART.relative_to(MANIFESTS.parent)
    chart.mkdir(parents=True)
    (chart / "Chart.yaml").write_text('kubeVersion: ">=1.33.0-0"\n')

    with pytest.raises(outputs.UnlikeExpectedError, match="Kustomization has components"):
        outputs.render(tmp_path)
