"""Conversion reviews: what the API server asks, and what it is answered."""

import asyncio
import json
from datetime import timedelta

import pytest

from support.jobs.builders import merge
from tf_operator.app.webhook import review
from tf_operator.dialects.kubeflow import v1
from tf_operator.dialects.kubeflow.versions.conversion import INCOMPLETE
from tf_operator.dialects.kubeflow.versions.stored_schema import LEFT_OUT
from tf_operator.machinery.transport import raw_json
from tf_operator.meta import rfc3339

DEEPEST = 5000
DEEP = '{"a":' * DEEPEST + "1" + "}" * DEEPEST


def review_of(*objects, version="kubeflow.org/v1beta1"):
    texts = ",".join(text if isinstance(text, str) else json.dumps(text) for text in objects)
    return f'{{"request": {{"uid": "u-1", "desiredAPIVersion": "{version}", "objects": [{texts}]}}}}'.encode()


def answered(text):
    return asyncio.run(review.answer(text, v1.API.conversion.convert))


def job(name, **spec):
    return {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": name}, "spec": spec}


def test_all_objects_of_a_review_are_converted_in_their_order():
    answer = json.loads(answered(review_of(job("a", runPolicy={"cleanPodPolicy": "All"}), job("b"))))

    assert (answer["apiVersion"], answer["kind"]) == ("apiextensions.k8s.io/v1", "ConversionReview")
    assert (answer["response"]["uid"], answer["response"]["result"]) == ("u-1", {"status": "Success"})
    assert [
        (entry["apiVersion"], entry["metadata"]["name"], entry["spec"]["cleanPodPolicy"])
        for entry in answer["response"]["convertedObjects"]
    ] == [("kubeflow.org/v1beta1", "a", "All"), ("kubeflow.org/v1beta1", "b", "None")]


@pytest.mark.parametrize("place", ["spec", "spec.runPolicy", "spec.tfReplicaSpecs", "status", "status.conditions"])
def test_an_object_too_deep_for_any_decoder_is_carried_along(place):
    text = json.dumps(job("deep", runPolicy={"cleanPodPolicy": "All"}, tfReplicaSpecs={}))
    part, _, field = place.partition(".")
    inner = f'{{"{field}": {DEEP}}}' if field else DEEP
    text = (
        f'{text[:-1]}, "{part}": {inner}}}'
        if part == "status"
        else f'{text.split(chr(34) + "spec")[0]}"spec": {inner}}}'
    )

    answer = answered(review_of(text, job("b")))

    assert answer.startswith(b'{"apiVersion":"apiextensions.k8s.io/v1"')
    assert b'"status":"Success"' in answer
    assert b'"name":"b"' in answer
    assert answer.count(b"kubeflow.org/v1beta1") == 2


@pytest.mark.parametrize(("levels", "is_carried_along"), [(9_990, True), (9_991, False)])
def test_what_the_api_server_could_not_read_in_the_answer_is_left_empty(levels, is_carried_along):
    """It reads and stores 10,000 levels, and fails the whole list where an answer has more."""
    deep = '{"a":' * levels + "1" + "}" * levels
    text = json.dumps(job("deep", tfReplicaSpecs={"Worker": {"template": "?"}})).replace('"?"', deep)
    answer = answered(review_of(text, job("b")))

    assert raw_json.depth_of(answer) < 10_000
    assert (deep.encode() in answer) == is_carried_along
    assert (b'"template":{}' in answer) != is_carried_along
    assert b'"name":"b"' in answer


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"{}", b"[]", b'{"request": {}}', DEEP.encode(), b'{"request":' + DEEP.encode() + b"}"),
        *(review_of(text) for text in ('{"a": 1e999}', f'{{"a": {DEEP}, "b": nope}}', f'{{"a": {DEEP}, "\\x": 1}}')),
        review_of('{"a": "?"}').replace(b"?", b"\xff"),
    ],
)
def test_what_is_no_review_is_refused_with_the_reason(body):
    with pytest.raises(review.ReviewError, match="the request is no ConversionReview: "):
        answered(body)


@pytest.mark.parametrize(
    ("item", "version", "message"),
    [
        (job("a"), "kubeflow.org/v9", "a: apiVersion: there is no version 'v9' of TFJob in kubeflow.org"),
        (5, "kubeflow.org/v1", "an object of the review is none"),
    ],
)
def test_a_review_that_cannot_be_answered_fails_with_a_sentence_for_the_user(item, version, message):
    response = json.loads(answered(review_of(item, version=version)))["response"]

    assert response == {"uid": "u-1", "result": {"status": "Failed", "message": message}, "convertedObjects": []}


def written(body, clock, older):
    """The response to whoever writes this, or reads what is stored."""
    convert = review.refusing_new(v1.API.conversion, clock, lambda: older)
    return json.loads(asyncio.run(review.answer(review_of(body, version="kubeflow.org/v1"), convert)))["response"]


@pytest.mark.parametrize(
    ("age", "status"),
    [(timedelta(0), "Failed"), (-timedelta(minutes=5), "Failed"), (review.NEW_FOR, "Success"), (None, "Failed")],
    ids=["just created", "by a clock that is ahead", "stored", "without a time"],
)
def test_what_is_being_created_is_refused_where_it_would_be_invalid_and_what_is_stored_is_converted(age, status, clock):
    body = job("a", cleanPodPolicy="Sometimes", tfReplicaSpecs={}) | {"apiVersion": "kubeflow.org/v1beta1"}
    if age is not None:
        body["metadata"]["creationTimestamp"] = rfc3339(clock.now() - age)
    result = written(body, clock, None)["result"]

    assert result["status"] == status
    complaint = "spec.runPolicy.cleanPodPolicy: must be one of 'All', 'Running', 'None', is 'Sometimes'"
    assert (complaint in result.get("message", "")) == (status == "Failed")


@pytest.mark.parametrize(
    ("older", "status"), [(None, "Failed"), (0, "Failed"), (2, "Success")], ids=["unknown", "none", "two"]
)
@pytest.mark.parametrize(
    "mark",
    [
        {"metadata": {"annotations": {INCOMPLETE: "true"}}},
        {"status": {"fixed": {"incomplete": True}}},
        {"status": {"fixed": {}}},
        {},
    ],
    ids=["incomplete", "incomplete by its status", "as if it were read", "just created"],
)
def test_while_older_versions_are_stored_nothing_is_refused(older, status, mark, clock):
    """Whatever its tenants had an older operator store: one job that cannot be converted would break every list."""
    misfit = {"tfReplicaSpecs": {"Worker": {"template": {"spec": {"containers": [], "tolerations": 5}}}}}
    body = merge({**job("a", **misfit), "apiVersion": "kubeflow.org/v1beta1"}, mark)
    body["metadata"]["creationTimestamp"] = rfc3339(clock.now())
    response = written(body, clock, older)

    assert response["result"]["status"] == status
    if older:
        (stored,) = response["convertedObjects"]
        assert stored["metadata"]["annotations"].keys() == {LEFT_OUT}
        assert "fixed" not in stored.get("status", {})


@pytest.mark.parametrize("older", [None, 0])
def test_a_stored_job_that_no_conversion_has_marked_as_incomplete_can_be_read(older, clock):
    """Whoever reads a marked one gets the mark in its status, too; the annotation alone is a tenant's."""
    metadata = {"creationTimestamp": rfc3339(clock.now() - review.NEW_FOR), "annotations": {INCOMPLETE: "true"}}
    body = merge(job("a", tfReplicaSpecs={}), {"apiVersion": "kubeflow.org/v1beta1", "metadata": metadata})

    assert written(body, clock, older)["result"]["status"] == "Success"


@pytest.mark.parametrize(
    ("version", "spec"),
    [
        ("v1beta1", None),
        ("v1beta1", {"tfReplicaSpecs": {"Worker": {"replicas": 2}}}),
        ("v1alpha1", {"replicaSpecs": [{"tfReplicaType": "WORKER", "template": {"spec": {}}}]}),
    ],
    ids=["no spec", "no template", "no containers"],
)
@pytest.mark.parametrize("older", [None, 0])
def test_a_piece_of_a_job_is_converted(version, spec, older, clock):
    """The API server merges a server-side apply in all versions in which somebody has applied the job before."""
    body = job("a") | {"apiVersion": f"kubeflow.org/{version}", "spec": spec, "status": {"fixed": {}}}

    assert (
        written({name: value for name, value in body.items() if value}, clock, older)["result"]["status"] == "Success"
    )
