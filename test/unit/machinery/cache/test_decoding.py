"""One object that cannot be read costs only itself."""

import msgspec
import pytest
from structlog.testing import capture_logs

from support.sample_objects import READ_THING, ReflectorCounts, thing
from tf_operator.machinery.cache.decoding import ObjectDecoder
from tf_operator.machinery.cache.store import Store


def raw(body):
    return msgspec.Raw(body if isinstance(body, bytes) else msgspec.json.encode(body))


def make_reader(decode=READ_THING, *, indexes=None, **more):
    counts = ReflectorCounts()
    return ObjectDecoder(decode, store=Store(indexes), instruments=counts, **more), counts


@pytest.fixture(autouse=True)
def logs():
    with capture_logs() as logs:
        yield logs


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"{}", id="no metadata"),
        pytest.param(b"null", id="null"),
        pytest.param(b"[]", id="a list"),
        pytest.param(b"{", id="half of it"),
        pytest.param(thing("", 7), id="no name"),
        pytest.param({"metadata": {"name": "a", "resourceVersion": "7"}}, id="no UID"),
        pytest.param(thing("a", ""), id="no version"),
    ],
)
def test_what_has_no_identity_is_no_object(body):
    reader, counts = make_reader()

    _, item = reader.read(raw(body))

    assert item is None
    assert counts.of == {"undecodable": 1}


@pytest.mark.parametrize("error", [KeyError("x"), RecursionError(), ZeroDivisionError(), AttributeError("y")])
def test_a_decoder_may_fail_in_any_way(error, logs):
    def decode(_raw):
        raise error

    reader, _ = make_reader(decode)

    _, item = reader.read(raw(thing("a", 7)))

    assert item is None
    assert type(error).__name__ in logs[0]["error"]


def test_when_the_memory_is_out_the_object_is_not_blamed():
    def decode(_):
        raise MemoryError

    reader, counts = make_reader(decode)

    with pytest.raises(MemoryError):
        reader.read(raw(thing("a", 7)))
    assert not counts.of


def test_an_object_that_an_index_cannot_place_is_unreadable_too():
    reader, counts = make_reader(indexes={"fragile": lambda item: [str(1 // item.size)]})

    _, item = reader.read(raw(thing("a", 7, size=0)))

    assert item is None
    assert counts.of == {"undecodable": 1}


def test_an_unreadable_object_is_named_in_the_log(logs):
    reader, _ = make_reader()

    reader.read(raw(thing("a", 7, size="large")))

    [log] = logs
    assert (log["event"], log["key"], log["uid"]) == ("an object cannot be decoded", "ns/a", "uid-of-a")


def test_the_reason_is_one_short_line(logs):
    def decode(_raw):
        raise ValueError("line one\nline two\x1b[31m" + "x" * 10_000)

    reader, _ = make_reader(decode)

    reader.read(raw(thing("a", 7)))

    assert "\n" not in logs[0]["error"]
    assert len(logs[0]["error"]) < 400
