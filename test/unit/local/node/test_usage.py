"""What containers use, read from the files of a ``/proc`` of the test."""

import os
from datetime import timedelta

import pytest

from support.fake_clock import FakeClock
from tf_operator.local.node.pod import pod_of
from tf_operator.local.node.usage import ContainerSession, UsageMeter

TICKS, PAGE = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
POD = pod_of({"metadata": {"name": "p", "namespace": "ns", "labels": {"a": "b"}}})


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


class Machine:
    def __init__(self, proc):
        self.proc, self.began = proc, FakeClock().now()
        self.meter = UsageMeter(proc)

    def process(self, pid, session, *, cpu, memory=0):
        """One that has used so many seconds, half of them itself and half by those that it has waited for."""
        quarter = round(cpu * TICKS / 4)
        fields = ["S", "1", str(session), str(session), *["0"] * 7, *[str(quarter)] * 4, *["0"] * 6, str(memory)]
        (self.proc / str(pid)).mkdir(exist_ok=True)
        (self.proc / str(pid) / "stat").write_text(f"{pid} (a) program) {' '.join(fields)}\n")

    def used(self, seconds, *, leader=7, began=0.0):
        """Processors and pages of the container after so many seconds, and since when that is."""
        session = ContainerSession("main", leader, self.began + timedelta(seconds=began))
        pods = [(POD, [session]), (POD, [])]
        (metrics,) = self.meter.metrics(pods, self.began + timedelta(seconds=seconds))
        (container,) = metrics["containers"]
        usage = container["usage"]
        assert (container["name"], usage["cpu"][-1], usage["memory"][-2:]) == ("main", "n", "Ki")
        return int(usage["cpu"][:-1]) / 1e9, int(usage["memory"][:-2]) * 1024 // PAGE, float(metrics["window"][:-1])


def test_all_processes_of_a_container_are_added_up_and_no_other(machine):
    for pid, session, cpu, memory in ((7, 7, 4.0, 100), (8, 7, 2.0, 20), (9, 9, 100.0, 1000)):
        machine.process(pid, session, cpu=cpu, memory=memory)
    (machine.proc / "10").mkdir()  # a process that has just ended

    assert machine.used(4.0) == (1.5, 120, 4.0)
    assert machine.used(4.0, leader=11) == (0.0, 0, 4.0)


def test_processor_time_is_that_of_the_last_seconds_however_often_somebody_asks(machine):
    readings = []
    for second, cpu in ((5, 5.0), (12, 12.0), (13, 12.0), (22, 12.0), (23, 12.0), (40, 12.0)):
        machine.process(7, 7, cpu=cpu)
        cores, _, window = machine.used(second)
        readings.append((round(cores, 2), window))

    assert readings == [(1.0, 5.0), (1.0, 12.0), (0.92, 13.0), (0.0, 10.0), (0.0, 11.0), (0.0, 18.0)]


def test_a_number_that_another_process_has_now_begins_again(machine):
    machine.process(7, 7, cpu=100.0)
    machine.used(20.0)
    machine.used(31.0)
    machine.process(7, 7, cpu=2.0)

    assert machine.used(36.0, began=32.0) == (0.5, 0, 4.0)
