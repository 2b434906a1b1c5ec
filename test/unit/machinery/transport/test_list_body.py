"""The body of a list while it arrives: the objects are those of the whole body, and no more than some is held."""

import json

import msgspec
import pytest

from tf_operator.machinery.transport import list_body, raw_json
from tf_operator.machinery.transport.errors import Garbled
from tf_operator.machinery.transport.list_body import ListBody

ODD = {"name": 'a"b\\', "text": '},{"metadata":{}},', "list": [[{}], [], [1, {"a": "]"}]], "none": None}
OBJECTS = [{"metadata": {"name": f"o{number}"}, **(ODD if number % 3 else {})} for number in range(40)]
META = {"resourceVersion": "7", "continue": "next", "remainingItemCount": 3}


@pytest.fixture(autouse=True)
def little(monkeypatch):
    """As if little memory was to be spent, and little came at once."""
    monkeypatch.setattr(list_body, "MOST_HELD", 500)
    monkeypatch.setattr(list_body, "_SCANNED_PER_CHUNK", 200)
    monkeypatch.setattr(raw_json, "AT_ONCE", 50)


def body(**members):
    return json.dumps(members).encode()


BODIES = {
    "typed": body(kind="PodList", apiVersion="v1", metadata=META, items=OBJECTS),
    "custom": body(apiVersion="v1", items=OBJECTS, kind="JobList", metadata=META),
    "compact": json.dumps({"items": OBJECTS, "metadata": META}, separators=(",", ":")).encode(),
    "indented": json.dumps({"items": OBJECTS, "metadata": META}, indent=2).encode(),
    "an unknown member first": body(more={"items": [1]}, items=OBJECTS, metadata=META),
    "none": body(items=[], metadata=META, padding="x" * 1000),
    "null": body(items=None, metadata=META, padding="x" * 1000),
}


def arrive(text, size):
    """Everything that comes out, and the most that was held meanwhile."""
    objects, held, reader = [], 0, ListBody()
    for at in range(0, len(text), size):
        objects += reader.feed(text[at : at + size])
        held = max(held, reader.held)
    page = reader.finish()
    assert (reader.size, reader.count) == (len(text), len(objects) + len(page.items))
    return [msgspec.json.decode(raw) for raw in [*objects, *page.items]], page, held


@pytest.mark.parametrize("size", [1, 7, 50, 90, 100_000])
@pytest.mark.parametrize("name", BODIES)
def test_the_objects_are_those_of_the_body_wherever_its_chunks_end(name, size):
    objects, page, _ = arrive(BODIES[name], size)

    assert objects == (json.loads(BODIES[name])["items"] or [])
    assert (page.resource_version, page.token) == ("7", "next")


@pytest.mark.parametrize("name", ["typed", "custom", "compact", "indented"])
def test_no_more_is_held_than_was_allowed_and_one_object(name):
    _, page, held = arrive(BODIES[name], 50)

    assert held < 1000 < len(BODIES[name])
    assert len(page.items) < len(OBJECTS) / 4


@pytest.mark.parametrize("end", [0, 300, 700, 2000, -1], ids=lambda end: f"cut at {end}")
def test_a_body_that_is_no_list_or_ends_too_early_is_garbled(end):
    with pytest.raises(Garbled):
        arrive(BODIES["custom"][:end], 90)
