"""The recorder: what reaches the apiserver, in how many calls, and what is dropped and counted."""

import asyncio
from collections import Counter, defaultdict, deque
from contextlib import asynccontextmanager

import pytest

from tf_operator.machinery.events.event_object import Reference, Reporter
from tf_operator.machinery.events.recorder import EventRecorder, RecorderLimits
from tf_operator.machinery.metrics_hooks import RecorderInstruments
from tf_operator.machinery.transport import errors
from tf_operator.meta import ObjectKey


def about(name="mnist", uid=None, namespace="team"):
    return Reference("kubeflow.org/v1", "TFJob", ObjectKey(namespace, name), uid or f"{name}-uid")


JOB = about()


def refused(kind, code, reason):
    return kind(code, errors.Status(reason=reason))


MISSING = refused(errors.NotFound, 404, "NotFound")
FAILED = refused(errors.ServerFailed, 500, "InternalError")
THROTTLED = refused(errors.Throttled, 429, "TooManyRequests")
LOST = errors.ReplyLost("the reply was lost")


class EventApi:
    """Events as an apiserver keeps them. Scripted errors come before, lost replies after the event is stored."""

    def __init__(self, clock):
        self.events = {}
        self.calls = []
        self.failures = defaultdict(deque)
        self.always = None
        self.takes = 0.0
        self.running = 0
        self.most_running = 0
        self._clock = clock

    async def create(self, resource, namespace, body):
        async with self._call("create"):
            if self.events.setdefault(body["metadata"]["name"], body) is not body:
                raise refused(errors.AlreadyExists, 409, "AlreadyExists")
        return body

    async def merge_patch(self, resource, key, body):
        assert str(resource) == "events"
        async with self._call("patch" if body else "look"):
            if key.name not in self.events:
                raise MISSING
            self.events[key.name] = self.events[key.name] | body
        return self.events[key.name]

    @asynccontextmanager
    async def _call(self, verb):
        self.calls.append((self._clock.monotonic() - 1000, verb))
        failure = self.failures[verb].popleft() if self.failures[verb] else self.always
        self.running += 1
        self.most_running = max(self.running, self.most_running)
        await self._clock.sleep(self.takes)
        self.running -= 1
        if failure and failure is not LOST:
            raise failure
        yield
        if failure:
            raise failure

    @property
    def verbs(self):
        return [verb for _, verb in self.calls]

    @property
    def counts(self):
        return {(event["reason"], event["message"]): event["count"] for event in self.events.values()}


class Counted(RecorderInstruments):
    def __init__(self):
        self.posted = 0
        self.losses = Counter()

    def sent(self):
        self.posted += 1

    def lost(self, cause):
        self.losses[cause] += 1


@pytest.fixture
def api(clock):
    return EventApi(clock)


@pytest.fixture
def counted():
    return Counted()


@pytest.fixture
async def make_recorder(api, clock, counted):
    running = []

    def make(*, instance="tf-operator-0", **limits):
        recorder = EventRecorder(
            api,
            clock=clock,
            reporter=Reporter("tfjob-controller", instance),
            instruments=counted,
            limits=RecorderLimits(**limits),
            chance=lambda: 0.5,
        )
        running.append(asyncio.ensure_future(recorder.run()))
        return recorder

    yield make
    for task in running:
        assert not task.done()
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    assert clock.pending == 0


@pytest.fixture
def recorder(make_recorder):
    return make_recorder()


def say(recorder, reason="Created", message="hello", *, regarding=JOB, severity="Normal", related=None):
    recorder.event(regarding, severity, reason=reason, message=message, related=related)


async def test_an_event_is_posted_in_the_background(recorder, api, clock, counted):
    say(recorder)
    assert not api.calls

    await clock.advance(0)

    assert api.counts == {("Created", "hello"): 1}
    assert (counted.posted, counted.losses) == (1, {})


async def test_repetitions_while_an_event_waits_cost_no_further_call(recorder, api, clock, counted):
    for _ in range(500):
        say(recorder)

    await clock.advance(60)

    assert api.counts == {("Created", "hello"): 500}
    assert api.verbs == ["create"]
    assert not counted.losses


async def test_repetitions_while_an_event_is_being_posted_are_posted_after_it(recorder, api, clock):
    api.takes = 1
    say(recorder)
    await clock.advance(0.5)
    say(recorder)
    say(recorder)

    await clock.advance(10)

    assert api.counts == {("Created", "hello"): 3}
    assert api.verbs == ["create", "patch"]


async def test_the_first_texts_have_an_event_each_and_all_others_share_one_that_says_so(recorder, api, clock, counted):
    for turn in range(500):
        say(recorder, message=f"turn {turn}")
        say(recorder, message="turn 1")

    await clock.advance(60)

    shared = ("Created", "(combined from similar events): turn 499")
    assert api.counts == {("Created", "turn 0"): 1, ("Created", "turn 1"): 501, ("Created", "turn 2"): 1, shared: 497}
    assert api.verbs == ["create"] * 4
    assert not counted.losses

    await clock.advance(600)
    say(recorder, message="after a quiet time")
    await clock.advance(0)
    assert api.counts["Created", "after a quiet time"] == 1


async def test_there_is_one_event_for_each_object_related_object_and_reason(recorder, api, clock):
    pods = [Reference("v1", "Pod", ObjectKey("team", f"pod-{number}"), f"pod-uid-{number}") for number in (0, 1)]
    for _ in range(3):
        for pod in pods:
            for reason in ("Failed", "Restarted"):
                say(recorder, reason, pod.key.name, related=pod)
        await clock.advance(60)

    assert sorted(api.counts.items()) == [
        (("Failed", "pod-0"), 3),
        (("Failed", "pod-1"), 3),
        (("Restarted", "pod-0"), 3),
        (("Restarted", "pod-1"), 3),
    ]


async def test_an_object_has_ten_events_at_once_and_ten_a_minute_and_others_are_not_affected(
    recorder, api, clock, counted
):
    for number in range(30):
        say(recorder, f"Reason{number}")
    say(recorder, regarding=about("other"))

    await clock.advance(0)
    assert len(api.calls) == 11  # the burst, and the other one
    await clock.advance(60)

    assert len(api.calls) == 21
    assert counted.losses == {"rate": 10}


async def test_a_namespace_whose_events_fail_leaves_places_for_the_others_and_all_are_bounded(
    make_recorder, api, clock, counted
):
    recorder = make_recorder(waiting=8)
    api.always = FAILED
    for number in range(10):
        say(recorder, regarding=about(f"job-{number}"))
    assert counted.losses == {"overflow": 6}
    say(recorder, regarding=about("job-0"))  # waits already
    assert counted.losses == {"overflow": 6}

    for number in range(2):
        say(recorder, regarding=about(f"neighbour-{number}", namespace="neighbour"))
    assert counted.losses == {"overflow": 6}

    for number in range(100):
        say(recorder, regarding=about(f"other-{number}", namespace=f"ns-{number}"))
    assert len(recorder._waiting) == 8

    await clock.advance(600)
    assert not recorder._waiting_in


async def test_memory_is_bounded(make_recorder, clock):
    recorder = make_recorder(remembered=10)
    for number in range(100):
        say(recorder, regarding=about(f"job-{number}"))
        await clock.advance(1)

    assert len(recorder._entries) == len(recorder._pace) == len(recorder._texts) == 10
    assert not recorder._waiting
    assert not recorder._line


@pytest.mark.parametrize(
    "failures",
    [[FAILED], [FAILED] * 5, [LOST], [errors.Unreachable("refused")] * 2, [THROTTLED]],
    ids=["500", "500 five times", "reply lost", "refused", "429"],
)
async def test_an_event_that_could_not_be_posted_is_tried_again(recorder, api, clock, counted, failures):
    api.failures["create"] += failures
    say(recorder)

    await clock.advance(120)

    assert api.counts == {("Created", "hello"): 1}
    assert (counted.posted, counted.losses) == (1, {})


async def test_tries_are_spaced_by_growing_delays_and_end(recorder, api, clock, counted):
    api.always = FAILED
    say(recorder)
    say(recorder)

    await clock.advance(600)

    assert [moment for moment, _ in api.calls] == [0, 1, 3, 7, 15, 31]
    assert counted.losses == {"ServerFailed": 2}
    assert not recorder._waiting


@pytest.mark.parametrize(
    "error",
    [
        refused(errors.Forbidden, 403, "Forbidden"),
        refused(errors.NamespaceTerminating, 403, "Forbidden"),
        MISSING,
        refused(errors.Invalid, 422, "Invalid"),
        refused(errors.NotAdmitted, 422, "Invalid"),
        refused(errors.TooLarge, 413, "RequestEntityTooLarge"),
        refused(errors.Refused, 400, "BadRequest"),
        ZeroDivisionError(),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_what_cannot_be_posted_at_all_is_lost_at_once_and_others_are_not(recorder, api, clock, counted, error):
    api.failures["create"] += [error]
    say(recorder)
    say(recorder, "Other")

    await clock.advance(120)

    assert api.verbs == ["create", "create"]
    assert counted.losses == {type(error).__name__: 1}
    assert api.counts == {("Other", "hello"): 1}


async def test_an_event_that_the_apiserver_has_forgotten_is_made_again(recorder, api, clock):
    say(recorder)
    await clock.advance(10)
    api.events.clear()
    say(recorder)

    await clock.advance(10)

    assert api.verbs == ["create", "patch", "create"]
    assert api.counts == {("Created", "hello"): 2}


@pytest.mark.parametrize(
    ("instance", "seconds"), [("after", 10), ("before", 601)], ids=["another process", "forgotten after ten minutes"]
)
async def test_an_event_that_exists_already_is_counted_on(make_recorder, api, clock, instance, seconds):
    first = make_recorder(instance="before")
    for pause in (10, 10, seconds):
        say(first)
        await clock.advance(pause)
    say(first if instance == "before" else make_recorder(instance=instance))

    await clock.advance(10)

    assert api.counts == {("Created", "hello"): 4}
    assert api.verbs[-3:] == ["create", "look", "patch"]


async def test_several_events_are_posted_at_once_but_never_the_same_one(make_recorder, api, clock):
    recorder = make_recorder(senders=4)
    api.takes = 1
    for number in range(10):
        say(recorder, f"Reason{number}")
    for _ in range(40):
        await clock.advance(0.25)
        say(recorder, "Reason0")

    assert api.most_running == 4
    await clock.advance(60)
    assert api.counts["Reason0", "hello"] == 41


async def test_draining_posts_what_waits_and_takes_no_more(recorder, api, clock, counted):
    api.takes = 0.5
    for number in range(6):
        say(recorder, f"Reason{number}")
    draining = asyncio.ensure_future(recorder.drain(2))
    await clock.idle()
    say(recorder, "Late")

    await clock.advance(1)

    assert draining.done()
    assert len(api.events) == 6
    assert counted.losses == {"shutdown": 1}


@pytest.mark.parametrize("failure", [None, FAILED, MISSING], ids=["posted", "failed", "rejected"])
async def test_draining_ends_in_time_and_later_replies_change_nothing(recorder, api, clock, counted, failure):
    api.takes = 3
    api.failures["create"] += [failure]
    for number in range(12):
        say(recorder, f"Reason{number}")
    await clock.idle()
    draining = asyncio.ensure_future(recorder.drain(0.5))

    await clock.advance(0.5)
    assert draining.done()
    assert counted.losses == {"shutdown": 12}

    await clock.advance(60)
    assert counted.losses == {"shutdown": 12}
    assert not recorder._waiting
    assert not recorder._line


async def test_dropped_events_are_logged_once_until_one_is_posted(recorder, api, clock, capsys):
    api.always = refused(errors.Invalid, 422, "Invalid")
    for number in range(5):
        say(recorder, f"Reason{number}")
    await clock.advance(1)
    assert capsys.readouterr().out.count("could not be recorded") == 1

    api.always = None
    say(recorder, "Good")
    await clock.advance(1)
    api.always = refused(errors.Invalid, 422, "Invalid")
    say(recorder, "Bad")
    await clock.advance(1)

    assert capsys.readouterr().out.count("could not be recorded") == 1
