"""Any input of the parts that read text: nothing raises what nobody expects, and what is written is read again."""

import json
from contextlib import suppress
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tf_operator import meta
from tf_operator.app import logs
from tf_operator.app.options import flag_types, flags, options
from tf_operator.app.options.errors import OptionError
from tf_operator.app.options.options import Options
from tf_operator.job.ranges import Indexes
from tf_operator.machinery.transport import errors, raw_json
from tf_operator.machinery.transport.responses import LineSplitter
from tf_operator.meta import ObjectKey, OwnerRef
from tf_operator.text import one_line

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@given(st.text(max_size=40))
def test_no_retry_after_raises_or_is_longer_than_a_minute(header):
    seconds = errors.retry_after(header, NOW)

    assert seconds is None or 0 <= seconds <= errors.LONGEST_RETRY_AFTER


@given(st.text(), st.integers(min_value=10, max_value=50))
def test_one_line_never_breaks_its_promise(text, most):
    line = one_line(text, most=most)

    assert len(line) <= most
    assert line.isprintable()


UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


@given(st.lists(st.tuples(st.integers(0, 10**4), st.sampled_from(sorted(UNITS))), min_size=1, max_size=6))
def test_a_duration_is_the_sum_of_its_parts_in_any_order(parts):
    text = "".join(f"{number}{unit}" for number, unit in parts)

    assert flag_types.duration(text) == pytest.approx(sum(number * UNITS[unit] for number, unit in parts))


@given(st.text(max_size=12))
def test_any_text_is_a_duration_of_zero_or_more_or_refused(text):
    with suppress(ValueError):
        assert flag_types.duration(text) >= 0


@given(st.text(max_size=6))
def test_a_switch_has_no_other_spelling(text):
    if text in flag_types._TRUE | flag_types._FALSE:
        assert flag_types.switch(text) in {True, False}
    else:
        with pytest.raises(ValueError, match="true or false"):
            flag_types.switch(text)


@given(st.lists(st.sampled_from(sorted(flags.BY_NAME)) | st.text(max_size=8), max_size=4))
def test_any_command_line_is_either_understood_or_refused(words):
    arguments = [word if word[:1] == "x" else f"--{word}" for word in words]
    with suppress(OptionError):
        assert isinstance(options.parse(arguments, {}), Options)


@given(st.dictionaries(st.text(max_size=5), st.none() | st.floats() | st.text(max_size=20), max_size=3))
def test_any_record_is_one_line_that_can_be_read_back(fields):
    record = logs.guarded(None, "info", {"message": "m", **fields})
    line = logs.as_json(None, "info", record)

    assert line.isascii()
    assert len(line.splitlines()) == 1
    assert "message" in json.loads(line)


@given(st.lists(st.binary(max_size=8)))
def test_what_comes_out_is_what_went_in_without_the_unfinished_end(chunks):
    splitter = LineSplitter()
    lines = [line for chunk in chunks for line in splitter.feed(chunk)]

    assert lines == [line for line in b"".join(chunks).split(b"\n")[:-1] if line.strip()]


TEXTS = st.text(alphabet=st.sampled_from('ab"\\{}[],: \n\té\u2028😀'), max_size=12)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=8,
)
STYLES = st.sampled_from([
    {"separators": (",", ":")},
    {"separators": (" , ", " : ")},
    {"indent": 2},
    {"ensure_ascii": False},
])  # fmt: skip


@given(st.lists(VALUES, max_size=6), STYLES)
def test_the_elements_of_an_array_are_those_that_a_decoder_finds(values, style):
    pieces = raw_json.split_array(json.dumps(values, **style).encode())

    assert [json.loads(piece) for piece in pieces] == values


@given(st.dictionaries(TEXTS, VALUES, max_size=6), STYLES)
def test_the_members_of_an_object_are_those_that_a_decoder_finds(values, style):
    pieces = raw_json.split_object(json.dumps(values, **style).encode())

    assert {name: json.loads(piece) for name, piece in pieces.items()} == values


@given(st.binary(max_size=60) | st.text(alphabet='"\\{}[],: a', max_size=60).map(str.encode))
def test_pieces_of_what_is_no_json_are_parts_of_it_and_nothing_hangs(text):
    assert all(piece in text for piece in raw_json.split_array(text))


LEAF = st.none() | st.booleans() | st.integers() | st.text(alphabet="aé\n/", max_size=3)
ANY_JSON = st.recursive(
    LEAF, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.just("uid"), inner), max_leaves=5
)
# Hypothesis wants its bounds without a zone and adds the zone itself.
MOMENTS = st.datetimes(datetime(1970, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
FIELDS = st.sampled_from(["labels", "ownerReferences", "name", "uid"])


@given(body=st.fixed_dictionaries({}, optional={"metadata": ANY_JSON | st.dictionaries(FIELDS, ANY_JSON)}))
def test_no_body_whatsoever_makes_an_accessor_raise(body):
    assert isinstance(meta.key_of(body), ObjectKey)
    assert isinstance(meta.uid_of(body), str)
    assert isinstance(meta.resource_version_of(body), str)
    assert all(isinstance(value, str) for value in meta.labels_of(body).values())
    assert all(isinstance(owner, OwnerRef) for owner in meta.owners_of(body))


@given(MOMENTS)
def test_a_micro_time_comes_back_as_it_went(moment):
    assert meta.parse_time(meta.micro_time(moment)) == moment


SETS = st.frozensets(st.integers(0, 40))


@given(SETS)
def test_what_is_written_is_read_again(members):
    assert Indexes.parse(str(Indexes.of(members))) == Indexes.of(members)


@given(SETS, SETS, st.integers(0, 40))
def test_it_is_a_set(one, other, count):
    first, second = Indexes.of(one), Indexes.of(other)

    assert set(first | second) == one | other
    assert set(first - second) == one - other
    assert len(first) == len(one)
    assert list(first) == sorted(one)
    assert (count in first) == (count in one)
    assert set(first.below(count)) == {index for index in one if index < count}
