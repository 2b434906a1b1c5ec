"""What docs/operations.md shows about protected metrics works as it stands there."""

import re
import subprocess

import pytest
import yaml

from lab.tools.get import programs
from support.partners.helm import CHART, one

PAGE = (CHART.parents[1] / "docs" / "operations.md").read_text()
MONITORING = (CHART.parents[1] / "docs" / "monitoring.md").read_text()
SECTION = PAGE.partition("## Protected metrics\n")[2].partition("\n## ")[0]
EXAMPLES = re.findall(r"```yaml\n(.*?)```", SECTION, re.DOTALL)


@pytest.fixture(scope="module")
def example():
    """A function that gives the example that has a key."""
    examples = [(text, yaml.safe_load(text)) for text in EXAMPLES]
    return lambda key: next((text, body) for text, body in examples if key in body)


def test_the_rule_for_readers_is_that_of_the_role(example, helm_3):
    objects = helm_3.objects({"metrics": {"secure": {"enabled": True}}})

    assert example("rules")[1]["rules"] == one(objects, "ClusterRole", "tf-tf-operator-metrics-reader")["rules"]


def test_the_values_have_everybody_speak_of_the_same_certificate(example, helm):
    objects = helm.objects(example("metrics")[1])
    certificate = one(objects, "Certificate")["spec"]
    (endpoint,) = one(objects, "ServiceMonitor")["spec"]["endpoints"]
    (volume,) = one(objects, "Deployment")["spec"]["template"]["spec"]["volumes"]
    binding = one(objects, "ClusterRoleBinding", "tf-tf-operator-metrics-reader")

    assert certificate["dnsNames"] == [endpoint["tlsConfig"]["serverName"]]
    assert endpoint["tlsConfig"]["ca"]["secret"]["name"] == volume["secret"]["secretName"] == certificate["secretName"]
    assert [subject["name"] for subject in binding["subjects"]] == ["prometheus-k8s"]


def test_prometheus_accepts_its_configuration(example, tmp_path):
    """What the page on monitoring has, and in it what is here."""
    (scraping,) = re.findall(r"```yaml\n(rule_files:.*?)```", MONITORING, re.DOTALL)
    (job,) = yaml.safe_load(scraping)["scrape_configs"]
    config = tmp_path / "prometheus.yml"
    config.write_text(yaml.safe_dump({"scrape_configs": [job | example("scheme")[1]]}))
    promtool = programs("promtool")["promtool"]

    command = [promtool, "check", "config", "--syntax-only", config]
    process = subprocess.run(command, capture_output=True, text=True, check=False)

    assert process.returncode == 0, process.stdout + process.stderr
