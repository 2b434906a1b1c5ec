"""Loggers: what is not written costs nothing, and what is bound is forgotten with its block."""

import subprocess
import sys

import pytest
from structlog.testing import capture_logs

from tf_operator.machinery import log

IS_IMPORTED = (
    "import sys; from tf_operator.machinery.log import Logger; Logger('x').{}('m'); print('structlog' in sys.modules)"
)


@pytest.mark.parametrize(("method", "is_imported"), [("info", "False"), ("warning", "True")])
def test_structlog_is_imported_with_the_first_record_that_is_written(method, is_imported):
    process = subprocess.run(
        [sys.executable, "-c", IS_IMPORTED.format(method)], capture_output=True, text=True, check=True
    )

    assert process.stdout.splitlines()[-1] == is_imported


def test_the_first_record_finds_structlog_configured():
    messages = []
    log.before_first_record(lambda: messages.append("configured"))
    with capture_logs() as records:
        log.Logger("x").warning("one")
        log.Logger("x").warning("two")

    assert messages == ["configured"]
    assert [record["event"] for record in records] == ["one", "two"]


def test_what_is_bound_inside_of_a_block_is_forgotten_with_it():
    with log.bound(a=1):
        log.bind(b=2)
        with log.bound(a=3):
            assert log.bound_fields() == {"a": 3, "b": 2}
        assert log.bound_fields() == {"a": 1, "b": 2}

    assert log.bound_fields() == {}


def test_a_record_of_a_failure_shows_no_variables(capsys):
    value = "x".upper() * 9
    try:
        raise LookupError
    except LookupError:
        log.Logger("x").exception("failed", length=len(value))

    output = capsys.readouterr().out
    assert ("LookupError" in output, value in output) == (True, False)
