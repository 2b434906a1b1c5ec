"""Of the end of a log, the line that says why a program has failed."""

import pytest

from tf_operator.planning.pods import termination_message

TRACEBACK = """\
Traceback (most recent call last):
  File "/app/train.py", line 3, in <module>
    main()
"""
LONG = "x" * 1000
MESSAGES = {
    "nothing": ("\n \n", ""),
    "the last line": ("step 1\nno space left\n\n", "no space left"),
    "also if it is indented": ("step 1\n  no space left\n", "no space left"),
    "the exception after a traceback": (f"step 1\n{TRACEBACK}ValueError: no such file\n", "ValueError: no such file"),
    "not the output that was buffered and follows": (
        f"{TRACEBACK}ValueError: bad\nepoch 1\nepoch 2\n",
        "ValueError: bad",
    ),
    "nor output that was not buffered and comes before": (f"{TRACEBACK}epoch 1\nValueError: bad\n", "ValueError: bad"),
    "nor what TensorFlow logs when it ends": (
        f"{TRACEBACK}a.b.NotFoundError: no data\n2026-01-01 I tensorflow/core: shutdown\n",
        "a.b.NotFoundError: no data",
    ),
    "the last of several": (
        f"{TRACEBACK}KeyError: 'a'\n\nDuring handling of the above exception:\n\n{TRACEBACK}RuntimeError\n",
        "RuntimeError",
    ),
    "an exception of one's own": (f"{TRACEBACK}OutOfLuck: again\nbye\n", "OutOfLuck: again"),
    "a traceback whose beginning is cut off": ("    main()\nValueError: cut\nbye\n", "ValueError: cut"),
    "a traceback without frames": (f"{TRACEBACK.splitlines()[0]}\nKeyError: 'a'\nbye\n", "KeyError: 'a'"),
    "all of a traceback but its end is cut off": ("ValueError: cut\nbye\n", "ValueError: cut"),
    "a traceback whose end is cut off": (f"{TRACEBACK}    open(", "open("),
    "an exception that goes on below": (
        f"{TRACEBACK}InvalidArgumentError: Graph execution error:\n\nshapes differ\nmore\n",
        "InvalidArgumentError: Graph execution error: shapes differ",
    ),
    "an exception that goes on in the last line": (f"{TRACEBACK}ValueError: of:\nshapes\n", "ValueError: of: shapes"),
    "an exception that ends too early": ("ValueError: of:", "ValueError: of:"),
    "without colours and control characters": ("\x1b[31mno\x1b[0m\tdata\x00 \u202ehere", "no data? ?here"),
    "behind a progress bar": ("1/9\r2/9\rfull", "full"),
}


@pytest.mark.parametrize(("text", "line"), MESSAGES.values(), ids=MESSAGES.keys())
def test_the_cause_is_the_line_that_says_most(text, line):
    assert termination_message.summary(text) == line


def test_a_long_line_keeps_the_name_of_the_exception_and_its_end():
    assert termination_message.summary(f"a{LONG[:299]}") == f"a{LONG[:299]}"
    assert termination_message.summary(f"{TRACEBACK}ValueError: {LONG} no such file") == (
        f"ValueError: {LONG[:68]}...{LONG[:204]} no such file"
    )


def test_the_end_of_a_message_is_kept_and_its_beginning_dropped():
    assert termination_message.end(f"{LONG}{LONG[:23]}\n") == f"{LONG}{LONG[:23]}\n"
    message = termination_message.end(f"{LONG}{LONG}\nlast")
    assert (message[:4], message[-6:], len(message)) == ("...x", "x\nlast", 1024)
