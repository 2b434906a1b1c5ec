"""What programs get as replies to their reports."""

import msgspec
import pytest

from tf_operator.app.http.server import HttpReply, PageRequest
from tf_operator.app.options.flag_types import Address
from tf_operator.app.progress import answer as module
from tf_operator.app.progress.answer import ProgressAnswer
from tf_operator.controller.progress.intake import Outcome, TokenOwner
from tf_operator.dialects.trainer_status import LONGEST_REPORT
from tf_operator.job.progress import Progress
from tf_operator.meta import ObjectKey

PATH = "/apis/kubeflow.org/v1/namespaces/team/tfjobs/mnist/status"
REPORT = b'{"trainerStatus": {"progressPercentage": 34}}'


class Operator:
    """It knows one token, and keeps what it is handed."""

    outcome = Outcome.TAKEN

    def __init__(self):
        self.submitted = []

    async def authenticate(self, token, client):
        return TokenOwner(token) if client == "10.0.0.1" else HttpReply(401, b"")

    async def submit(self, version, key, owner, report):
        self.submitted.append((version, key, owner, report))
        return self.outcome


@pytest.fixture
def operator():
    return Operator()


@pytest.fixture
def answer(operator, clock):
    return ProgressAnswer(clock, operator.authenticate, operator.submit).answer


def request(path=PATH, token="uid", client="10.0.0.1"):
    return PageRequest({"Authorization": f"Bearer {token}"} if token else {}, client, path)


async def test_a_report_is_handed_on_with_the_job_that_the_path_names(answer, operator, clock):
    reply = await answer(request(), REPORT)

    assert (reply.status, msgspec.json.decode(reply.body), reply.is_admitted) == (200, {}, True)
    assert operator.submitted == [
        ("kubeflow.org/v1", ObjectKey("team", "mnist"), TokenOwner("uid"), Progress(34, time=clock.now()))
    ]


@pytest.mark.parametrize(
    ("sent", "body", "status"),
    [
        (request("/apis/kubeflow.org/v1/tfjobs"), REPORT, 404),
        (request(token=""), REPORT, 401),
        (request(client="10.0.0.2"), REPORT, 401),
        (request(), b'{"trainerStatus": {"progressPercentage": 134}}', 422),
    ],
    ids=["no job", "no token", "a token of nobody", "an invalid report"],
)
async def test_what_is_refused_reaches_nobody(answer, operator, sent, body, status):
    reply = await answer(sent, body)
    assert (reply.status, reply.is_admitted) == (status, False)
    assert operator.submitted == []


async def test_a_report_that_is_invalid_is_told_the_field_and_the_rule(answer):
    reply = await answer(request(), b'{"trainerStatus": {"progressPercentage": 134}}')

    message = "trainerStatus.progressPercentage: must be from 0 to 100, is 134"
    assert msgspec.json.decode(reply.body) == {"message": message}


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        (Outcome.NOT_THE_REPORTER, 403),
        (Outcome.ENDED, 410),
        (Outcome.NOT_LEADING, 503),
        (None, 503),
    ],
)
async def test_each_outcome_has_its_status(answer, operator, outcome, status):
    operator.outcome = outcome

    assert (await answer(request(), REPORT)).status == status


async def test_a_job_that_reports_too_often_is_told_when_to_come_again_and_others_are_not(answer, clock):
    statuses = [(await answer(request(), REPORT)).status for _ in range(4)]
    assert statuses == [200, 200, 200, 429]
    assert (await answer(request(), REPORT)).headers["Retry-After"] == "5"
    assert (await answer(request(token="another"), REPORT)).status == 200

    await clock.advance(5)
    assert [(await answer(request(), REPORT)).status for _ in range(2)] == [200, 429]


async def test_of_very_many_reporters_the_one_that_is_silent_for_longest_is_forgotten(answer, monkeypatch):
    monkeypatch.setattr(module, "MOST_REPORTERS", 2)
    for token in ("busy", "idle") * 3:
        await answer(request(token=token), REPORT)
    for token, status in (("busy", 429), ("new", 200), ("busy", 429), ("idle", 200)):
        assert (await answer(request(token=token), REPORT)).status == status


async def test_replies_are_counted_by_their_status(operator, clock):
    codes = []
    reports = ProgressAnswer(clock, operator.authenticate, operator.submit, count=codes.append)
    for token in ("uid", ""):
        await reports.answer(request(token=token), REPORT)

    assert codes == [200, 401]


class Leader:
    """A replica that leads, behind this one."""

    reply = None

    def origin_of(self, request):
        return request.headers.get("X-Progress-Forwarded-For")

    async def forward(self, request, body):
        assert (request.path, body) == (PATH, REPORT)
        return self.reply


async def test_a_standby_gives_the_reply_of_the_leader_which_counts_it(operator, clock):
    operator.outcome, leader, counted = Outcome.NOT_LEADING, Leader(), []
    reports = ProgressAnswer(clock, operator.authenticate, operator.submit, count=counted.append, relay=leader)
    assert (await reports.answer(request(), REPORT)).status == 503
    leader.reply = HttpReply(200, b"{}")
    assert await reports.answer(request(), REPORT) is leader.reply

    assert counted == [503]


async def test_limits_are_those_of_the_address_that_a_replica_names(operator, clock):
    reports = ProgressAnswer(clock, operator.authenticate, operator.submit, relay=Leader())
    sent = request(client="10.0.0.2")
    sent.headers["X-Progress-Forwarded-For"] = "10.0.0.1"

    reply = await reports.answer(sent, REPORT)
    assert (reply.status, reply.is_shared) == (200, True)
    assert not (await reports.answer(request(), REPORT)).is_shared


def test_a_body_may_be_as_long_as_a_report(operator, clock):
    endpoint = ProgressAnswer(clock, operator.authenticate, operator.submit).endpoint(Address("", 1))

    assert ([*endpoint.answers], endpoint.longest) == (["/apis/"], LONGEST_REPORT)
