"""What is kept of an object: unchangeable, and what repeats is kept once."""

import enum
import sys
from datetime import datetime
from typing import Any

import msgspec
import pytest

from tf_operator.machinery.cache.interning import LONGEST_INTERNED, Interned, InternedLabels, InternPool, decoder


class Owner(msgspec.Struct, frozen=True):
    uid: Interned[str] = ""


class Condition(msgspec.Struct, frozen=True):
    type: str
    message: str = ""


class Phase(enum.Enum):
    RUNNING = "Running"


class Status(msgspec.Struct, frozen=True):
    phase: Phase | None = None
    conditions: Interned[tuple[Condition, ...]] = ()
    since: datetime | None = None


class Kept(msgspec.Struct, frozen=True):
    name: str
    node: Interned[str] = ""
    labels: InternedLabels = InternedLabels()
    owners: tuple[Owner, ...] = ()
    main_owner: Owner | None = None
    status: Interned[Status] = Status()
    rest: msgspec.Raw = msgspec.Raw(b"null")


def encoded(name, **fields):
    return msgspec.json.encode({"name": name, **fields})


def test_the_fields_of_the_projection_are_kept_and_nothing_else():
    item = decoder(Kept)(encoded("a", node="n", huge="x" * 1000, status={"phase": "Running", "more": 1}))

    assert item == Kept("a", "n", status=Status(Phase.RUNNING))


def test_values_that_repeat_are_kept_once():
    read = decoder(Kept)
    fields = {"node": "node-one", "status": {"conditions": [{"type": "Ready"}, {"type": "Initialized"}]}}

    one, other = read(encoded("a", **fields)), read(encoded("b", **fields))

    assert one.node is other.node
    assert one.status is other.status


def test_pairs_of_labels_are_shared():
    read = decoder(Kept)

    one = read(encoded("a", labels={"job": "mnist", "index": "1"}))
    other = read(encoded("b", labels={"job": "mnist", "index": "2"}))

    assert one.labels == {"job": "mnist", "index": "1"}
    assert one.labels._pairs[0] is other.labels._pairs[0]


def test_the_pool_is_bounded(monkeypatch):
    monkeypatch.setattr("tf_operator.machinery.cache.interning.MOST_INTERNED", 10)
    pool = InternPool()

    values = [pool.intern(f"value-{number}") for number in range(95)]

    assert values[94] == "value-94"
    assert len(pool) <= 10


def test_a_raw_part_does_not_keep_the_rest_of_the_line_alive():
    line = encoded("a", rest={"b": 1}, huge="x" * 100_000)
    holders = sys.getrefcount(line)

    item = decoder(Kept)(line)

    assert bytes(item.rest) == b'{"b":1}'
    assert sys.getrefcount(line) == holders


def test_labels_are_a_mapping_that_cannot_be_changed():
    labels = decoder(Kept)(encoded("a", labels={"job": "mnist", "index": "1"})).labels

    assert dict(labels) == {"job": "mnist", "index": "1"} == labels
    assert (labels.get("other"), len(labels), "index" in labels) == (None, 2, True)
    assert repr(labels) == "InternedLabels({'job': 'mnist', 'index': '1'})"
    turned = InternedLabels((("index", "1"), ("job", "mnist")))
    assert labels == InternedLabels((("job", "mnist"), ("index", "1"))) == turned
    assert hash(labels) == hash(turned)
    assert labels not in (InternedLabels((("job", "mnist"), ("index", "2"))), {})
    with pytest.raises(TypeError):
        labels["job"] = "other"
    with pytest.raises(AttributeError):
        labels.more = 1


def test_an_object_that_does_not_fit_is_refused_by_the_decoder():
    with pytest.raises(msgspec.ValidationError):
        decoder(Kept)(encoded("a", node=7))


class Changeable(msgspec.Struct):
    name: str = ""


class InDeepestPlace(msgspec.Struct, frozen=True):
    owners: tuple[Changeable | None, ...] = ()


def type_with(hint):
    return msgspec.defstruct("Kind", [("field", hint)], frozen=True)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        pytest.param(Changeable, "Changeable is not frozen", id="a struct"),
        pytest.param(InDeepestPlace, "InDeepestPlace.owners is not frozen", id="a struct in a union in a tuple"),
        pytest.param(type_with(list[str]), "Kind.field is of type list", id="a list"),
        pytest.param(type_with(dict[str, str]), "Kind.field is of type dict", id="a dict"),
        pytest.param(type_with(set[str]), "Kind.field is of type set", id="a set"),
        pytest.param(type_with(Interned[list[str]]), "Kind.field is of type list", id="a shared list"),
        pytest.param(type_with(tuple[dict[str, str], ...]), "Kind.field is of type dict", id="a tuple of dicts"),
        pytest.param(type_with(tuple), "Kind.field is of type", id="a tuple of anything"),
        pytest.param(type_with(Any), "Kind.field is of type", id="anything"),
    ],
)
def test_a_type_that_could_be_changed_is_refused(kind, message):
    with pytest.raises(TypeError, match=message):
        decoder(kind)


def test_long_values_are_kept_by_their_objects_only():
    pool = InternPool()
    for number in range(100):
        pool.intern(("annotation", str(number) * LONGEST_INTERNED))
        pool.intern(str(number) * (LONGEST_INTERNED + 1))

    assert len(pool) == 0
