"""Lines of logs with their replica in front."""

import io

import pytest

from support.jobs.builders import tfjob
from tf_operator.cli.log_lines import Printer
from tf_operator.client import LogLine
from tf_operator.client.job import read_job
from tf_operator.dialects import registry

TWO = tfjob("j").chief().workers(1)
LINE = LogLine("chief-0", "j-chief-0", "loss 0.1")


class Terminal(io.StringIO):
    def isatty(self):
        return True


CASES = {
    "a file": (io.StringIO, TWO, {}, False, "chief-0  | loss 0.1\n"),
    "a terminal": (Terminal, TWO, {}, False, "\x1b[36mchief-0  | \x1b[0mloss 0.1\n"),
    "NO_COLOR": (Terminal, TWO, {"NO_COLOR": "1"}, False, "chief-0  | loss 0.1\n"),
    "a dumb terminal": (Terminal, TWO, {"TERM": "dumb"}, False, "chief-0  | loss 0.1\n"),
    "one replica was asked for": (Terminal, TWO, {}, True, "loss 0.1\n"),
    "a job of one replica": (Terminal, tfjob("j").chief(), {}, False, "loss 0.1\n"),
}


@pytest.mark.parametrize(("stream", "job", "environment", "alone", "text"), CASES.values(), ids=CASES.keys())
def test_a_line_names_its_replica_where_there_are_several(stream, job, environment, alone, text):
    output = stream()

    Printer(read_job(job.body(), registry.DEFAULT), output, is_alone=alone, environment=environment).write(LINE)

    assert output.getvalue() == text


def test_what_is_no_text_stays_as_it_was_printed():
    pipe = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    line = LogLine("chief-0", "j-chief-0", "\ufffd", raw=b"\xff 50 %\r")

    Printer(read_job(TWO.body(), registry.DEFAULT), pipe).write(line)

    assert pipe.buffer.getvalue() == b"chief-0  | \xff 50 %\r\n"
