"""The chart for those who let Helm only render, and apply with kubectl, as pages tell them."""

import re

from support.partners.helm import CHART, parsed

ROOT = CHART.parents[1]
PIPED = re.compile(r"helm (template[^|`]*)\| kubectl apply")


def test_nothing_that_kubectl_is_to_apply_is_a_hook_because_it_would_migrate_at_once_and_fail_to_change_the_job(helm):
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    commands = {match[1] for page in pages for match in PIPED.finditer(page.read_text())}
    older = {"apis": {"kubeflow": {"oldVersions": ["v1beta1"]}}}

    assert commands
    for command in commands:
        objects = parsed(helm.ok(*command.split(), "tf", CHART, values=older))
        assert [body for body in objects if "helm.sh/hook" in body["metadata"].get("annotations", {})] == []
        kinds = {body["kind"] for body in objects}
        assert ({"CustomResourceDefinition", "Deployment"} - kinds, kinds & {"Job", "Pod"}) == (set(), set())
