"""What a pod needs of a node: the sums of kube-scheduler, and the nodes on which it may be."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from tf_operator.planning.job_queue import shapes
from tf_operator.planning.job_queue.shapes import Taint


def container(cpu=None, limit=None, **fields):
    resources = {"requests": {"cpu": cpu}} if cpu else {}
    return {"resources": resources | ({"limits": {"cpu": limit}} if limit else {})} | fields


@pytest.mark.parametrize(
    ("pod", "cpu"),
    [
        ({"containers": [container("100m"), container("1")]}, 1100),
        ({"containers": [container("100m", "2"), container(None, "0.5")]}, 600),
        ({"containers": [container("1")], "initContainers": [container("3"), container("2")]}, 3000),
        ({"containers": [container("1")], "initContainers": [container("2", restartPolicy="Always")]}, 3000),
        (
            {
                "containers": [container("1")],
                "initContainers": [container("2", restartPolicy="Always"), container("4"), container("5")],
            },
            7000,
        ),
        ({"containers": [container("1")], "overhead": {"cpu": "250m"}}, 1250),
        ({"containers": [container("1")], "resources": {"requests": {"cpu": "4"}}, "overhead": {"cpu": "1"}}, 5000),
        ({"containers": [container("1"), container()], "resources": {"limits": {"cpu": "4"}}}, 1000),
        ({"containers": [container()], "resources": {"limits": {"cpu": "4"}}}, 4000),
        ({"containers": [container("1u"), container("nonsense"), "x", {"resources": []}]}, 1),
    ],
    ids=[
        "sum",
        "limits",
        "init",
        "sidecar",
        "init beside a sidecar",
        "overhead",
        "of the pod",
        "limit of the pod",
        "only a limit of the pod",
        "what is none",
    ],
)
def test_a_pod_asks_for_what_kube_scheduler_counts(pod, cpu):
    assert shapes.requests_of(pod) == (("cpu", cpu), ("pods", 1000))


def test_a_request_that_is_too_long_to_be_one_is_none_and_not_kept():
    asked = shapes._thousandths.cache_info().misses

    assert shapes.requests_of({"containers": [container("1" * 65)]}) == (("pods", 1000),)
    assert shapes._thousandths.cache_info().misses == asked


@pytest.mark.parametrize("init", [[], [container("0"), container()], [container(), container("0")]])
def test_a_request_of_nothing_is_none(init):
    assert shapes.requests_of({"containers": [container("0")], "initContainers": init}) == (("pods", 1000),)
    assert shapes.requests_of({"containers": [container()], "initContainers": init}) == (("pods", 1000),)


def required(operator, *values, key="zone", field="matchExpressions"):
    terms = [{field: [{"key": key, "operator": operator, "values": list(values)}]}]
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"affinity": {"nodeAffinity": affinity}}


@pytest.mark.parametrize(
    ("pod", "is_accepted"),
    [
        ({}, True),
        ({"nodeSelector": {"zone": "a"}}, True),
        ({"nodeSelector": {"zone": "b"}}, False),
        (required("In", "a", "b"), True),
        (required("NotIn", "a"), False),
        (required("NotIn", "b"), True),
        (required("NotIn", "a", key="other"), True),
        (required("Exists"), True),
        (required("DoesNotExist"), False),
        (required("Gt", "3", key="size"), True),
        (required("Lt", "3", key="size"), False),
        (required("Lt", "5", key="size"), True),
        (required("Gt", "4", key="size"), False),
        (required("Lt", "4", key="size"), False),
        (required("Lt", key="size"), False),
        (required("Gt", "3"), False),
        (required("Like", "a"), False),
        (required("In", "node", key="metadata.name", field="matchFields"), True),
        (required("In", "node", key="metadata.uid", field="matchFields"), False),
        ({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}}}, False),
        ({"affinity": {"nodeAffinity": []}}, True),
    ],
)
def test_a_pod_may_be_where_its_selector_and_affinity_allow_it(pod, is_accepted):
    assert shapes.shape_of(pod).places.accept({"zone": "a", "size": "4"}, "node", ()) == is_accepted


@pytest.mark.parametrize(
    ("toleration", "is_accepted"),
    [
        (None, False),
        ({"key": "gpu", "value": "yes"}, True),
        ({"key": "gpu", "value": "no"}, False),
        ({"key": "gpu", "operator": "Exists"}, True),
        ({"operator": "Exists"}, True),
        ({"key": "gpu", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "other", "operator": "Exists"}, False),
    ],
)
def test_a_pod_stays_away_from_taints_that_it_does_not_tolerate(toleration, is_accepted):
    places = shapes.shape_of({"tolerations": [toleration] if toleration else None}).places

    assert places.accept({}, "n", (Taint("gpu", "yes"),)) == is_accepted
    assert places.accept({}, "n", (Taint("gpu", "yes", "PreferNoSchedule"),))


def test_rules_about_nodes_are_counted_once_for_pods_that_have_the_same():
    pod = {"nodeSelector": {"a": "b"}, "tolerations": [{"operator": "Exists"}], **required("In", "a", "b")}

    assert shapes.rules_of([pod, pod, {"nodeSelector": {"a": "b"}}]) == 6


JSON = some.recursive(
    some.none() | some.booleans() | some.integers() | some.text(max_size=4),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
FIELDS = ("containers", "initContainers", "overhead", "nodeSelector", "affinity", "tolerations")


@given(some.fixed_dictionaries(dict.fromkeys(FIELDS, JSON)))
def test_any_pod_has_a_shape(pod):
    hash(shapes.shape_of(pod))
