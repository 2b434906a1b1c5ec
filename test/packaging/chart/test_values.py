"""Invalid values are refused by name, before anything is installed; the schema is closed and complete.

Values that contradict each other are in the chart's own tests.
"""

import json

import yaml

from support.partners.helm import CHART
from tf_operator.app.options import flags

SCHEMA = json.loads((CHART / "values.schema.json").read_text())
# What the API server checks, because Kubernetes says what is in it; and what belongs to a parent chart.
OPEN = {"definitions/kubernetes", "definitions/named", "properties/global", "properties/extraObjects/items"}
INVALID = """
replicas: 3
replicaCount: two
metrics: {prot: 1}
crds: {keep: "yes"}
logs: {level: loud}
leaderElection: {leaseDuration: "15"}
image: {repository: "a:b"}
watch: {namespaces: [A]}
securityContext: {runAsUser: 0}
kubeApi: {qps: 0}
extraArgs: [verbose]
extraVolumes: [{emptyDir: {}}]
resources: {limits: {gpu: 1}}
"""
COMPLAINTS = r"""
- at '': additional properties 'replicas' not allowed
- at '/crds/keep': got string, want boolean
- at '/extraArgs/0': 'verbose' does not match pattern '^--?[a-z]'
- at '/extraVolumes/0': missing property 'name'
- at '/image/repository': 'a:b' does not match pattern '^[^:@\\s]+(:[0-9]+/[^:@\\s]+)?$'
- at '/kubeApi/qps': 'not' failed
- at '/leaderElection/leaseDuration': '15' does not match pattern '^([0-9]+(s|m|h))+$'
- at '/logs/level': value must be one of 'debug', 'info', 'warning', 'error'
- at '/metrics': additional properties 'prot' not allowed
- at '/replicaCount': got string, want integer
- at '/resources/limits': additional properties 'gpu' not allowed
- at '/securityContext/runAsUser': minimum: got 0, want 1
- at '/watch/namespaces/0': 'A' does not match pattern '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'
"""


def test_every_invalid_value_is_named_with_the_rule_that_it_breaks(helm):
    complaints = helm.refusal("template", "tf", CHART, values=yaml.safe_load(INVALID)).splitlines()

    assert sorted(line for line in complaints if line.startswith("- at ")) == COMPLAINTS.split("\n")[1:-1]


def values_of_flags():
    """The table that says which value stands for a flag; Helm prints no part of it by itself."""
    text = (CHART / "templates" / "_arguments.tpl").read_text()
    return yaml.safe_load(text.partition('define "tf-operator.valuesOfFlags" -}}')[2].partition("{{")[0])


def test_every_flag_that_a_value_sets_is_refused_beside_it_and_the_value_is_named(helm_3):
    # The account and the namespace of the pod are right, and files in a Secret are called as Kubernetes calls them.
    free = {"kubeconfig", "leader-election-namespace", "metrics-cert-name", "metrics-cert-key"}
    values = yaml.safe_load((CHART / "values.yaml").read_text())

    assert set(values_of_flags()) == {flag.name for flag in flags.FLAGS} - free
    for path in values_of_flags().values():
        part = values
        for name in path.split("."):
            part = part[name]
    sentence = "extraArgs: kueue is set by the chart itself, with the rights that go with it: set controller.kueue"
    assert sentence in helm_3.refusal("template", "tf", CHART, values={"extraArgs": ["--kueue=external"]})


def objects_of(schema, path=""):
    """Every part of the schema that describes an object, with where it is."""
    if isinstance(schema, dict):
        kinds = schema.get("type", [])
        if "object" in ([kinds] if isinstance(kinds, str) else kinds):
            yield path, schema
        for name, part in schema.items():
            yield from objects_of(part, f"{path}/{name}".removeprefix("/"))


def test_the_schema_lets_nothing_through_that_it_does_not_know():
    assert {path for path, part in objects_of(SCHEMA) if part.get("additionalProperties", True) is True} == OPEN


def test_every_value_is_in_the_schema_and_every_entry_of_the_schema_has_a_value():
    values = yaml.safe_load((CHART / "values.yaml").read_text())

    def compare(values, schema):
        properties = schema.get("properties", {})
        assert set(values) == set(properties) - {"global", "enabled" if schema is SCHEMA else ""}
        for name, value in values.items():
            if "properties" in properties[name] and value:
                compare(value, properties[name])

    compare(values, SCHEMA)
