"""Logs: one record a line, from whatever origin, without secrets, and safe for a terminal."""

import io
import json
import logging
import warnings
from datetime import UTC, datetime, timedelta

import pytest

from tf_operator.app import logs
from tf_operator.controller import job_log, log_context
from tf_operator.dialects.kubeflow.v1 import API, PROFILE
from tf_operator.job.record import (
    FailureCause,
    FirstFailure,
    JobPhase,
    JobRecord,
    ReplicaRecord,
    ReplicaType,
    RestartRecord,
)
from tf_operator.job.report import JobReport
from tf_operator.job.training_job import TrainingJob
from tf_operator.machinery import log as machinery_log
from tf_operator.meta import ObjectKey
from tf_operator.text import LONGEST_MESSAGE

pytestmark = pytest.mark.usefixtures("own_logging")

NOW = datetime(2026, 11, 1, tzinfo=UTC)
TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJzeXN0ZW0ifQ.c2lnbmF0dXJl"


class Written(io.StringIO):
    """Where the log goes in a test."""

    @property
    def lines(self):
        return self.getvalue().splitlines()

    @property
    def record(self):
        (line,) = self.lines
        return json.loads(line)


def configured(log_format="json", level="info"):
    stream = Written()
    logs.configure(log_format, level, stream=stream)
    return stream, machinery_log.Logger("tf_operator.test")


def test_a_record_is_one_line_with_time_level_logger_and_message_first():
    stream, log = configured()

    log.info("the watch ended", cause="closed", seconds=1.5)

    (time, *fields) = stream.record.items()
    assert time[0] == "time"
    assert time[1].endswith("Z")
    assert fields == [
        ("level", "info"),
        ("logger", "tf_operator.test"),
        ("message", "the watch ended"),
        ("cause", "closed"),
        ("seconds", 1.5),
    ]


def test_libraries_and_warnings_of_python_end_in_the_same_log():
    stream, _ = configured()

    logging.getLogger("aiohttp.client").warning("a %s connection", "lost")
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.showwarning("something is old", DeprecationWarning, "old.py", 1)
    first, second = map(json.loads, stream.lines)

    assert (first["logger"], first["message"]) == ("aiohttp.client", "a lost connection")
    assert (second["logger"], second["level"]) == ("py.warnings", "warning")


def test_bound_fields_are_in_every_record():
    stream, log = configured()

    with machinery_log.bound(job_name="mnist"):
        log.info("one")
        logging.getLogger("library").warning("two")

    assert [json.loads(line)["job_name"] for line in stream.lines] == ["mnist", "mnist"]


def test_what_no_line_says_is_not_collected():
    _, log = configured()
    records = []
    logging.getLogger().handlers[0].addFilter(records.append)

    log.info("one")

    assert [(record.lineno, record.thread, record.process) for record in records] == [(0, None, None)]


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_a_failure_shows_where_it_happened(log_format):
    stream, log = configured(log_format)

    try:
        raise LookupError("nothing there")
    except LookupError:
        log.exception("a reconcile failed")

    assert "test_logs.py" in stream.getvalue()
    assert "LookupError: nothing there" in stream.getvalue()
    assert log_format == "console" or len(stream.lines) == 1


@pytest.mark.parametrize("log_format", ["json", "console"])
@pytest.mark.parametrize(
    ("secret", "fields"),
    [
        (TOKEN, {"error": f"401 for {TOKEN}"}),
        ("c2VjcmV0c2VjcmV0", {"error": "sent Authorization: Bearer c2VjcmV0c2VjcmV0"}),
        ("dXNlcjpwYXNz", {"error": "sent authorization: basic dXNlcjpwYXNz"}),
        ("hunter2", {"url": "https://user:hunter2@proxy:3128/"}),
        ("MIIEow", {"error": "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n-----END RSA PRIVATE KEY-----"}),
        ("hunter2", {"path": "/api?token=hunter2&watch=true"}),
        ("hunter2", {"path": "/api?TO\N{KELVIN SIGN}EN=hunter2"}),
        ("hunter2", {"Authorization": "hunter2"}),
        ("hunter2", {"pod": {"containers": [{"name": "tensorflow", "env": [{"name": "KEY", "value": "hunter2"}]}]}}),
        ("hunter2", {"template": {"spec": {"image": "hunter2"}}}),
        ("hunter2", {"deep": [[[{"password": "hunter2"}]]]}),
    ],
    ids=[
        "JWT",
        "bearer",
        "basic",
        "address",
        "private key",
        "query",
        "in capitals",
        "by name",
        "env",
        "template",
        "nested",
    ],
)
def test_no_secret_gets_into_a_log(log_format, secret, fields):
    stream, log = configured(log_format)

    log.warning("something was refused", **fields)

    assert secret not in stream.getvalue()
    assert logs.HIDDEN in stream.getvalue()


@pytest.mark.parametrize("text", ["a\nb", "\x1b[31mred\x1b[0m", "a\u2028b", "a\rb", "a\x00b"])
@pytest.mark.parametrize("log_format", ["json", "console"])
def test_texts_of_tenants_neither_begin_a_line_nor_control_the_terminal(log_format, text):
    stream, log = configured(log_format)

    log.info(text, reason=text)

    assert len(stream.lines) == 1
    assert stream.lines[0].isprintable()


def test_a_record_may_hold_anything_and_stays_bounded():
    class Unshowable:
        def __str__(self):
            raise RuntimeError

    deep = []
    deep.append(deep)
    stream, log = configured()

    log.info("odd", unshowable=Unshowable(), path=object, deep=deep, long="x" * 10**6, nothing=None, several={1})

    assert stream.record["unshowable"] == "<Unshowable that cannot be shown: RuntimeError>"
    assert stream.record["long"].endswith("... (1000000 characters)")
    assert (stream.record["nothing"], stream.record["several"]) == (None, [1])
    assert len(stream.getvalue()) < 30_000


def test_a_closed_standard_error_is_no_failure():
    stream, log = configured()
    stream.close()

    log.info("lost")


LONGEST = {
    "plain text": "x" * LONGEST_MESSAGE,
    "another alphabet": "\N{SNOWMAN}" * LONGEST_MESSAGE,
    "quotes": '"' * LONGEST_MESSAGE,
    "nothing": "",
}


@pytest.mark.parametrize("message", LONGEST.values(), ids=LONGEST)
def test_the_record_of_an_end_has_one_kilobyte_at_most(message):
    failure = FirstFailure("p" * 253, "tensorflow", 137, "R" * 500, message, NOW)
    lost = tuple(RestartRecord(ReplicaType.EVALUATOR, 9000 + index, "uid", replaced=True) for index in range(100))
    ended = JobRecord(
        JobPhase.FAILED,
        FailureCause.STARTUP_DEADLINE_EXCEEDED,
        start_time=NOW,
        completion_time=NOW + timedelta(days=1000, microseconds=999_999),
        replicas={ReplicaType.EVALUATOR: ReplicaRecord(restarts=2**28)},
        disruptions=2**28,
        lost_seconds=2**53,
        usage={"cpuSeconds": 2**53, "memoryGiBSeconds": 2**53} | {f"{letter * 38}/n": 10**9 for letter in "abc"},
        restart_records=lost,
        first_failure=failure,
    )
    job = TrainingJob(
        ObjectKey("n" * 63, "j" * 63), "u" * 36, "1", PROFILE, record=JobRecord(JobPhase.RESTARTING), runtime_id="r" * 8
    )
    stream, _ = configured()

    with machinery_log.bound(controller=API.controller), log_context.reconcile_of(job.key):
        log_context.job_found(job.uid)
        log_context.job_read(job.runtime_id)
        job_log.write(API, JobReport(job, ended, NOW), lambda _: {"tfReplicaSpecs": {}})

    assert len(stream.lines[0]) <= 1000
    assert message.startswith(stream.record["first_failure"].get("message", ""))
