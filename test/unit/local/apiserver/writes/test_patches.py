"""JSON, merge and strategic merge patches."""

import json
from typing import Any

import pytest

from tf_operator.local.apiserver.kinds import Kind
from tf_operator.local.apiserver.messages import ApiFailure
from tf_operator.local.apiserver.writes import patches
from tf_operator.meta import GroupVersionResource

CUSTOM = Kind(GroupVersionResource("g", "v1", "things", "Thing"), "thing")
PODS = Kind(
    GroupVersionResource("", "v1", "pods", "Pod"),
    "pod",
    merge_keys={"f": "", "c": "name", "c.ports": "port", "v": "name"},
)


def _apply(content_type: str, body: dict[str, Any], patch: object, kind: Kind = PODS) -> object:
    text = json.dumps(body)
    result = patches.apply(content_type, body, json.dumps(patch).encode(), kind)
    assert json.dumps(body) == text
    return result


@pytest.mark.parametrize(
    ("operation", "result"),
    [
        ({"op": "add", "path": "/b", "value": None}, {"a": [1, 2], "b": None}),
        ({"op": "add", "path": "/a/-", "value": 3}, {"a": [1, 2, 3]}),
        ({"op": "add", "path": "/a/0", "value": 0}, {"a": [0, 1, 2]}),
        ({"op": "add", "path": "/a/-1", "value": 5}, {"a": [1, 2, 5]}),
        ({"op": "replace", "path": "/a/1", "value": 5}, {"a": [1, 5]}),
        ({"op": "replace", "path": "/b", "value": 5}, {"a": [1, 2], "b": 5}),
        ({"op": "remove", "path": "/a/0"}, {"a": [2]}),
        ({"op": "move", "from": "/a", "path": "/b~1c~0"}, {"b/c~": [1, 2]}),
        ({"op": "copy", "from": "/a/1", "path": "/b"}, {"a": [1, 2], "b": 2}),
        ({"op": "test", "path": "/a", "value": [1, 2]}, {"a": [1, 2]}),
        ({"op": "test", "path": "/b", "value": None}, {"a": [1, 2]}),
    ],
)
def test_a_json_patch_does_its_operations(operation: object, result: object) -> None:
    assert _apply(patches.JSON_PATCH, {"a": [1, 2]}, [operation]) == result


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/a/0", "value": True},
        {"op": "test", "path": "/a/0", "value": 2},
        {"op": "remove", "path": "/b"},
        {"op": "remove", "path": "/a/2"},
        {"op": "replace", "path": "/a/2", "value": 1},
        {"op": "add", "path": "", "value": {}},
        {"op": "add", "path": "/b/c", "value": 1},
        {"op": "add", "path": "/a/4", "value": 1},
        {"op": "add", "path": "b", "value": 1},
        {"op": "add", "path": "/b"},
        {"op": "grow", "path": "/b", "value": 1},
    ],
)
def test_a_json_patch_that_cannot_be_done_is_invalid(operation: object) -> None:
    with pytest.raises(ApiFailure) as failure:
        _apply(patches.JSON_PATCH, {"a": [1, 2]}, [operation])
    assert (failure.value.code, failure.value.reason) == (422, "Invalid")
    assert str(failure.value) == "the server rejected our request due to an error in our request"


def test_a_json_patch_may_not_copy_without_end() -> None:
    doubling = [{"op": "copy", "from": "", "path": f"/{number}"} for number in range(19)]
    with pytest.raises(ApiFailure, match="accumulated size increase of copy") as failed:
        _apply(patches.JSON_PATCH, {"a": 1}, doubling)
    assert failed.value.code == 413


def test_a_merge_patch_removes_what_is_null_and_replaces_lists() -> None:
    body = {"a": {"b": 1, "c": 2}, "d": [1, 2], "e": 3}
    patch = {"a": {"b": None, "x": {"y": None, "z": 1}}, "d": [5], "e": {"f": 1}}
    assert _apply(patches.MERGE_PATCH, body, patch) == {"a": {"c": 2, "x": {"z": 1}}, "d": [5], "e": {"f": 1}}


_A, _B, _C = {"name": "a", "image": "i"}, {"name": "b"}, {"name": "c"}


@pytest.mark.parametrize(
    ("body", "patch", "result"),
    [
        ({"c": [_A, _B]}, {"c": [{"name": "a", "x": 1}]}, {"c": [_A | {"x": 1}, _B]}),
        ({"c": [_A]}, {"c": [{"name": "a", "image": None}, _C]}, {"c": [{"name": "a"}, _C]}),
        ({"c": [_A, _B]}, {"c": [{"name": "a", "$patch": "delete"}]}, {"c": [_B]}),
        ({"c": [_A, _B]}, {"c": [_C, {"$patch": "replace"}]}, {"c": [_C]}),
        ({"c": [_A, _B]}, {"$setElementOrder/c": [_B, {"name": "a"}]}, {"c": [_B, _A]}),
        ({"c": [_A, _B]}, {"$setElementOrder/c": [_C, {"name": "a"}], "c": [_C]}, {"c": [_C, _A, _B]}),
        (
            {"c": [{"name": "a", "ports": [{"port": 1}]}]},
            {"c": [{"name": "a", "ports": [{"port": 2}, {"port": 1, "x": 1}]}]},
            {"c": [{"name": "a", "ports": [{"port": 2}, {"port": 1, "x": 1}]}]},
        ),
        ({"f": ["x", "y"]}, {"f": ["z", "x"]}, {"f": ["z", "x", "y"]}),
        ({"f": ["x", "y"]}, {"$deleteFromPrimitiveList/f": ["x"], "$setElementOrder/f": ["y"]}, {"f": ["y"]}),
        ({"l": [1]}, {"l": [2]}, {"l": [2]}),
        ({"m": {"a": 1}}, {"m": {"b": 2, "$patch": "replace"}}, {"m": {"b": 2}}),
        ({"m": {"a": 1}}, {"m": {"$patch": "delete"}}, {"m": {}}),
        ({"v": [{"name": "a", "x": {}}]}, {"v": [{"name": "a", "y": {}, "$retainKeys": ["name", "y"]}]},
         {"v": [{"name": "a", "y": {}}]}),
    ],
)  # fmt: skip
def test_a_strategic_merge_patch_merges_lists_by_their_keys(body: Any, patch: object, result: object) -> None:
    assert _apply(patches.STRATEGIC_MERGE_PATCH, body, patch) == result


@pytest.mark.parametrize(
    ("content_type", "kind", "patch", "code"),
    [
        (patches.STRATEGIC_MERGE_PATCH, CUSTOM, {}, 415),
        ("application/json", PODS, {}, 415),
        (patches.JSON_PATCH, PODS, {}, 400),
        (patches.MERGE_PATCH, PODS, [], 400),
        (patches.JSON_PATCH, PODS, [1], 400),
        (patches.JSON_PATCH, PODS, [{"op": "test", "path": ""}] * 10_001, 413),
        (patches.STRATEGIC_MERGE_PATCH, PODS, {"$patch": "x"}, 400),
        (patches.STRATEGIC_MERGE_PATCH, PODS, {"$setElementOrder/c": 1}, 400),
        (patches.STRATEGIC_MERGE_PATCH, PODS, {"c": [{"image": "i"}]}, 500),
    ],
)
def test_a_patch_of_the_wrong_form_is_refused(content_type: str, kind: Kind, patch: object, code: int) -> None:
    with pytest.raises(ApiFailure) as failure:
        _apply(content_type, {}, patch, kind)
    assert failure.value.code == code
