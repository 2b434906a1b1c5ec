"""The generated files of this very repository."""

import json
import re
from pathlib import Path

import pytest
import yaml

from crd import definition, outputs
from tf_operator.dialects import registry

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def rendered():
    return outputs.render(ROOT)


def fields(schema, path=""):
    """Every field of our own: the pod template's come from Kubernetes."""
    for name, child in schema.get("properties", {}).items():
        yield f"{path}.{name}", child
        if name != "template":
            yield from fields(child, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if "properties" in schema.get(key, {}):
            yield from fields(schema[key], path)


# The manifest and the packaged form of each API.
APIS = {name: (manifest, outputs.PACKAGES / name / "crd.json") for name, manifest in outputs.FURTHER.items()}
APIS["kubeflow"] = (outputs.MANIFEST, outputs.PACKAGED)
apis = pytest.mark.parametrize(("manifest", "packaged"), APIS.values(), ids=APIS)


@apis
def test_both_forms_say_the_same(rendered, manifest, packaged):
    assert yaml.load(rendered[manifest], yaml.CSafeLoader) == json.loads(rendered[packaged])


@apis
def test_no_rule_compares_an_object_that_a_new_one_lacks(rendered, manifest, packaged):
    """API servers give it without its schema: a time in it is not equal to itself."""
    (version,) = json.loads(rendered[packaged])["spec"]["versions"]
    rules = version["schema"]["openAPIV3Schema"]["x-kubernetes-validations"]
    optional = [rule["rule"] for rule in rules if rule.get("optionalOldSelf")]
    assert optional
    assert [rule for rule in optional if re.search(r"[!=]= *oldSelf\.value|oldSelf\.value\(\)[^ ]* [!=]=", rule)] == []


@apis
def test_no_field_of_a_status_that_rules_compare_can_be_null(rendered, manifest, packaged):
    """On servers before 1.35 an object with such a null is not equal to itself, so every write looks like one to it."""
    (version,) = json.loads(rendered[packaged])["spec"]["versions"]
    status = version["schema"]["openAPIV3Schema"]["properties"]["status"]
    assert [path for path, schema in fields(status) if schema.get("nullable")] == []


@apis
def test_no_number_of_32_bits_may_be_larger_on_any_server(rendered, manifest, packaged):
    (version,) = json.loads(rendered[packaged])["spec"]["versions"]
    numbers = [schema for _, schema in fields(version["schema"]["openAPIV3Schema"]) if schema.get("format") == "int32"]
    assert numbers
    assert {schema["maximum"] <= 2**31 - 1 for schema in numbers} == {True}


@pytest.mark.parametrize("version", outputs.PERIODS)
def test_the_crd_of_a_cluster_without_v1_is_the_one_that_the_command_prints(rendered, version):
    (api,) = registry.ON_REQUEST

    assert yaml.load(rendered[outputs.PERIODS[version]], yaml.CSafeLoader) == api.crd.load(version)


def test_every_field_of_our_own_is_described_in_each_version_of_each_kind(rendered):
    """So that ``kubectl explain`` has an answer."""
    crds = {packaged: json.loads(rendered[packaged]) for _, packaged in APIS.values()}
    versions = {(crd["metadata"]["name"], entry["name"]): entry for crd in crds.values() for entry in versions_of(crd)}
    for entry in json.loads(rendered[outputs.PACKAGED_OLDER]) + versions_of(json.loads(rendered[outputs.PACKAGED_HUB])):
        versions["tfjobs.kubeflow.org", entry["name"]] = entry
    bare = [
        (*names, path)
        for names, entry in versions.items()
        for path, child in fields({"properties": {"": entry["schema"]["openAPIV3Schema"]}})
        if "description" not in child and path not in OF_ALL_OBJECTS
    ]
    assert {name for _, name in versions} == {"v1", "v1beta2", "v1beta1", "v1alpha2", "v1alpha1", "hub"}
    assert bare == []


OF_ALL_OBJECTS = ("..apiVersion", "..kind", "..metadata", "..metadata.name")


def versions_of(crd):
    return crd["spec"]["versions"]


def test_a_rule_about_a_field_with_two_names_is_asked_of_both():
    rule = {"spellings": ["a", "a_b"], "rule": "has(self.FIELD)", "fieldPath": ".FIELD"}

    assert definition.resolve([rule, {"rule": "true"}], {}) == [
        {"rule": "has(self.a)", "fieldPath": ".a"},
        {"rule": "has(self.a_b)", "fieldPath": ".a_b"},
        {"rule": "true"},
    ]


def test_a_crd_that_kubectl_apply_might_not_take_is_refused():
    with pytest.raises(outputs.TooLargeError, match="200,015 bytes of compact JSON; at most 200,000"):
        outputs.as_json({"text": "x" * 200_003})


def test_the_crd_fits_with_room_to_spare_and_all_versions(rendered):
    """A minor of Kubernetes adds 2 kB to pod templates."""
    size = sum(len(rendered[path].encode()) for path in (outputs.PACKAGED, outputs.PACKAGED_OLDER))
    assert size < outputs.MOST_BYTES * 0.8
