"""Programs that listen for more than this machine are found, and reported once for each job."""

import asyncio
import errno
from types import SimpleNamespace

import pytest

from tf_operator.local.node import listeners
from tf_operator.local.node.listeners import Listener, ListenerWatch
from tf_operator.local.node.pod import pod_of

HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
END = "00000000:00000000 00:00000000 00000000     0        0 78643 1 00000000f2556ab6 100 0 0 10 0"


def table(*rows):
    lines = [f"   {number}: {local} 00000000:0000 {state} {END}\n" for number, (local, state) in enumerate(rows)]
    return HEAD + "".join(lines)


@pytest.fixture
def tables(tmp_path, monkeypatch):
    """What the system says of its sockets."""
    files = tmp_path / "tcp", tmp_path / "tcp6"
    monkeypatch.setattr(listeners, "_TABLES", files)
    monkeypatch.setattr(listeners.socket, "if_nameindex", lambda: [(1, "lo"), (2, "eth0")])
    return files


@pytest.mark.parametrize(
    ("address", "state", "is_exposed"),
    [
        ("00000000", "0A", True),
        ("0100007F", "0A", False),
        ("3500007F", "0A", False),
        ("0101A8C0", "0A", True),
        ("0100007F", "01", False),
        ("00000000", "01", False),
        ("00000000000000000000000000000000", "0A", True),
        ("00000000000000000000000001000000", "0A", False),
        ("0000000000000000FFFF00000100007F", "0A", False),
        ("0000000000000000FFFF00000101A8C0", "0A", True),
        ("B80D01200000000000000000FFFFFF7F", "0A", True),
    ],
)
def test_a_port_is_exposed_if_something_listens_beside_loopback(tables, address, state, is_exposed):
    tables[0].write_text(table((f"{address}:4E20", state)))
    assert listeners.exposed_ports() == ({20000} if is_exposed else set())
    tables[1].write_text(table((f"{address}:4E20", state), ("00000000000000000000000000000000:4E21", "0A")))
    assert listeners.exposed_ports() - {20000} == {20001}


def pod(name, job=""):
    owner = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": job, "uid": f"uid-of-{job}", "controller": True}
    metadata = {"name": name, "namespace": "ns", "uid": name, "ownerReferences": [owner] if job else []}
    return pod_of({"metadata": metadata, "spec": {"containers": []}})


async def test_each_job_is_warned_of_once(tables, clock):
    tables[0].write_text(table(("00000000:4E20", "0A"), ("00000000:4E22", "0A"), ("0100007F:4E23", "0A")))
    events = []
    recorder = SimpleNamespace(event=lambda subject, *arguments, **words: events.append((subject, arguments, words)))
    programs = [Listener(pod(f"a-{index}", "a"), [20000 + 2 * index]) for index in range(2)]
    programs += [Listener(pod("inside", "b"), [20003]), Listener(pod("alone"), [20002]), Listener(pod("ended"), [])]
    watch = ListenerWatch(SimpleNamespace(clock=clock, recorder=recorder), lambda: programs)

    looking = asyncio.create_task(watch.run())
    for _ in range(3):
        await clock.idle()
        await clock.advance(3)
    looking.cancel()

    assert [(subject.kind, subject.key.name, arguments) for subject, arguments, _ in events] == [
        ("TFJob", "a", ("Warning",)),
        ("Pod", "alone", ("Warning",)),
    ]
    assert events[0][2]["reason"] == "ListensOnAllInterfaces"
    assert "programs of TFJob a listen on all interfaces, as at port 20000" in events[0][2]["message"]


async def test_a_machine_without_a_network_needs_no_warning_until_it_has_one(tables, clock, monkeypatch):
    tables[0].write_text(table(("00000000:4E20", "0A")))
    events = []
    recorder = SimpleNamespace(event=lambda *arguments, **words: events.append(arguments))
    watch = ListenerWatch(SimpleNamespace(clock=clock, recorder=recorder), lambda: [Listener(pod("a"), [20000])])

    def without_descriptors():
        raise OSError(errno.EMFILE, "too many open files")

    looking, counts = asyncio.create_task(watch.run()), []
    for networks in (lambda: [(1, "lo")], without_descriptors, lambda: [(1, "lo"), (2, "wlan0")]):
        monkeypatch.setattr(listeners.socket, "if_nameindex", networks)
        await clock.idle()
        await clock.advance(3)
        counts.append(len(events))
    looking.cancel()

    assert counts == [0, 0, 1]
