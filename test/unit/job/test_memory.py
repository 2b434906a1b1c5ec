"""How far memory grows, and what a template has that has grown."""

from decimal import Decimal

import pytest

from tf_operator import quantity
from tf_operator.job.memory import MemoryLimit, OOMPolicy

GI = Decimal(2**30)


def template(*, pod=None, **resources):
    main = {"name": "tensorflow", "image": "i", "resources": resources}
    return {"spec": {"containers": [{"name": "side", "image": "s"}, main]} | (pod or {})}


def limit_of(body, *, recorded="", most="64Gi", percent=50):
    return MemoryLimit.of(OOMPolicy(percent, most), body, "tensorflow", recorded)


@pytest.mark.parametrize(
    ("percent", "first", "most", "limits"),
    [
        (50, "8Gi", "64Gi", ["12Gi", "18Gi", "27Gi", "41472Mi", "62208Mi", "64Gi"]),
        (100, "1Gi", "2Gi", ["2Gi"]),
        (10, "15Mi", "17Mi", ["17Mi"]),
        (10, "1G", "1200M", ["1050Mi", "1171875Ki"]),
        (50, "8Gi", "8Gi", []),
        (50, "8Gi", "nothing", []),
    ],
)
def test_limits_grow_by_the_percentage_in_whole_mebibytes_up_to_the_maximum(percent, first, most, limits):
    policy = OOMPolicy(percent, most)

    grown = policy.limits(quantity.parse(first))

    assert [quantity.memory(limit) for limit in grown[1:]] == limits
    assert grown[-1] <= (quantity.parse(most) or grown[0])


@pytest.mark.parametrize("percent", [10, 0, -50])
def test_the_sixteenth_growth_is_to_the_maximum(percent):
    limits = OOMPolicy(percent, "1Ti").limits(GI)

    assert len(limits) == 16 + 1
    assert limits[-1] == 1024 * GI


@pytest.mark.parametrize(
    ("body", "grown"),
    [
        (template(limits={"memory": "8Gi"}), {"limits": {"memory": "12Gi"}}),
        (
            template(limits={"memory": "8Gi", "cpu": 1}, requests={"memory": "8Gi", "cpu": 1}),
            {"limits": {"memory": "12Gi", "cpu": 1}, "requests": {"memory": "12Gi", "cpu": 1}},
        ),
        (
            template(limits={"memory": "8Gi"}, requests={"memory": "1Gi"}),
            {"limits": {"memory": "12Gi"}, "requests": {"memory": "1536Mi"}},
        ),
        (
            template(limits={"memory": "8Gi"}, requests={"memory": "much"}),
            {"limits": {"memory": "12Gi"}, "requests": {"memory": "much"}},
        ),
    ],
    ids=["no request", "Guaranteed", "Burstable", "an invalid request"],
)
def test_the_request_grows_by_the_same_factor_as_the_limit(body, grown):
    containers = limit_of(body, recorded="12Gi").applied(body, "tensorflow")["spec"]["containers"]

    assert containers == [{"name": "side", "image": "s"}, {"name": "tensorflow", "image": "i", "resources": grown}]


@pytest.mark.parametrize(
    "body",
    [
        {},
        template(),
        template(limits={"memory": "much"}),
        template(limits={"memory": "-1"}),
        template(limits={"memory": "0"}),
        template(limits={"memory": "8Gi"}, pod={"resources": {"limits": {"memory": "9Gi"}}}),
        {"spec": {"containers": [{"name": "side", "resources": {"limits": {"memory": "8Gi"}}}]}},
    ],
    ids=["nothing", "none", "no quantity", "negative", "zero", "of the pod as a whole", "of another container"],
)
def test_without_a_limit_of_the_container_nothing_can_grow(body):
    assert limit_of(body) is None


def test_a_limit_of_a_byte_can_grow():
    assert limit_of(template(limits={"memory": "1"})) is not None


@pytest.mark.parametrize(
    ("recorded", "most", "in_force", "follows"),
    [
        ("", "64Gi", "8Gi", "12Gi"),
        ("12Gi", "64Gi", "12Gi", "18Gi"),
        ("13Gi", "64Gi", "13Gi", "18Gi"),
        ("4Gi", "64Gi", "8Gi", "12Gi"),
        ("12Gi", "10Gi", "10Gi", None),
        ("12Gi", "4Gi", "8Gi", None),
        ("much", "64Gi", "8Gi", "12Gi"),
    ],
)
def test_what_is_recorded_is_in_force_above_the_template_and_below_the_maximum(recorded, most, in_force, follows):
    limit = limit_of(template(limits={"memory": "8Gi"}), recorded=recorded, most=most)

    assert quantity.memory(limit.in_force) == in_force
    assert limit.next == quantity.parse(follows)


@pytest.mark.parametrize(
    ("recorded", "path"), [("18Gi", ["8Gi", "12Gi", "18Gi"]), ("20Gi", ["8Gi", "20Gi"]), ("", ["8Gi"])]
)
def test_the_path_is_that_of_the_policy_as_far_as_it_has_not_changed(recorded, path):
    limit = limit_of(template(limits={"memory": "8Gi"}), recorded=recorded)

    assert [quantity.memory(size) for size in limit.path] == path
