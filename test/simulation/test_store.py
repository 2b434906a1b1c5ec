"""Any history of ``machinery/cache/store.py`` beside a plain dictionary."""

from hypothesis import given, settings
from hypothesis import strategies as st

from support.sample_objects import projected
from tf_operator.machinery.cache.store import Store
from tf_operator.meta import ObjectKey


def owners(item):
    return [item.owner] if item.owner else []


NAMES = st.sampled_from("abcd")
STEPS = st.lists(st.tuples(NAMES, st.sampled_from(["", "x", "y"]), st.booleans(), st.booleans()), max_size=30)


@given(STEPS)
@settings(derandomize=True, database=None)
def test_every_way_to_find_objects_agrees_after_any_history(steps):
    store = Store({"owner": owners})
    model = {}
    for version, (name, owner, is_same, goes) in enumerate(steps):
        uid = f"{name}-1" if is_same else f"{name}-{version}"
        if goes:
            store.remove(ObjectKey("ns", name))
            model.pop(name, None)
        else:
            model[name] = projected(name, version, uid=uid, owner=owner)
            store.put(model[name])

    assert {item.metadata.name: item for item in store} == model
    assert {uid: item.metadata.name for uid, item in store._uids.items()} == {
        item.metadata.uid: name for name, item in model.items()
    }
    for owner in ("x", "y"):
        assert {item.metadata.name for item in store.by_index("owner", owner)} == {
            name for name, item in model.items() if item.owner == owner
        }
