"""An object that cannot be decoded does not affect the others."""

import msgspec
import pytest
from structlog.testing import capture_logs

from support.toys.sample_objects import READ_THING, ReflectorCounts, thing
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
def test_an_object_without_an_identity_is_counted_and_left_out(body):
    reader, counts = make_reader()

    _, item = reader.read(raw(body))

    assert item is None
    assert counts.of == {"undecodable": 1}


@pytest.mark.parametrize("error", [KeyError("x"), RecursionError(), ValueError("one\ntwo\x1b[31m" + "x" * 10_000)])
def test_a_decoder_may_fail_in_any_way_and_its_error_is_logged_on_one_short_line(error, logs):
    def decode(_raw):
        raise error

    reader, _ = make_reader(decode)

    _, item = reader.read(raw(thing("a", 7)))

    assert item is None
    assert type(error).__name__ in logs[0]["error"]
    assert "\n" not in logs[0]["error"]
    assert len(logs[0]["error"]) < 400


def test_an_object_is_not_at_fault_when_memory_runs_out():
    def decode(_):
        raise MemoryError

    reader, counts = make_reader(decode)

    with pytest.raises(MemoryError):
        reader.read(raw(thing("a", 7)))
    assert not counts.of


def test_an_object_that_cannot_be_indexed_is_left_out_too():
    reader, counts = make_reader(indexes={"fragile": lambda item: [str(1 // item.size)]})

    _, item = reader.read(raw(thing("a", 7, size=0)))

    assert item is None
    assert counts.of == {"undecodable": 1}


def test_an_object_that_cannot_be_decoded_is_named_in_the_log(logs):
    reader, _ = make_reader()

    reader.read(raw(thing("a", 7, size="large")))

    [log] = logs
    assert (log["event"], log["key"], log["uid"]) == ("an object cannot be decoded", "ns/a", "uid-of-a")
