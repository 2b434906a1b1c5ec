"""Accounts of replicas in trouble: when the next pod may be made, and what is remembered."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec import structs

from support.embedded.pod_events import everything_runs, fails, restarts_in_place, time_passes
from support.embedded.simulator import MORNING, simulate
from support.jobs.builders import tfjob
from support.jobs.snapshots import job_of
from tf_operator.job.record import JobPhase, JobRecord, ReplicaType, RestartRecord
from tf_operator.job.training_job import RestartPolicy
from tf_operator.planning import job_view, restarts, whole_job
from tf_operator.planning.pods.attempts import RestartRequest
from tf_operator.planning.pods.pod_state import PodState
from tf_operator.planning.replicas import Replica, ReplicaLoss, RestartInPlace
from tf_operator.planning.snapshot import DEFAULT_SETTINGS, MainContainer, Pod, Snapshot

WORKER = ReplicaType.WORKER
NEVER = datetime.max.replace(tzinfo=UTC)


def account(**fields):
    values = {"uid": "u", "replaced": True, "attempts": 1, "time": MORNING}
    return RestartRecord(WORKER, 0, **values | fields)


@pytest.mark.parametrize(
    ("attempts", "seconds"), [(1, 1), (2, 2), (3, 4), (9, 256), (10, 300), (40, 300), (10**9, 300)]
)
def test_the_delay_doubles_up_to_five_minutes(attempts, seconds):
    moment = restarts.backoff_ends_at(account(attempts=attempts), DEFAULT_SETTINGS, now=MORNING)

    assert moment == MORNING + timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "record",
    [None, account(replaced=False), account(time=None), account(attempts=0), account(time=NEVER)],
    ids=["no account", "not given up", "no time", "no attempt", "end of the calendar"],
)
def test_a_pod_is_made_at_once_when_nothing_says_otherwise(record):
    assert restarts.backoff_ends_at(record, DEFAULT_SETTINGS, now=NEVER) is None


def test_a_clock_that_was_ahead_and_goes_back_holds_up_no_replacement():
    """The leader's clock was two hours ahead when the replica failed; the next one's is right."""
    simulator = simulate(tfjob().workers(1, restart="OnFailure"))
    for move in (everything_runs, time_passes(7200), fails("worker-0")):
        simulator.settle()
        move(simulator)
    simulator.settle()
    assert simulator.pods == {}, "it waits for a second"

    simulator.now = MORNING
    simulator.settle()

    assert simulator.shown_pods == "worker-0#2:Pending"


@pytest.mark.parametrize(("seconds", "waits"), [(0.999, True), (1, True), (1.001, False)])
def test_a_second_ahead_is_what_a_status_rounds_up(seconds, waits):
    now = MORNING - timedelta(seconds=seconds)

    assert (restarts.backoff_ends_at(account(), DEFAULT_SETTINGS, now=now) is not None) is waits


def test_a_status_without_fractions_of_a_second_makes_no_delay_shorter():
    simulator = simulate(tfjob().workers(1, restart="OnFailure"))
    simulator.wait(0.999_999)
    simulator.settle()
    for move in (everything_runs, fails("worker-0")):
        move(simulator)
        simulator.settle()

    assert simulator.look().requeue_after >= timedelta(seconds=1)


def test_of_very_many_records_those_go_first_whose_pods_are_gone():
    simulator = simulate(tfjob().workers(3, restart="OnFailure"))
    simulator.settle()
    everything_runs(simulator)
    simulator.settle()
    gone = tuple(
        RestartRecord(
            ReplicaType.WORKER, 9000 - index, f"gone-{index}", replaced=True, time=MORNING + timedelta(seconds=index)
        )
        for index in range(1000)
    )
    restarts_in_place("worker-1")(simulator)
    simulator.settle()

    record = simulator.record.changed(restart_records=(*simulator.record.restart_records, *gone))
    after = restarts.recorded(job_view.view(simulator.observe()), record, JobPhase.RUNNING)

    assert len(after.restart_records) == 1000
    assert "Worker-1" in {f"{entry.type}-{entry.index}" for entry in after.restart_records}
    assert {entry.uid for entry in gone} - {entry.uid for entry in after.restart_records} == {"gone-0"}
    assert after.restarts == simulator.record.restarts == 1


def replica(main, *, is_told=True, request="x", attempt=2, **fields):
    spec = job_of(tfjob().workers(3)).replicas[0]
    told = RestartRequest(MORNING, 0) if request else ""
    size = f"attempt={attempt if is_told else attempt - 1}"
    pod = Pod("p", "u", WORKER, 0, main=main, cluster_size=size, restart_request=str(told), restarts_together=1)
    values = {"pod": pod, "record": None, "loss": None} | fields
    return Replica(spec, 0, "p", "", outcome=None, is_completed=False, was_completed=False, was_failed=False, **values)


def started(seconds):
    return MainContainer(started_at=MORNING + timedelta(seconds=seconds))


@pytest.mark.parametrize(
    ("replicas", "seconds"),
    [
        ([], None),
        ([replica(started(1)), replica(started(3)), replica(started(2))], 3),
        ([replica(started(1)), replica(started(3), is_told=False)], 99),
        ([replica(started(1)), replica(None, pod=None, record=account())], 99),
        ([replica(started(1)), replica(None, pod=None)], 1),
        ([replica(started(1)), replica(None, pod=None, record=account(replaced=False))], 1),
        ([replica(started(1)), replica(started(3), request="")], 1),
        ([replica(None), replica(MainContainer())], None),
    ],
    ids=["nobody", "the last", "one has yet to", "one is to come", "new", "restarted", "not told", "not started"],
)
def test_an_attempt_has_begun_when_the_last_pod_that_was_told_has_started_again(replicas, seconds):
    began = whole_job._began_at(JobRecord(attempt=2), replicas, MORNING + timedelta(seconds=99))

    assert began == (None if seconds is None else MORNING + timedelta(seconds=seconds))


@pytest.mark.parametrize(
    ("of", "end", "is_cause"),
    [
        (replica(started(1)), None, True),
        (replica(started(1)), MainContainer(1), True),
        (replica(started(1)), MainContainer(137, "RestartingAllContainers"), False),
        (replica(started(1), is_told=False), MainContainer(1), False),
    ],
)
def test_a_restart_in_place_begins_an_attempt_if_the_program_had_begun_the_one_before(of, end, is_cause):
    restart = RestartInPlace(of, of.pod.changed(last_termination=end), 1)

    assert whole_job._is_cause(JobRecord(attempt=2), restart) is is_cause


STOPPED = Pod("p", "u", WORKER, 0, is_terminating=True, main=MainContainer(1, started_at=MORNING), created_at=MORNING)


@pytest.mark.parametrize(
    ("pod", "fields", "resumed", "is_lost"),
    [
        (STOPPED, {}, None, True),
        (STOPPED, {}, 0, True),
        (STOPPED, {}, 1, False),
        (STOPPED, {"record": account(uid="other")}, None, True),
        (STOPPED, {"record": account(replaced=False)}, None, True),
        (STOPPED, {"record": account()}, None, False),
        (STOPPED, {"outcome": PodState.FAILED}, None, False),
        (STOPPED, {"is_completed": True}, None, False),
        (STOPPED.changed(is_terminating=False), {}, None, False),
        (STOPPED.changed(main=MainContainer(started_at=MORNING)), {}, None, False),
        (STOPPED.changed(main=MainContainer(started_at=MORNING), is_disrupted=True), {}, None, True),
        (STOPPED.changed(main=MainContainer(), is_disrupted=True), {}, None, False),
        (STOPPED.changed(main=None), {}, None, False),
        (None, {}, None, False),
    ],
)
def test_a_replica_is_lost_whose_pod_is_deleted_when_its_program_has_ended_badly(pod, fields, resumed, is_lost):
    job = job_of(tfjob().workers(1, restart="OnFailure"))
    resumed_time = None if resumed is None else MORNING + timedelta(seconds=resumed)
    job = structs.replace(job, record=JobRecord(resumed_time=resumed_time))
    of = structs.replace(replica(None, pod=pod), **{"outcome": PodState.TERMINATING, "spec": job.replicas[0]} | fields)

    loss = whole_job._lost_if_stopped(of, job).loss
    assert (loss is not None and loss.pod.is_gone) is is_lost
    never = structs.replace(of, spec=structs.replace(of.spec, restart_policy=RestartPolicy.NEVER))
    assert whole_job._lost_if_stopped(never, job).loss is None


@pytest.mark.parametrize(
    ("pod", "seconds"),
    [
        (None, None),
        (STOPPED.changed(main=MainContainer(1, finished_at=MORNING + timedelta(seconds=5))), 5),
        (STOPPED.changed(disrupted_at=MORNING + timedelta(seconds=3)), 3),
        (
            STOPPED.changed(
                main=MainContainer(1, finished_at=MORNING + timedelta(seconds=5)),
                disrupted_at=MORNING + timedelta(seconds=3),
            ),
            3,
        ),
        (STOPPED, 9),
        (STOPPED.changed(is_gone=True), None),
        (STOPPED.changed(is_gone=True, is_terminating=False, phase="Failed"), 9),
    ],
    ids=["no pod", "ended", "disrupted", "both", "now", "deleted", "failed"],
)
def test_losses_are_in_the_order_in_which_they_began(pod, seconds):
    moment = datetime.min.replace(tzinfo=UTC) if seconds is None else MORNING + timedelta(seconds=seconds)
    for outcome in (PodState.FAILED, PodState.PERMANENT_FAILURE):
        order = whole_job._order(ReplicaLoss(WORKER, 0, "p", outcome, pod), MORNING + timedelta(seconds=9))
        assert order == (moment, outcome is PodState.PERMANENT_FAILURE)


@pytest.mark.parametrize(
    ("outcome", "seconds", "given_up"),
    [
        (PodState.FAILED, 4, [True, False]),
        (PodState.FAILED, 5, [True, True]),
        (PodState.FAILED, 6, [True, True]),
        (PodState.PERMANENT_FAILURE, 5, [True, True]),
        (None, 5, [False, True]),
    ],
)
def test_all_start_again_because_of_what_ended_first_and_that_in_place_if_both_did_in_a_second(
    outcome, seconds, given_up
):
    job = job_of(tfjob().workers(3).restarts_as_a_whole("InPlace"))
    ends = [structs.replace(started(1), exit_code=1, finished_at=started(second).started_at) for second in (5, seconds)]
    restarting = replica(started(6)).pod.changed(last_termination=ends[0])
    ended = restarting.changed(name="q", uid="v", phase="Failed", main=ends[1], last_termination=None)
    of = replica(None, pod=restarting)
    lost = replica(None, pod=ended, loss=ReplicaLoss(WORKER, 1, "q", outcome, ended) if outcome else None)
    snapshot = Snapshot(structs.replace(job, record=JobRecord(attempt=2)), MORNING + timedelta(seconds=9))

    replicas, counted = whole_job.restarted(snapshot, {WORKER: (of, lost)}, (RestartInPlace(of, restarting, 1),))

    assert [entry.is_given_up for entry in replicas[WORKER]] == given_up
    assert bool(counted) is given_up[1]


@pytest.mark.parametrize(
    ("of", "is_old"),
    [
        (replica(None, record=account()), True),
        (replica(None, record=account(uid="other")), False),
        (replica(None, record=account(replaced=False)), False),
        (replica(None, pod=None, record=account()), False),
        (replica(None), False),
    ],
)
def test_a_pod_that_is_given_up_is_of_the_run_before(of, is_old):
    assert whole_job.has_old_pods([of]) is is_old


@pytest.mark.parametrize(
    ("of", "method", "is_awaited"),
    [
        (replica(started(1), is_told=False), "InPlace", True),
        (replica(started(1), is_told=False), "Recreate", False),
        (replica(MainContainer(0)), "InPlace", True),
        (replica(started(1)), "InPlace", False),
        (replica(None, pod=None), "InPlace", False),
        (structs.replace(replica(MainContainer(0)), is_completed=True), "InPlace", False),
    ],
)
def test_a_program_is_awaited_that_has_yet_to_start_for_the_attempt(of, method, is_awaited):
    job = job_of(tfjob().workers(3).restarts_as_a_whole(method))

    assert whole_job.is_awaited(structs.replace(job, record=JobRecord(attempt=2)), of) is is_awaited


@pytest.mark.parametrize(("times", "end", "first"), [(1, 5, 5), (1, None, 9), (2, 5, None)])
def test_of_several_ends_in_place_the_first_may_have_been_at_any_time(times, end, first):
    last = MainContainer(1, finished_at=None if end is None else MORNING + timedelta(seconds=end))
    restart = RestartInPlace(None, Pod("p", "u", WORKER, 0, last_termination=last), times)
    moment = whole_job._first_end(restart, MORNING + timedelta(seconds=9))

    assert moment == (datetime.min.replace(tzinfo=UTC) if first is None else MORNING + timedelta(seconds=first))


@pytest.mark.parametrize(
    ("times", "uids"),
    [
        ([(5, 4)], {"pod-0"}),
        ([(5, 4), (4, 2)], {"pod-0", "pod-1"}),
        ([(5, 4), (3, 2)], {"pod-0"}),
        ([(None, 4), (3, None)], {"pod-0"}),
        ([(5, None), (3, None)], {"pod-0", "pod-1"}),
    ],
    ids=["one", "at the last end", "before the last end", "not known since when", "no end is known"],
)
def test_a_program_has_begun_an_attempt_by_itself_that_was_started_when_all_had_ended(times, uids):
    def at(seconds):
        return None if seconds is None else MORNING + timedelta(seconds=seconds)

    def ends(end):
        return None if end is None else MainContainer(1, finished_at=at(end))

    def pod(index, start, end):
        main = None if start is None else MainContainer(started_at=at(start))
        return Pod(f"p-{index}", f"pod-{index}", WORKER, index, main=main, last_termination=ends(end))

    entries = [RestartInPlace(None, pod(index, *both), 1) for index, both in enumerate(times)]
    assert whole_job.started_again(entries) == uids
