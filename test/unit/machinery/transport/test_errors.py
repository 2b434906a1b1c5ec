"""Every failed reply has its error, and every error has what its handlers need to know."""

import inspect
from datetime import UTC, datetime

import msgspec
import pytest

from tf_operator.machinery.transport import errors
from tf_operator.machinery.transport.errors import Details, Status

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TREE = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, errors.ApiError)]


def status(code, reason=None, message="m", **details):
    return msgspec.json.encode(
        {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}
        | ({"details": details} if details else {})
    )


CAUSE = {"causes": [{"reason": "NamespaceTerminating", "message": "x", "field": "metadata.namespace"}]}
FUTURE = {"causes": [{"reason": "ResourceVersionTooLarge", "message": "x"}], "retryAfterSeconds": 1}


WEBHOOK_DOWN = 'Internal error occurred: failed calling webhook "w": connection refused'
WEBHOOK_DENIED = 'admission webhook "policies" denied the request: no root here'
POLICY_DENIED = "pods \"j\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no digest"
TOO_LARGE_FOR_CLIENT = "rpc error: code = ResourceExhausted desc = trying to send message larger than max (3 v 2)"


@pytest.mark.parametrize(
    ("code", "body", "kind", "reason"),
    [
        (400, status(400, "BadRequest"), errors.Refused, "BadRequest"),
        (401, status(401, "Unauthorized"), errors.Unauthorized, "Unauthorized"),
        (403, status(403, "Forbidden"), errors.Forbidden, "Forbidden"),
        (403, status(403, "Forbidden", **CAUSE), errors.NamespaceTerminating, "Forbidden"),
        (404, status(404, "NotFound"), errors.NotFound, "NotFound"),
        (404, b"404 page not found\n", errors.NotFound, ""),
        (409, status(409, "Conflict"), errors.Conflict, "Conflict"),
        (409, status(409, "AlreadyExists"), errors.AlreadyExists, "AlreadyExists"),
        (409, b"", errors.Conflict, ""),
        (410, status(410, "Expired"), errors.Expired, "Expired"),
        (410, status(410, "Gone"), errors.Expired, "Gone"),
        (413, status(413, "RequestEntityTooLarge"), errors.TooLarge, "RequestEntityTooLarge"),
        (422, status(422, "Invalid"), errors.Invalid, "Invalid"),
        (429, status(429, "TooManyRequests"), errors.Throttled, "TooManyRequests"),
        (418, b"teapot", errors.Refused, ""),
        (500, status(500, "InternalError"), errors.ServerFailed, "InternalError"),
        (500, status(500, None, "etcdserver: no leader"), errors.ServerFailed, ""),
        (500, status(500, "InternalError", WEBHOOK_DOWN), errors.NotAdmitted, "InternalError"),
        (400, status(400, None, WEBHOOK_DENIED), errors.NotAdmitted, ""),
        (413, status(413, "RequestEntityTooLarge", WEBHOOK_DENIED), errors.NotAdmitted, "RequestEntityTooLarge"),
        (422, status(422, "Invalid", WEBHOOK_DENIED), errors.NotAdmitted, "Invalid"),
        (422, status(422, "Invalid", POLICY_DENIED), errors.NotAdmitted, "Invalid"),
        (500, status(500, None, "etcdserver: request is too large"), errors.TooLarge, ""),
        (500, status(500, None, TOO_LARGE_FOR_CLIENT), errors.TooLarge, ""),
        (502, b"<html><h1>502 Bad Gateway</h1></html>", errors.ServerFailed, ""),
        (503, status(503, "ServiceUnavailable"), errors.Unavailable, "ServiceUnavailable"),
        (504, status(504, "Timeout"), errors.ServerTimeout, "Timeout"),
        (504, status(504, "Timeout", **FUTURE), errors.ResourceVersionTooLarge, "Timeout"),
        (599, b"", errors.ServerFailed, ""),
    ],
)
def test_a_status_code_and_its_body_become_the_error_that_says_so(code, body, kind, reason):
    error = errors.refused(code, body)

    assert type(error) is kind
    assert (error.code, error.reason, error.name) == (code, reason, kind.__name__)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param(b"", "HTTP 502: (empty body)", id="empty"),
        pytest.param(b"   \n ", "HTTP 502: (empty body)", id="blank"),
        pytest.param(b"<html>\r\n <h1>Bad\tGateway</h1>", "HTTP 502: <html> <h1>Bad Gateway</h1>", id="HTML"),
        pytest.param(b'{"error": "upstream"}', 'HTTP 502: {"error": "upstream"}', id="JSON that is no Status"),
        pytest.param(b"[1]", "HTTP 502: [1]", id="an array"),
        pytest.param(b"\xff\xfe", "HTTP 502: \ufffd\ufffd", id="no text at all"),
        pytest.param(b"[" * 5000, "HTTP 502: " + "[" * 297 + "...", id="nested too deep"),
        pytest.param(b'{"message": "\xff"}', 'HTTP 502: {"message": "\ufffd"}', id="broken UTF-8 in a Status"),
    ],
)
def test_a_body_without_a_status_is_quoted(body, message):
    error = errors.refused(502, body)

    assert str(error) == message
    assert error.reason == ""


def test_a_status_without_a_message_shows_its_reason():
    assert str(errors.refused(503, b'{"reason": "ServiceUnavailable"}')) == "ServiceUnavailable"
    assert str(errors.Refused(500, Status())) == "HTTP 500"


def test_the_code_of_an_error_line_comes_from_its_status():
    assert type(errors.from_status(Status(code=410, reason="Expired", message="too old"))) is errors.Expired
    assert errors.from_status(Status(message="no code")).code == 500
    assert errors.from_status(Status(code=0)).code == 500


def test_the_tree_is_the_one_that_is_drawn():
    drawing = inspect.getdoc(errors)
    assert len(TREE) == 23
    for kind in TREE:
        assert kind.__name__ in drawing
        assert kind.__doc__


MAY_HAVE_BEEN_CARRIED_OUT = {
    errors.ReplyLost,
    errors.Garbled,
    errors.Unreadable,
    errors.ServerFailed,
    errors.Unavailable,
    errors.ServerTimeout,
}


@pytest.mark.parametrize("kind", TREE, ids=lambda kind: kind.__name__)
def test_an_outcome_is_unknown_exactly_when_a_write_may_have_been_carried_out(kind):
    assert kind.outcome_unknown == (kind in MAY_HAVE_BEEN_CARRIED_OUT)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        pytest.param(None, None, id="none"),
        pytest.param("1", 1.0, id="a second"),
        pytest.param(" 30 ", 30.0, id="with blanks"),
        pytest.param("0", 0.0, id="at once"),
        pytest.param("61", 60.0, id="more than the cap"),
        pytest.param("9" * 10_000, 60.0, id="ten thousand digits"),
        pytest.param("-5", None, id="negative"),
        pytest.param("x", None, id="nonsense"),
        pytest.param("", None, id="empty"),
        pytest.param("\u0663", None, id="a digit of another script"),
        pytest.param("Thu, 01 Jan 2026 00:00:07 GMT", 7.0, id="a date"),
        pytest.param("Thu, 01 Jan 2026 02:00:07 +0200", 7.0, id="a date of another zone"),
        pytest.param("Thursday, 01-Jan-26 00:00:07 GMT", 7.0, id="a date as in RFC 850"),
        pytest.param("Thu Jan  1 00:00:07 2026", 7.0, id="a date as in C"),
        pytest.param("Thu, 01 Jan 2027 00:00:00 GMT", 60.0, id="a date next year"),
        pytest.param("Thu, 01 Jan 2026 00:00:00 GMT", 0.0, id="now"),
        pytest.param("Wed, 31 Dec 2025 23:59:59 GMT", None, id="a date in the past"),
        pytest.param("Thu, 99 Jan 2026 00:00:00 GMT", None, id="no such date"),
        pytest.param("Fri, 01 Jan 99999 00:00:00 GMT", None, id="no such year"),
    ],
)
def test_a_retry_after_is_understood_in_every_form_and_capped(header, seconds):
    assert errors.retry_after(header, NOW) == seconds


@pytest.mark.parametrize(
    ("header", "seconds", "waits"),
    [
        pytest.param(5.0, 7, 5.0, id="the header wins"),
        pytest.param(None, 7, 7.0, id="from the details"),
        pytest.param(None, 10**9, 60.0, id="capped"),
        pytest.param(None, -7, None, id="negative"),
        pytest.param(None, None, None, id="neither"),
    ],
)
def test_the_time_to_wait_is_that_of_the_header_or_of_the_status(header, seconds, waits):
    error = errors.Throttled(429, Status(details=Details(retry_after_seconds=seconds)), retry_after=header)

    assert error.retry_after == waits


def test_a_message_of_a_megabyte_is_shortened_and_the_status_keeps_it():
    message = "spec.x: Invalid value: " + "v" * 1_000_000

    error = errors.refused(422, status(422, "Invalid", message))

    assert len(str(error)) == 1000
    assert error.status.message == message
