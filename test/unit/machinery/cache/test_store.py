"""The cache: by key, by UID, by index, and its versions. Any history of it is in test/simulation."""

import weakref

import pytest

from support.toys.sample_objects import Thing, projected
from tf_operator.machinery.cache.store import Store
from tf_operator.machinery.transport.responses import ObjectMeta
from tf_operator.meta import ObjectKey


def owners(item):
    return [item.owner] if item.owner else []


def make_store(*items):
    store = Store({"owner": owners})
    for item in items:
        store.put(item)
    return store


def test_an_object_is_found_by_its_key_and_by_its_uid():
    item = projected("a", 1)

    store = make_store(item)

    assert store.get(ObjectKey("ns", "a")) is item
    assert store.by_uid("uid-of-a") is item
    assert store.version_of("uid-of-a") == "1"
    assert ObjectKey("ns", "a") in store
    assert len(store) == 1
    assert list(store) == [item]


def test_an_unknown_index_is_an_error_that_names_those_that_exist():
    with pytest.raises(KeyError, match="no index 'job'; there are \\['owner'\\]"):
        make_store().by_index("job", "x")


def test_an_index_can_be_added_to_a_store_that_is_in_use():
    store = make_store(projected("a", 1, size=3), projected("b", 2, size=4))

    store.add_index("size", lambda item: [str(item.size)])
    store.put(projected("c", 3, size=3))

    assert [item.metadata.name for item in store.by_index("size", "3")] == ["a", "c"]
    assert (store.count("size", "3"), store.count("size", "5")) == (2, 0)


def test_the_same_index_can_be_added_again_and_another_one_of_its_name_cannot():
    store = make_store(projected("a", 1, owner="x"))

    store.add_index("owner", owners)
    with pytest.raises(ValueError, match="another index 'owner'"):
        store.add_index("owner", lambda item: [])

    assert len(store.by_index("owner", "x")) == 1


def test_nothing_has_changed_when_an_index_raises():
    original = projected("a", 1)
    store = Store({"fragile": lambda item: [str(1 // (3 - item.size))]})
    store.put(original)

    with pytest.raises(ZeroDivisionError):
        store.put(projected("a", 2, size=3))

    assert store.get(ObjectKey("ns", "a")) is original
    assert store.version_of("uid-of-a") == "1"
    assert store.by_index("fragile", "0") == (original,)


class Text(str):
    """Unlike others, it says when it has gone."""

    __slots__ = ("__weakref__",)


def test_an_update_leaves_no_text_of_the_version_before():
    texts = Text("a"), Text("uid-of-a")
    remaining = [weakref.ref(text) for text in texts]
    store = make_store(Thing(ObjectMeta(texts[0], "ns", texts[1], "1"), owner="x"))
    del texts

    store.put(projected("a", 2, owner="x"))
    store.put(projected("b", 3))  # the last one that was placed is remembered

    assert [text() for text in remaining] == [None, None]


def test_iterating_goes_on_while_the_store_changes():
    store = make_store(projected("a", 1), projected("b", 1))

    for item in store:
        store.remove(item.metadata.key)

    assert len(store) == 0


def test_the_version_of_a_namespace_is_that_of_the_watch_that_covers_it():
    store = make_store()
    assert store.resource_version_in("a") == ""

    store.set_resource_version("a", "9")
    assert (store.resource_version_in("a"), store.resource_version_in("b")) == ("9", "")

    everywhere = make_store()
    everywhere.set_resource_version("", "10")
    assert everywhere.resource_version_in("a") == "10"
