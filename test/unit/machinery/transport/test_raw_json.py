"""The pieces are the ones that a decoder would find, at any depth, and the time is linear in the text."""

import time
import tracemalloc

import pytest

from tf_operator.machinery.transport import raw_json


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        pytest.param(b"null", [], id="no brackets"),
        pytest.param(b"", [], id="nothing"),
        pytest.param(b'["a,b", "]", "\\"", "\\\\", 5]', [b'"a,b"', b'"]"', b'"\\""', b'"\\\\"', b"5"], id="strings"),
        pytest.param(b'["\\\\\\"]", 1]', [b'"\\\\\\"]"', b"1"], id="a row of backslashes before a quote"),
        pytest.param(b"[1, 2][3]", [b"1", b"2"], id="what follows the end is ignored"),
        pytest.param(b"[1,2,[3", [b"1", b"2"], id="what has no end is left out"),
        pytest.param(b'[1,[2],"3', [b"1", b"[2]"], id="a string without an end"),
    ],
)
def test_the_elements_of_an_array_are_found_as_far_as_they_are_complete(text, pieces):
    assert raw_json.split_array(text) == pieces


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        pytest.param(b'{"a":1,"b":{"c":[1,2]}}', {"a": b"1", "b": b'{"c":[1,2]}'}, id="plain"),
        pytest.param(b'{"a:b":":","\\"":1}', {"a:b": b'":"', '"': b"1"}, id="colons and quotes in names"),
        pytest.param(b'{"\\u0061":1}', {"a": b"1"}, id="an escaped name"),
        pytest.param(b'{"a":1,"a":2}', {"a": b"2"}, id="of two of a name the last one, as decoders do"),
        pytest.param(b'{"a"}', {}, id="no member"),
        pytest.param(b"[1]", {}, id="an array has none"),
        pytest.param(b'{"a":1,"b":[', {"a": b"1"}, id="what has no end is left out"),
    ],
)
def test_the_members_of_an_object_are_found_as_far_as_they_are_complete(text, pieces):
    assert raw_json.split_object(text) == pieces


def test_an_object_nested_deeper_than_any_decoder_goes_does_not_affect_the_others():
    deep = b"[" * 9000 + b'"]"' + b"]" * 9000

    assert raw_json.split_array(b'[{"a":1},' + deep + b',{"b":2}]') == [b'{"a":1}', deep, b'{"b":2}']
    assert raw_json.split_object(b'{"a":' + deep + b',"b":2}') == {"a": deep, "b": b"2"}


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda n: b'["' + b'\\"' * (n // 2) + b'"]', id="escaped quotes"),
        pytest.param(lambda n: b'["' + b'\\"' * (n // 2), id="escaped quotes without an end"),
        pytest.param(lambda n: b"[" + b'"a' * (n // 2), id="quotes"),
        pytest.param(lambda n: b'["' + b"\\" * n, id="backslashes"),
        pytest.param(lambda n: b"[" * (n // 2) + b"]" * (n // 2), id="deep"),
        pytest.param(lambda n: b"[[" + b"[]," * (n // 3) + b"1]]", id="wide"),
        pytest.param(lambda n: b"[[" + b"[" * n, id="opening only"),
        pytest.param(lambda n: b"[" + b"," * n, id="commas"),
        pytest.param(lambda n: b'{"' + b"a" * n, id="a name without an end"),
        pytest.param(lambda n: b'{"' + b"\\\\" * (n // 2) + b'":1}', id="backslashes in a name"),
    ],
)
def test_the_time_is_linear_whatever_a_tenant_has_stored(make):
    small, large = 10_000, 80_000

    assert _seconds(make(large)) < 40 * _seconds(make(small)) + 0.005  # quadratic would be 64 times


def _seconds(text):
    """CPU time, the best of three: the machine runs other things, too."""
    return min(_once(text) for _ in range(3))


def _once(text):
    began = time.process_time()
    raw_json.split_object(text)
    return time.process_time() - began


def test_short_strings_take_no_more_memory_than_a_few_copies_of_the_text():
    text = b"[[" + b'"aaa",' * 200_000 + b"0]]"
    tracemalloc.start()
    try:
        assert raw_json.split_array(text) == [text[1:-1]]
        assert tracemalloc.get_traced_memory()[1] < 6 * len(text)
    finally:
        tracemalloc.stop()


PARTS = b' {"a,":[1,{"b":"\\\\"}],"c\\"":"\\\\\\",]", "d" : {}} ,5'


@pytest.mark.parametrize("size", range(1, len(PARTS)))
def test_the_borders_are_the_same_wherever_the_text_is_cut_into_parts(size):
    whole = raw_json.BorderScanner()
    expected = whole.feed(PARTS)

    scanner = raw_json.BorderScanner()
    borders = [at + end for at in range(0, len(PARTS), size) for end in scanner.feed(PARTS[at : at + size])]

    assert borders == expected
    assert list(raw_json.split_object(PARTS)) == ["a,", 'c"', "d"]
    assert (whole.is_closed, scanner.is_closed) == (True, True)
