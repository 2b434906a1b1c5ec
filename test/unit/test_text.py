"""Somebody's text among ours: it stays on its line, shows no credentials, and hides nothing."""

import pytest

from tf_operator import text as texts


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param("a\nb\r\n\tc\u2028d", "a b c d", id="lines"),
        pytest.param("red \x1b[31malert\x00", "red ?[31malert?", id="control characters"),
        pytest.param("x" * 400, "x" * 297 + "...", id="too long"),
        pytest.param("you sent: Bearer eyJhbGciOi.eyJzdWIi-_.sig=", "you sent: Bearer ...", id="token"),
        pytest.param("BASIC dXNlcjpwYXNzd29yZA==!", "BASIC ...!", id="password"),
        pytest.param("bearer of bad news", "bearer of bad news", id="just words"),
    ],
)
def test_a_text_is_quoted_on_one_bounded_printable_line_without_credentials(text, line):
    assert texts.one_line(text) == line


def test_a_printable_text_is_as_wide_as_it_was():
    assert texts.printable("a\n\t b\u202e\x00") == "a   b??"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("plain text, ünïcode, 世界, a\u00a0b", "plain text, ünïcode, 世界, a\u00a0b"),
        ("two\nlines\r\n", "two\\nlines\\r\\n"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("a\u2028b\u2029c", "a\\u2028b\\u2029c"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("half \ud83d", "half \\ud83d"),
        ("%s {} \\", "%s {} \\"),
    ],
)
def test_an_escaped_text_moves_no_cursor_and_loses_nothing(text, line):
    assert texts.escaped(text) == line


def test_what_is_kept_is_not_escaped():
    assert texts.escaped("a\nb\rc", keeps="\n") == "a\nb\\rc"


@pytest.mark.parametrize("text", ["\x1b[1;31mred\x1b[0m", "\x1b]0;title\x07red", "\x1b]8;;http://x\x1b\\red"])
def test_commands_to_a_terminal_are_taken_out_whole(text):
    assert texts.without_commands(text) == "red"
