"""For how long pods ran, and what restarts have cost, in random lives, against a count of the test itself.

Nothing changes while a simulator waits, so that is when the test counts: pods whose program runs, and whether the job
waits for a replica that was lost. The operator is killed after random writes. ``LIVES=1000`` lives that many.
"""

import os
from collections import Counter
from copy import deepcopy
from functools import partial
from random import Random

import pytest

from support.embedded.pod_events import (
    edited,
    everything_runs,
    fails,
    is_deleted,
    is_deleted_unseen,
    is_drained,
    is_evicted,
    restarts_in_place,
    resume,
    succeeds,
    suspend,
    time_passes,
)
from support.embedded.simulator import Simulator
from support.jobs.builders import tfjob
from support.pods import pod_status
from support.pods.pod_status import Exit


def is_restarted(replica):
    """By its kubelet, which does so only where the pod says so."""

    def move(life):
        if any(pod.restart_policy != "Never" for pod in life.pods.values()):
            restarts_in_place(replica)(life)

    return move


LIVES = int(os.environ.get("LIVES", "40"))
SEEN = (
    lambda replica, _: fails(replica, 137),
    lambda replica, _: is_restarted(replica),
    lambda replica, _: succeeds(replica),
    lambda _, seconds: time_passes(seconds),
    lambda _, __: everything_runs,
)
"""Moves of which an operator that was killed still sees what happened."""
DELETIONS = (is_deleted, is_drained)
UNSEEN = (is_deleted_unseen, is_evicted)


class Witness(Simulator):
    """Counts while it waits."""

    def __init__(self, body):
        self.ran, self.lost, self.missing = Counter(), 0, set()
        super().__init__(body)

    def wait(self, seconds):
        if not (self.is_deleted or self.record.is_finished or self.record.is_idle):
            for pod in self.pods.values():
                self.ran[pod.type] += seconds * self.runs(pod)
            self.lost += seconds * bool(self.missing)
        super().wait(seconds)

    def runs(self, pod):
        is_up = pod.phase == "Running" and pod.main is not None and pod.main.exit_code is None
        return is_up and pod.index not in self.record.of(pod.type).completed

    def happens(self, move):
        before = {(pod.type, pod.index): pod.uid for pod in self.pods.values() if self.runs(pod)}
        move(self)
        self.settle()
        if self.record.is_finished or self.record.is_idle:
            self.missing.clear()
            return
        here = {
            (pod.type, pod.index): pod.uid for pod in self.pods.values() if self.runs(pod) or pod.phase == "Succeeded"
        }
        done = {(kind, index) for kind, record in self.record.replicas.items() for index in record.completed}
        self.missing |= {place for place, uid in before.items() if here.get(place) != uid} - done
        self.missing -= set(here)


def job_of(random):
    policy = random.choice(["OnFailure", "ExitCode"])
    job = tfjob().workers(random.randint(1, 3), restart=policy)
    if random.random() < 0.5:
        job = job.replicas("PS", 1, restart=policy)
    if random.random() < 0.3:
        job = job.restarts_as_a_whole()
    return job


def lived(seed, *, unseen=False):
    """A life in which everything runs, something happens, and so on, until it ends."""
    random = Random(seed)
    life = Witness(job_of(random).body())
    life.settle()
    for _ in range(random.randint(4, 9)):
        life.happens(everything_runs)
        life.happens(time_passes(random.choice([1, 30, 3600, 50_000])))
        replica = random.choice([f"{pod.type.label}-{pod.index}" for pod in life.pods.values()] or ["worker-0"])
        if random.random() < 0.25:
            life.crash_after = None
            life.happens(random.choice(UNSEEN if unseen else DELETIONS)(replica))
        elif random.random() < 0.15:
            life.happens(suspend)
            life.happens(time_passes(100))
            life.happens(resume)
        else:
            life.crash_after = life.writes + random.randint(1, 3) if random.random() < 0.5 else None
            life.happens(random.choice(SEEN)(replica, random.choice([1, 7, 600])))
        life.happens(time_passes(random.choice([0, 2, 400])))
        if life.record.is_finished:
            return life
    for pod in list(life.pods.values()):
        life.happens(succeeds(f"{pod.type.label}-{pod.index}"))
    return life


def used(life):
    return {kind: replica.run_seconds for kind, replica in life.record.replicas.items()}


@pytest.mark.parametrize("tenth", range(10))
def test_what_pods_ran_and_restarts_cost_is_counted_once_through_crashes(tenth):
    ended = 0
    for seed in range(tenth, LIVES, 10):
        life = lived(seed)
        if life.record.is_finished:
            ended += 1
            assert used(life) == {kind: life.ran[kind] for kind in used(life)}, seed
            assert life.record.lost_seconds == life.lost, seed

    assert ended >= LIVES // 20


def test_a_run_of_which_nobody_saw_the_end_counts_for_no_longer_than_it_was():
    for seed in (*range(LIVES // 4), 31):  # in life 31 a pod is evicted that was restarted in place
        life = lived(seed, unseen=True)

        assert all(seconds <= life.ran[kind] for kind, seconds in used(life).items()), seed


@pytest.mark.parametrize("amount", ["1e18", "9" * 30 + "e99"])
def test_a_job_ends_whatever_its_template_asks_for_by_then(amount):
    requests = {"cpu": amount, "memory": amount, "example.com/board": amount}
    template = {"spec": {"containers": [{"name": "tensorflow", "image": "i", "resources": {"requests": requests}}]}}
    life = Witness(tfjob().workers(1).body())
    life.settle()
    edit = edited({"spec": {"tfReplicaSpecs": {"Worker": {"template": template}}}})
    for move in (everything_runs, time_passes(3600), edit, succeeds("worker-0")):
        life.happens(move)

    assert life.record.phase == "Succeeded"
    assert len(life.record.usage) == 3


def with_clock_of(year, which):
    """What a kubelet writes whose node had another year when the program started, or ended."""

    def change(pod, _now):
        status = deepcopy(pod["status"])
        for entry in status["containerStatuses"]:
            for state in (entry["state"], entry.get("lastState", {})):
                for part in state.values():
                    if which in part:
                        part[which] = f"{year}{part[which][4:]}"
        return status

    return change


@pytest.mark.parametrize("year", ["0001", "1970", "9999"])
@pytest.mark.parametrize("which", ["startedAt", "finishedAt"])
@pytest.mark.parametrize("end", [pod_status.finished, pod_status.restarted])
def test_no_clock_of_a_node_makes_a_run_or_a_loss_longer_than_its_pod_is_old(year, which, end):
    life = Simulator(tfjob().workers(1, restart="OnFailure").body())
    for move in (everything_runs, time_passes(3600)):
        life.settle()
        move(life)
    (pod,) = life.pods
    life.set_pod(pod, partial(end, how=Exit(1)), with_clock_of(year, which))
    for move in (everything_runs, time_passes(60), succeeds("worker-0")):
        life.settle()
        move(life)
    life.settle()

    assert life.record.phase == "Succeeded"
    (replica,) = life.record.replicas.values()
    assert replica.run_seconds <= 5 * 3600  # two runs, and an hour for each by which clocks may differ
    assert life.record.lost_seconds <= 2 * 3600
