"""The older versions of kubeflow.org TFJob: what each means in v1, and what is kept of the other version."""

import json
import re

import pytest
import yaml

from tf_operator.dialects.kubeflow import v1
from tf_operator.dialects.kubeflow.versions import remainder, stored_schema
from tf_operator.dialects.kubeflow.versions.conversion import INCOMPLETE, ORIGIN, convert, is_piece
from tf_operator.dialects.kubeflow.versions.remainder import size_of
from tf_operator.dialects.kubeflow.versions.stored_schema import LEFT_OUT
from tf_operator.dialects.served import ConversionError

LARGEST, ROOM = 64 * 1024, 256 * 1024
"""Bytes: of what is noted of one job, and of all annotations of an object."""
NOTES = "tf-operator.kubeflow.org/v1-fields"
REPLICAS = {"Worker": {"replicas": 2, "template": {"spec": {"containers": [{"name": "tensorflow", "image": "i"}]}}}}


def job(version, *, status=None, annotations=None, **spec):
    body = {
        "apiVersion": f"kubeflow.org/{version}",
        "kind": "TFJob",
        "metadata": {"name": "mnist", "uid": "u-1", "generation": 3},
        "spec": {"tfReplicaSpecs": REPLICAS} | spec,
    }
    if annotations is not None:
        body["metadata"]["annotations"] = annotations
    return body if status is None else body | {"status": status}


def without_fixed(body):
    """An object in an older version without what its status tells the rules of that version."""
    status = {name: value for name, value in body["status"].items() if name != "fixed"}
    return {**body, "status": status} if status else {name: value for name, value in body.items() if name != "status"}


@pytest.mark.parametrize(
    ("version", "spec", "run_policy"),
    [
        ("v1alpha2", {}, {"cleanPodPolicy": "Running"}),
        ("v1alpha2", {"ttlSecondsAfterFinished": 5}, {"cleanPodPolicy": "Running", "ttlSecondsAfterFinished": 5}),
        ("v1beta1", {"cleanPodPolicy": "All"}, {"cleanPodPolicy": "All"}),
        (
            "v1beta2",
            {"activeDeadlineSeconds": 3, "backoffLimit": 1},
            {"cleanPodPolicy": "Running", "activeDeadlineSeconds": 3, "backoffLimit": 1},
        ),
    ],
)
def test_policies_of_older_versions_are_in_the_run_policy_of_v1(version, spec, run_policy):
    (v1_schema,) = v1.API.crd.load()["spec"]["versions"]
    fields = v1_schema["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["runPolicy"]["properties"]
    added = {name: field["default"] for name, field in fields.items() if "default" in field}

    stored = convert(job(version, **spec), "v1")
    assert stored["spec"] == {"tfReplicaSpecs": REPLICAS, "runPolicy": added | run_policy}
    assert not v1.API.read_object(stored).problems
    assert without_fixed(convert(stored, version)) == job(version, **spec)


def test_a_job_of_v1_that_keeps_its_pods_says_so_in_an_older_version():
    assert convert(job("v1"), "v1beta1")["spec"]["cleanPodPolicy"] == "None"


def test_v1alpha2_has_the_replica_statuses_under_their_name_of_then():
    body = convert(job("v1", status={"conditions": None, "replicaStatuses": {"Worker": {"active": 1}}}), "v1alpha2")
    assert without_fixed(body)["status"] == {"conditions": None, "tfReplicaStatuses": {"Worker": {"active": 1}}}


def test_what_only_v1_knows_survives_an_edit_in_an_older_version():
    policy = {"suspend": True, "managedBy": "kueue.x-k8s.io/multikueue", "schedulingPolicy": {"queue": "q"}}
    policy |= {"restarts": {"scope": "Job", "method": "InPlace"}}
    stored = job("v1", runPolicy=policy, successPolicy="AllWorkers", elasticPolicy={"maxReplicas": 4})
    body = convert(stored, "v1beta1")
    body["metadata"]["labels"] = {"team": "a"}
    body["spec"]["cleanPodPolicy"] = "All"
    body["spec"]["ttlSecondsAfterFinished"] = 60
    changed = convert(body, "v1")
    assert changed["metadata"] == stored["metadata"] | {"labels": {"team": "a"}}
    assert changed["spec"] == stored["spec"] | {
        "runPolicy": policy | {"cleanPodPolicy": "All", "ttlSecondsAfterFinished": 60}
    }


@pytest.mark.parametrize("version", ["v1alpha1", "v1alpha2", "v1beta1", "v1beta2"])
def test_what_only_v1_has_of_replicas_survives_an_edit_in_an_older_version(version):
    policies = {"Chief": {"maxMemory": "1Ti"}, "Worker": {"maxMemory": "8Gi", "growthPercent": 100}}
    replicas = {kind: REPLICAS["Worker"] | {"oomPolicy": policy} for kind, policy in policies.items()}
    stored = job("v1", tfReplicaSpecs=replicas | {"PS": REPLICAS["Worker"]}, runPolicy={"suspend": False})
    body = convert(stored, version)
    assert "oomPolicy" not in json.dumps(body["spec"])

    template = {"spec": {"containers": [{"name": "tensorflow", "image": "newer"}]}}
    for entry in [*body["spec"].get("tfReplicaSpecs", {}).values(), *body["spec"].get("replicaSpecs", ())]:
        entry |= {"template": template}
    changed = convert(body, "v1")["spec"]["tfReplicaSpecs"]
    assert changed == {kind: entry | {"template": template} for kind, entry in stored["spec"]["tfReplicaSpecs"].items()}


@pytest.mark.parametrize("version", ["v1alpha1", "v1beta2"])
@pytest.mark.parametrize("replicas", ["x", {"Worker": "x"}, {"Worker": {"oomPolicy": "x"}}, {"Worker": "x", "PS": {}}])
def test_replicas_that_are_malformed_have_nothing_that_only_v1_has(replicas, version):
    stored = job("v1", tfReplicaSpecs=replicas)
    body = convert(stored, version)
    assert "oomPolicy" not in str(body["spec"])
    noted = json.dumps([{"path": ["tfReplicaSpecs[]", "Worker", "oomPolicy"], "original": {"maxMemory": "8Gi"}}])
    convert({**job(version, annotations={NOTES: noted}), "spec": body["spec"]}, "v1", is_written=False)
    convert(job(version, tfReplicaSpecs=replicas, annotations={NOTES: noted}), "v1", is_written=False)


def test_a_type_without_a_spec_can_be_written_in_an_older_version():
    """It is v1's to say what is wrong with it: whoever lists jobs must not suffer for one."""
    body = job("v1beta2", tfReplicaSpecs={"Master": None, "Worker": REPLICAS["Worker"]})
    assert convert(body, "v1", is_written=True)["spec"]["tfReplicaSpecs"]["Master"] is None


@pytest.mark.parametrize("part", [{"spec": None}, {"spec": "x"}, {"status": "x"}], ids=str)
def test_a_job_that_is_malformed_in_v1_can_be_read_in_an_older_version(part):
    """Whoever lists jobs must not suffer for one."""
    body = convert(job("v1") | part, "v1beta2")
    assert {name: body.get(name) for name in part} == part


@pytest.mark.parametrize("version", ["v1", "v1beta2"])
def test_a_piece_is_an_object_of_an_older_version_that_lacks_what_is_required(version):
    whole = job(version)
    assert not is_piece(whole)
    assert is_piece({name: part for name, part in whole.items() if name != "spec"}) == (version != "v1")


def test_an_older_version_gives_no_template_more_memory_than_v1_allows():
    stored = job("v1", tfReplicaSpecs={"Worker": REPLICAS["Worker"] | {"oomPolicy": {"maxMemory": "8Gi"}}})
    body = convert(stored, "v1beta2")
    main = {"name": "tensorflow", "image": "i", "resources": {"limits": {"memory": "9Gi"}}}
    body["spec"]["tfReplicaSpecs"]["Worker"] |= {"template": {"spec": {"containers": [main]}}}
    rule = "Worker.oomPolicy.maxMemory: must be at least 9Gi, which is the limit in the template"
    with pytest.raises(ConversionError, match=re.escape(rule)):
        convert(body, "v1")


def test_an_edit_of_the_annotation_changes_nothing_of_a_stored_job():
    stored = job("v1", runPolicy={"suspend": True})
    body = convert(stored, "v1beta1")
    for annotations in ({}, {NOTES: '[{"path": ["runPolicy", "managedBy"], "original": "x"}]'}):
        body["metadata"]["annotations"] = annotations
        assert convert(body, "v1")["spec"]["runPolicy"] == {"suspend": True}


def test_a_field_that_was_changed_in_v1_is_not_set_back_by_what_was_noted_of_an_older_version():
    stored = convert(job("v1beta1"), "v1")  # with a note that cleanPodPolicy was absent
    stored["spec"]["runPolicy"] = {"cleanPodPolicy": "All"}
    assert convert(stored, "v1beta1")["spec"]["cleanPodPolicy"] == "All"


def test_what_is_too_large_for_an_annotation_can_be_read_in_an_older_version_and_not_written():
    stored = job("v1", whatOthersPutThere={"text": "x" * LARGEST})
    body = convert(stored, "v1beta1")
    assert body["metadata"]["annotations"] == {INCOMPLETE: "true"}
    replaced = job("v1beta1", status=body["status"])
    for written in (body, replaced):
        with pytest.raises(
            ConversionError, match=r"metadata.annotations\[.*\]: parts of this job have no place in v1beta1"
        ):
            convert(written, "v1")


@pytest.mark.parametrize("version", ["v1alpha1", "v1alpha2", "v1beta1", "v1beta2"])
def test_who_leaves_no_room_for_a_note_gets_no_note_and_can_be_read(version):
    """Beyond the limit of all annotations the API server fails the list that the job is in."""
    full = {"short": "x", "long": "ä" * (ROOM // 2 - 5)}
    assert size_of(full) == ROOM

    body = convert(job("v1", annotations=full, runPolicy={"suspend": True}), version)
    origin = {ORIGIN: "v1"} if version == "v1alpha1" else {}
    assert body["metadata"]["annotations"] == {"short": "x", INCOMPLETE: "true"} | origin
    for annotations in (body["metadata"]["annotations"], {}):
        with pytest.raises(ConversionError, match="parts of this job have no place"):
            convert(job(version, status=body["status"], annotations=annotations), "v1")

    stored_by_an_old_operator = job(version, annotations=full, whatOthersPutThere=1)
    assert convert(stored_by_an_old_operator, "v1")["metadata"]["annotations"] == full


@pytest.mark.parametrize(("beyond", "stays"), [(0, True), (1, False)])
def test_an_annotation_of_the_user_is_left_out_only_where_the_mark_has_no_room_beside_it(beyond, stays):
    mark = size_of({INCOMPLETE: "true"})
    annotations = {"long": "x" * (ROOM - mark - len("long") + beyond)}

    body = convert(job("v1", annotations=annotations, runPolicy={"suspend": True}), "v1beta2")
    assert body["metadata"]["annotations"] == {INCOMPLETE: "true"} | (annotations if stays else {})


@pytest.mark.parametrize(
    ("spec", "counts"),
    [
        ({}, {"worker": (2, 2)}),
        ({"enableDynamicWorker": True}, {"worker": (0, 10_000)}),
        ({"elasticPolicy": {"maxReplicas": 4}}, {"worker": (1, 4)}),
        ({"elasticPolicy": {"minReplicas": 2, "maxReplicas": 4}}, {"worker": (2, 4)}),
        ({"runPolicy": {"suspend": True}}, {}),
        ({"runPolicy": {"suspend": True}, "elasticPolicy": {"maxReplicas": 4}}, {"worker": (1, 4)}),
        (
            {"tfReplicaSpecs": {"Worker": None, "PS": {"replicas": "x"}, "Chief": {"replicas": -1}}},
            {"worker": (1, 1), "ps": (1, 1), "chief": (1, 1)},
        ),
        ({"tfReplicaSpecs": {"Worker": {"replicas": 5}, "WORKER": {"replicas": 2}}}, {"worker": (2, 5)}),
        ({"tfReplicaSpecs": {"Worker": {"replicas": 0}, "PS": {}}}, {"worker": (0, 0), "ps": (1, 1)}),
        (
            {"tfReplicaSpecs": {"PS": {}}, "elasticPolicy": {"parameterServers": {"minReplicas": 2, "maxReplicas": 3}}},
            {"ps": (2, 3)},
        ),
    ],
)
def test_an_older_version_tells_its_rules_how_many_replicas_there_may_be(spec, counts):
    fixed = convert(job("v1", **spec), "v1beta1")["status"]["fixed"]
    told = {kind: {"least": least, "most": most} for kind, (least, most) in counts.items()}
    assert fixed.get("counts", {}) == told
    assert fixed.get("noOtherTypes", False) == (not spec.get("runPolicy"))


@pytest.mark.parametrize(("length", "most"), [(51, 10_000), (52, 1000), (54, 10), (55, 2), (63, 2)])
def test_dynamic_workers_cannot_outgrow_the_names_of_services_in_an_older_version_either(length, most):
    """Those that there are may stay, whatever their name is."""
    body = job("v1", enableDynamicWorker=True)
    body["metadata"]["name"] = "a" * length
    assert convert(body, "v1beta1")["status"]["fixed"]["counts"]["worker"] == {"least": 0, "most": most}


def test_an_empty_status_of_v1_and_none_are_told_apart_on_the_way_back():
    for stored in (job("v1", status={}), job("v1")):
        assert convert(convert(stored, "v1beta1"), "v1") == stored


def test_what_is_too_deep_for_an_annotation_is_left_out_and_is_equal_to_nothing():
    one, other = deep(), deep()
    assert remainder.encode([remainder.Difference(("x",), 1, one)]) is None
    assert remainder.restore({"x": one}, [remainder.Difference(("x",), other, 1)])["x"] is one


def deep():
    nested = []
    for _ in range(1_000_000):
        nested = [nested]
    return nested


@pytest.mark.parametrize(("source", "target"), [("v1", "v3"), ("v2", "v1")])
def test_an_unknown_version_is_named(source, target):
    with pytest.raises(ConversionError, match=r"apiVersion: there is no version 'v[23]' of TFJob"):
        convert(job(source), target)


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[5]", '[{"path": "spec"}]', '[{"path": []}]', "[" * 100_000),
        '[{"path": ["tfReplicaSpecs", "Worker", "replicas"], "back": 2, "original": -1}]',
        '[{"path": ["runPolicy", "suspend", "x"], "original": 1}]',
        '[{"path": ["x"], "original": 1%s}]' % ("0" * 400),  # the API server cannot read this number
        '[{"path": ["x"], "original": [1%s]}]' % ("0" * 400),
        '[{"path": ["x"], "original": "%s"}]' % ("x" * LARGEST),
    ],
)
def test_an_annotation_that_is_none_of_ours_changes_nothing(text):
    plain = convert(job("v1beta1"), "v1")
    assert convert(job("v1beta1", annotations={NOTES: text}), "v1") == plain


def test_a_forged_annotation_does_not_have_an_object_encoded_for_each_of_its_entries(
    monkeypatch,
):
    monkeypatch.setattr(remainder, "_canonical_json", pytest.fail)
    entries = [remainder.Difference(("large",), back, "x") for back in ({}, [], {"a": 1})]
    large = {"large": {str(number): number for number in range(100)}}
    assert remainder.restore(large, entries) == large


def test_manifests_of_older_versions_need_no_status_and_no_metadata():
    manifest = yaml.safe_load("{apiVersion: kubeflow.org/v1beta2, kind: TFJob}")
    empty = {"spec": {"tfReplicaSpecs": {}}}
    assert convert(manifest, "v1") == {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {}} | empty


def broken_job(version, **spec):
    """As an old operator may have stored it: nobody checked templates then."""
    template = {"spec": {"containers": [{"name": "tensorflow", "image": "i", "env": "junk"}]}}
    return job(version, tfReplicaSpecs={"Worker": {"replicas": 2, "template": template}}, **spec)


def note(path, original, **back):
    return json.dumps([{"path": path, "original": original} | back])


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (
            broken_job("v1beta1"),
            "spec.tfReplicaSpecs.Worker.template.spec.containers[0].env: must be a list, is 'junk'",
        ),
        (
            job("v1beta1", annotations={NOTES: note(["runPolicy", "suspend"], "yes", back=False)}),
            "spec.runPolicy.suspend: must be true or false, is 'yes'",
        ),
        (
            job("v1beta2", annotations={NOTES: note(["elasticPolicy"], {"minReplicas": 0})}),
            "spec.elasticPolicy.minReplicas: must be from 1 to 10000, is 0; spec.elasticPolicy.maxReplicas: is r",
        ),
    ],
    ids=["template", "note", "two in a note"],
)
def test_a_new_job_that_v1_does_not_take_is_refused_with_its_fields(body, complaint):
    with pytest.raises(ConversionError, match=re.escape(complaint)):
        convert(body, "v1", is_written=True)


@pytest.mark.parametrize(("beyond", "count"), [(0, 1), (1, 0)])
def test_a_note_is_read_up_to_the_largest_that_is_written(beyond, count):
    frame = '[{"path": ["x"], "original": "%s"}]'
    text = frame % ("x" * (LARGEST + beyond - len(frame % "")))

    assert len(remainder.decode(text)) == count


@pytest.mark.parametrize(("levels", "count"), [(100, 1), (101, 0)])
def test_a_note_is_read_up_to_a_hundred_levels(levels, count):
    text = f'[{{"path": ["x"], "original": {"[" * levels}{"]" * levels}}}]'

    assert len(remainder.decode(text)) == count


@pytest.mark.parametrize(("kinds", "more"), [("abcdefg", "; and 3 more"), ("abcd", "")])
def test_a_refusal_of_many_fields_stays_short(kinds, more):
    annotations = {
        NOTES: note(["runPolicy"], {f"{name}Seconds": "x" for name in ("activeDeadline", "startupDeadline")})
    }
    with pytest.raises(ConversionError) as refusal:
        convert(
            job("v1beta1", annotations=annotations, cleanPodPolicy=1, tfReplicaSpecs=dict.fromkeys(kinds, 1)),
            "v1",
            is_written=True,
        )
    assert f"{more}; correct it, or tf-operator.kubeflow.org/v1-fields" in str(refusal.value)
    assert ("; and" in str(refusal.value)) is bool(more)


def test_of_a_stored_job_what_v1_does_not_take_is_left_out_and_reported():
    stored = convert(broken_job("v1beta1", cleanPodPolicy="Sometimes", notes="n"), "v1")
    env = "spec.tfReplicaSpecs.Worker.template.spec.containers[0].env"
    left_out = {
        "spec.tfReplicaSpecs.Worker.template.spec.containers[0].env": "junk",
        "spec.runPolicy.cleanPodPolicy": "Sometimes",
        "spec.cleanPodPolicy": "Sometimes",  # and what no note keeps: it would come back with its malformed neighbour
        "spec.notes": "n",
    }
    assert json.loads(stored["metadata"]["annotations"][LEFT_OUT]) == left_out
    assert stored["spec"]["runPolicy"] == {"suspend": False}
    (problem,) = map(str, v1.API.read_object(stored).problems)
    fields = f"spec.runPolicy.cleanPodPolicy, {env}, spec.cleanPodPolicy, spec.notes"
    named = f"v1 does not take {fields}; set what is needed, and remove the annotation"
    assert problem == f"metadata.annotations[{LEFT_OUT}]: {named}"

    body = convert(stored, "v1beta1")
    assert "cleanPodPolicy" not in body["spec"] or body["spec"]["cleanPodPolicy"] in ("None", "Running")
    body["metadata"]["labels"] = {"team": "a"}
    assert convert(body, "v1") == stored | {"metadata": stored["metadata"] | {"labels": {"team": "a"}}}


@pytest.mark.parametrize(
    ("status", "rest"),
    [
        ("text", None),
        ({"conditions": "text", "startTime": "yesterday", "x": 1}, {"x": 1}),
        (
            {"conditions": [5, {"type": "Failed", "status": "True", "reason": 5}]},
            {"conditions": [{"type": "Failed", "status": "True"}]},
        ),
    ],
)
def test_a_status_that_v1_does_not_take_is_left_out_where_it_is_stored_and_refused_where_it_is_written(status, rest):
    stored = convert(job("v1beta1", status=status), "v1")
    assert stored.get("status") == rest
    assert not v1.API.read_object(stored).problems

    body = convert(job("v1"), "v1beta1")
    with pytest.raises(ConversionError, match=r"does not take status"):
        convert(
            body
            | {
                "status": {
                    **(status if isinstance(status, dict) else {"conditions": 5}),
                    "fixed": body["status"]["fixed"],
                }
            },
            "v1",
        )


def test_a_note_that_v1_would_not_take_back_is_ignored_in_the_older_version():
    forged = note(["cleanPodPolicy"], "Sometimes", back="None")
    stored = job("v1", annotations={"tf-operator.kubeflow.org/v1beta1-fields": forged})
    assert convert(stored, "v1beta1")["spec"]["cleanPodPolicy"] == "None"


@pytest.mark.parametrize("version", ["v1alpha1", "v1alpha2", "v1beta1", "v1beta2"])
def test_a_note_does_not_have_the_schema_asked_about_templates(version, monkeypatch):
    """Anybody can write a note, and a template of a megabyte takes a second."""
    fitted, fit = [], stored_schema.fitted
    monkeypatch.setattr(stored_schema, "fitted", lambda parts: fitted.append(parts) or fit(parts))
    stored = job("v1", annotations={f"tf-operator.kubeflow.org/{version}-fields": note(["cleanPodPolicy"], "All")})
    convert(stored, version)

    assert [parts["spec"]["tfReplicaSpecs"] for parts in fitted] == [{}, {}]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "parts of this job; set"),
        (5, "parts of this job; set"),
        ("5", "parts of this job; set"),
        ("[" * 100_000, "parts of this job; set"),
        ('["spec.runPolicy.suspend", 5]', "v1 does not take spec.runPolicy.suspend; set"),
    ],
)
def test_whatever_is_in_the_annotation_of_what_was_left_out_is_reported(text, problem):
    (error,) = v1.API.read_object(job("v1", annotations={LEFT_OUT: text})).problems
    assert problem in str(error)


@pytest.mark.parametrize(
    ("fields", "named", "is_tolerated"),
    [
        (["spec.runPolicy.suspend", "status.x"], "spec.runPolicy.suspend, status.x; set", True),
        (["spec.runPolicy.suspend", "spec.tfReplicaSpecs.PS"], "spec.runPolicy.suspend, spec.tfReplicaSpecs.PS", False),
        ({"spec." + "x" * 300: 1}, f"spec.{'x' * 195}; set", True),
        ([f"spec.f{number}" for number in range(25)], "spec.f18, spec.f19; set", True),
        ([], "parts of this job; set", False),
    ],
    ids=["no replicas", "replicas", "a long name", "many", "nothing"],
)
def test_a_job_that_runs_may_go_on_without_what_was_left_out_unless_that_was_of_its_replicas(
    fields, named, is_tolerated
):
    (error,) = v1.API.read_object(job("v1", annotations={LEFT_OUT: json.dumps(fields)})).problems

    assert named in str(error)
    assert error.is_tolerated is is_tolerated


@pytest.mark.parametrize("value", ["x" * LARGEST, None], ids=["large", "deep"])
def test_what_was_left_out_is_named_without_its_value_where_that_is_too_much(value):
    stored = convert(job("v1beta1", cleanPodPolicy={"a": deep() if value is None else value}), "v1")
    names = ["spec.runPolicy.cleanPodPolicy", "spec.cleanPodPolicy"]
    assert json.loads(stored["metadata"]["annotations"][LEFT_OUT]) == names


def test_what_v1_does_not_take_is_left_out_with_its_value_while_there_is_room_for_it():
    stored = convert(job("v1beta1", cleanPodPolicy="x", notes="n" * LARGEST), "v1")
    values = {"spec.runPolicy.cleanPodPolicy": "x", "spec.cleanPodPolicy": None, "spec.notes": None}
    assert json.loads(stored["metadata"]["annotations"][LEFT_OUT]) == values


@pytest.mark.parametrize(("levels", "noted"), [(11, 11), (12, 12), (15, 12)])
def test_what_is_below_twelve_levels_is_noted_as_a_whole(levels, noted):
    one, other = 1, 2
    for _ in range(levels):
        one, other = {"a": one}, {"a": other}

    (entry,) = remainder.differences(one, other)
    assert len(entry.path) == noted
    assert remainder.restore(other, remainder.decode(remainder.encode([entry]))) == one
    assert remainder.decode(json.dumps([{"path": ["a"] * 13, "original": 1}])) == []


@pytest.mark.parametrize(("one", "other"), [(1, True), (0, False), (1, 1.0), ([1], [True])], ids=repr)
def test_what_python_takes_for_the_same_and_json_does_not_is_a_difference(one, other):
    assert [*remainder.differences({"a": one}, {"a": other})] == [remainder.Difference(("a",), other, one)]


def test_an_object_that_is_absent_differs_in_each_field_of_the_other():
    body = {"a": {"b": 1, "c": {}}}
    absent, present = ([entry.path for entry in remainder.differences(*pair)] for pair in ((body, {}), ({}, body)))
    assert present == [("a", "b"), ("a", "c"), ("a",)]
    assert absent == [("a", "b"), ("a", "c")]
