"""What a row of answers to a probe means, and how servers are asked."""

import asyncio

import pytest

from tf_operator.local.node.pod import pod_of
from tf_operator.local.node.processes import network_requests
from tf_operator.local.node.run.probes import PodPlace, Tally, answers, probes_of
from tf_operator.machinery.clock import SystemClock


async def test_a_probe_asks_in_the_network_of_the_job():
    async def serve(_reader, writer):
        writer.write(b"HTTP/1.1 204 x\r\n\r\n")
        writer.close()

    made, inner = await network_requests.make()
    inner.bind(("127.0.0.1", 80))
    probes = [probe_of(httpGet={"port": 80}), probe_of(tcpSocket={"port": 80})]
    place, clock = PodPlace(int, made.paths), SystemClock()
    async with await asyncio.start_server(serve, sock=inner):
        assert [await answers(*probe, clock=clock, place=place) for probe in probes] == ["", ""]
        assert [await answers(*probe, clock=clock, place=PodPlace(int)) for probe in probes] != ["", ""]
    assert "Connect call failed" in await answers(*probes[0], clock=clock, place=place)
    made.close()
    assert await answers(*probes[0], clock=clock, place=place) != ""


def probe_of(**fields):
    container = {
        "name": "main",
        "livenessProbe": {"timeoutSeconds": 60, **fields},
        "ports": [{"name": "web", "containerPort": 80}],
    }
    (main,) = pod_of({"spec": {"containers": [container]}}).containers
    return probes_of(main)[0], main


@pytest.mark.parametrize(
    ("row", "verdict"),
    [("-", None), ("--", None), ("---", False), ("--+-", None), ("+", None), ("++", True), ("---+", None)],
)
def test_a_verdict_needs_enough_answers_of_one_kind(row, verdict):
    probe, _ = probe_of(successThreshold=2)
    tally = Tally()
    for answer in row:
        tally = tally.answered(is_good=answer == "+")
    assert tally.verdict(probe) is verdict


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        (b"HTTP/1.1 204 x\r\n\r\n", ""),
        (b"HTTP/1.1 503 x\r\n\r\n", "HTTP probe failed with statuscode: 503"),
        (b"nonsense\r\n", "HTTP probe failed with statuscode: 0"),
    ],
)
async def test_a_probe_is_good_by_the_status_or_the_connection(reply, problem):
    heads, ports, clock = [], [], SystemClock()

    async def serve(reader, writer):
        heads.append(await reader.read(4096))
        writer.write(reply)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        probe, container = probe_of(
            httpGet={"port": "web", "path": "/up", "httpHeaders": [{"name": "A", "value": "b"}]}
        )
        assert (
            await answers(probe, container, clock=clock, place=PodPlace(lambda number: ports.append(number) or port))
            == problem
        )
        tcp, _ = probe_of(tcpSocket={"port": port})
        assert await answers(tcp, container, clock=clock, place=PodPlace(int)) == ""
    assert "Connect call failed" in await answers(tcp, container, clock=clock, place=PodPlace(int))
    unnamed, _ = probe_of(tcpSocket={"port": "metrics"})
    rule = "container main has no port 'metrics': its ports name none so"
    assert await answers(unnamed, container, clock=clock, place=PodPlace(int)) == rule
    assert ports == [80]
    assert {b"GET /up HTTP/1.1", b"A: b"} <= set(heads[0].split(b"\r\n"))
