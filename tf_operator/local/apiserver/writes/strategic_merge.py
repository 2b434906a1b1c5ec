"""Strategic merge patches, which ``kubectl`` sends for built-in kinds: lists are merged by the keys of their items.

``merge_keys`` has the path of each such list (``spec.containers``) and the field that tells its items apart; it is
empty for a list of plain values that is a set. All other lists are replaced.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tf_operator.local.apiserver.kinds import Json
from tf_operator.local.apiserver.messages import ApiFailure

_DIRECTIVE: Final = "$patch"
_RETAIN: Final = "$retainKeys"
_DELETE: Final = "$deleteFromPrimitiveList/"
_ORDER: Final = "$setElementOrder/"

MergeKeys = Mapping[str, str]


def apply(target: Json, patch: Mapping[str, Any], merge_keys: MergeKeys) -> Json:
    """The target after the patch; it may be changed."""
    return _merge_object(target, dict(patch), merge_keys, path="")


def _bad(message: str, code: int = 400) -> ApiFailure:
    return ApiFailure(code, "BadRequest" if code == 400 else "", message)


def _merge_object(target: Json, patch: Json, merge_keys: MergeKeys, *, path: str) -> Json:
    directive = patch.pop(_DIRECTIVE, "merge")
    if directive == "delete":
        return {}
    if directive == "replace":
        return patch
    if directive != "merge":
        raise _bad(f"unknown patch type found: {directive}")
    if (names := _list(patch.pop(_RETAIN, None), "$retainKeys")) is not None:
        target = {name: value for name, value in target.items() if name in names}
    special = {name: _list(patch.pop(name), name) or [] for name in list(patch) if name.startswith((_DELETE, _ORDER))}
    old_lists = {name: list(value) for name, value in target.items() if isinstance(value, list)}
    for name, value in patch.items():
        _merge_field(target, name, value, merge_keys, path=_below(path, name))
    for directive, values in sorted(special.items()):  # deletions come before orders
        kind, _, name = directive.partition("/")
        if isinstance(items := target.get(name), list):
            key = merge_keys.get(_below(path, name), "")
            is_order = kind == "$setElementOrder"
            remaining = [item for item in items if is_order or item not in values]
            target[name] = _ordered(remaining, values if is_order else [], old_lists.get(name, []), key=key)
    return target


def _merge_field(target: Json, name: str, value: object, merge_keys: MergeKeys, *, path: str) -> None:
    old_value = target.get(name)
    if value is None:
        target.pop(name, None)
    elif isinstance(value, Mapping):
        result = _merge_object(old_value if isinstance(old_value, dict) else {}, dict(value), merge_keys, path=path)
        target[name] = result
    elif isinstance(value, list) and path in merge_keys:
        target[name] = _merge_list(old_value if isinstance(old_value, list) else [], value, merge_keys, path=path)
    else:
        target[name] = value


def _merge_list(target: list[Any], patch: Sequence[Any], merge_keys: MergeKeys, *, path: str) -> list[Any]:
    key = merge_keys[path]
    if not key:
        return _ordered([*target, *(item for item in patch if item not in target)], patch, target)
    old_items = list(target)
    items = [item if isinstance(item, dict) else {} for item in patch]
    if any(item.get(_DIRECTIVE) == "replace" for item in items):
        return [item for item in items if item.get(_DIRECTIVE) != "replace"]
    result = list(target)
    for item in items:
        if key not in item:
            raise _bad(f"map: {item} does not contain declared merge key: {key}", code=500)
        position = next((n for n, old_item in enumerate(result) if old_item.get(key) == item[key]), None)
        if item.get(_DIRECTIVE) == "delete":
            result = [old_item for old_item in result if old_item.get(key) != item[key]]
        elif position is None:
            result.append(_merge_object({}, dict(item), merge_keys, path=path))
        else:
            result[position] = _merge_object(dict(result[position]), dict(item), merge_keys, path=path)
    return _ordered(result, items, old_items, key=key)


def _ordered(items: Sequence[Any], order: Sequence[Any], old_items: Sequence[Any], *, key: str = "") -> list[Any]:
    """The items that ``order`` names in its order, and among them the others, in the order they had before."""

    def identity(item: Any) -> Any:  # noqa: ANN401 - any JSON
        return item.get(key) if key and isinstance(item, Mapping) else item

    identities = [identity(item) for item in order]
    old_ids = [identity(item) for item in old_items]
    in_order = sorted(
        (item for item in items if identity(item) in identities), key=lambda item: identities.index(identity(item))
    )
    others = [item for item in items if identity(item) not in identities]
    result = list[Any]()
    for item in in_order:
        while others and _is_before(identity(others[0]), identity(item), old_ids):
            result.append(others.pop(0))
        result.append(item)
    return result + others


def _is_before(first: object, second: object, old_ids: Sequence[object]) -> bool:
    return first in old_ids and second in old_ids and old_ids.index(first) < old_ids.index(second)


def _list(value: object, name: str) -> list[Any] | None:
    if value is not None and not isinstance(value, list):
        raise _bad(f"invalid patch format of {name}: it must be a list")
    return value


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
