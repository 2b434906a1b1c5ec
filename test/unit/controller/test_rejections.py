"""The last write of a job that was refused, and how the next attempts are spaced."""

import pytest

from support.embedded.embedded_api import refused
from support.fake_clock import FakeClock
from tf_operator.controller.rejections import Rejections
from tf_operator.machinery.transport import errors
from tf_operator.meta import ObjectKey
from tf_operator.planning import rejections as planning
from tf_operator.planning.actions import Create, Delete, Patch, Stage
from tf_operator.planning.bodies.children import PODS, SERVICES


@pytest.fixture
def rejections():
    return Rejections(FakeClock(), {"u"}.__contains__)


def pod(name):
    return Create(PODS, name, f"pod {name}", dict)


def wait(rejections, clock):
    """For how long planning has the job wait."""
    rejection = rejections.get("u")
    return (planning.retry_at(rejection) - clock.now()).total_seconds()


async def test_refusals_of_a_job_are_spaced_by_growing_delays(clock):
    rejections = Rejections(clock, {"u"}.__contains__)
    delays = []
    for _ in range(9):
        rejections.note("u", pod("a"), refused(403, "Forbidden", "quota"))
        delays.append(wait(rejections, clock))
        await clock.advance(delays[-1])

    assert delays == [1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_what_an_earlier_term_or_plan_was_refused_decides_nothing_later(rejections):
    """Otherwise a job that another process has run since would fail of it, or one whose template was fixed."""
    for forget in (rejections.begin_term, lambda: rejections.clear_if_over("u")):
        rejections.note("u", pod("a"), refused(422, "Invalid", "no such field"))

        forget()

        assert rejections.get("u") is None


@pytest.mark.parametrize("order", ["ab", "ba"])
def test_refusals_of_one_batch_are_one_attempt_and_reported_of_the_same_child(rejections, order):
    for name in order:
        rejections.note("u", pod(name), refused(403, "Forbidden", name))

    rejection = rejections.get("u")
    assert (rejection.subject, rejection.attempts) == ("pod a", 1)


@pytest.mark.parametrize("code", [400, 403, 409, 413, 422])
def test_the_code_of_a_refusal_is_kept_for_planning(rejections, code):
    rejections.note("u", pod("a"), refused(code, ""))

    rejection = rejections.get("u")
    assert (rejection.code, rejection.at) == (code, FakeClock().now())


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (400, 'admission webhook "policies" denied the request'),
        (422, "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no"),
        (500, 'failed calling webhook "istio"'),
    ],
)
def test_what_a_webhook_or_a_policy_does_not_admit_is_no_mistake_of_the_object(rejections, code, words):
    rejections.note("u", pod("a"), refused(code, "", words))

    rejection = rejections.get("u")
    assert rejection.code == 403


def test_what_etcd_finds_too_large_is_too_large_although_the_apiserver_calls_it_its_own_failure(rejections):
    rejections.note("u", pod("a"), refused(500, "", "etcdserver: request is too large"))

    rejection = rejections.get("u")
    assert planning.is_final(rejection)


def test_a_namespace_that_goes_away_is_asked_once_a_minute(rejections):
    rejections.note("u", pod("a"), errors.NamespaceTerminating(403, errors.Status(reason="Forbidden")))

    assert wait(rejections, FakeClock()) == 60


async def test_a_refusal_of_what_is_not_wanted_any_more_is_forgotten_when_its_time_is_over(clock):
    rejections = Rejections(clock, {"u"}.__contains__)
    rejections.note("u", pod("a"), refused(403, "Forbidden"))

    rejections.clear_if_over("u")
    assert rejections.get("u") is not None, "the plan may have made nothing because it waits"
    await clock.advance(1)
    rejections.clear_if_over("u")

    assert rejections.get("u") is None


def test_a_job_without_a_refusal_does_not_look_through_the_names_that_others_wait_for(rejections, monkeypatch):
    monkeypatch.setattr(rejections, "_places", None)

    rejections.clear("u")


def test_refusals_of_what_the_job_continues_without_are_kept_by_kind_and_apart_from_what_it_needs(rejections):
    writes = [pod("a"), *(Create(kind, "a", "x", dict, Stage.EXTRAS) for kind in (PODS, SERVICES))]
    for number, write in enumerate(writes):
        rejections.note("u", write, refused(403, "Forbidden", f"no {number}"))

    kinds = ("", "pods", "services")
    assert [rejections.get("u", kind).message for kind in kinds] == ["no 0", "no 1", "no 2"]
    rejections.clear("u", "pods")
    assert [kind for kind in kinds if rejections.get("u", kind)] == ["", "services"]
    rejections.forget("u")
    assert (rejections.of("u"), len(rejections)) == ({}, 0)


def test_each_job_waits_for_its_own_name_until_it_has_it_or_is_gone():
    rejections = Rejections(FakeClock(), {"u", "v", "w"}.__contains__)
    for uid in "uvw":
        rejections.note_taken(uid, "ns", pod(uid))
    assert len(rejections) == 3
    for uid in "uv":
        rejections.note(uid, pod(uid), refused(409, "AlreadyExists"))
    rejections.clear("u")
    rejections.forget("v")
    rejections.note_taken("gone", "ns", pod("gone"))

    assert [rejections.note_freed("pods", ObjectKey("ns", name)) for name in ("u", "v", "w", "gone")] == [
        *("", "", "w", "")
    ]
    assert len(rejections) == 0


@pytest.mark.parametrize(
    ("write", "is_final"),
    [
        (pod("a"), True),
        (Patch(PODS, "a", "u", "x", {}), False),
        (Delete(PODS, "a", "u", "x", stage=Stage.EXTRAS), False),
        (Patch(PODS, "a", "u", "x", {}, Stage.EXTRAS), True),
    ],
    ids=["a create", "a change of what the job needs", "a deletion", "a change of what it continues without"],
)
def test_what_stays_as_it_was_is_tried_again_although_it_is_invalid(rejections, write, is_final):
    rejections.note("u", write, refused(422, "Invalid", "no such field"))

    kind = str(PODS) if write.stage is Stage.EXTRAS else ""
    assert planning.is_final(rejections.get("u", kind)) is is_final
