"""Files of manifests to single objects."""

import json

import pytest

from tf_operator.client.manifests import files
from tf_operator.client.manifests.files import Manifest, ManifestError

A, B = {"kind": "TFJob", "metadata": {"name": "a"}}, {"kind": "Service", "metadata": {"name": "b"}}


def test_a_lone_object_is_found_under_the_name_of_its_file():
    assert files.read("job.yaml", "kind: TFJob\nmetadata: {name: a}\n") == [Manifest("job.yaml", A)]


def test_several_objects_are_numbered():
    text = "kind: TFJob\nmetadata: {name: a}\n---\nkind: Service\nmetadata: {name: b}\n"

    assert files.read("jobs.yaml", text) == [Manifest("jobs.yaml#1", A), Manifest("jobs.yaml#2", B)]


def test_json_may_be_indented_with_tabs():
    assert files.read("job.json", json.dumps(A, indent="\t")) == [Manifest("job.json", A)]


def test_yaml_may_begin_as_json_does():
    assert files.read("job.yaml", "{kind: TFJob, metadata: {name: a}}") == [Manifest("job.yaml", A)]


def test_json_objects_may_follow_each_other_and_write_whole_numbers_as_fractions():
    assert [entry.body for entry in files.read("jobs.json", '{"a": 3.0}\n\t{"b": 1e2}')] == [{"a": 3}, {"b": 100}]


def test_lists_are_taken_apart():
    manifest_list = {"kind": "List", "items": [A, {"kind": "TFJobList", "items": [B]}]}

    assert [entry.body for entry in files.read("list", json.dumps(manifest_list))] == [A, B]


def test_a_list_without_items_is_an_object_like_others():
    assert files.read("odd", '{"kind": "PriceList"}') == [Manifest("odd", {"kind": "PriceList"})]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param("", "there is no object in it", id="nothing"),
        pytest.param("# a comment\n---\n", "there is no object in it", id="a comment"),
        pytest.param("- kind: TFJob\n", "a document in it is not an object", id="a list without a kind"),
        pytest.param("{kind: [", "line 1, column 9", id="broken off"),
        pytest.param('{"a":' * 150 + "1" + "}" * 150, "is nested too deeply", id="too many levels"),
        pytest.param(f'{{"a": {"1" * 5000}}}', "line 1, column 7: '1111", id="more digits than Python reads"),
    ],
)
def test_what_is_no_manifest_is_refused(text, complaint):
    with pytest.raises(ManifestError) as refused:
        files.read("job.yaml", text)

    assert complaint in str(refused.value)
