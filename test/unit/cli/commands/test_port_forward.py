"""What becomes of single connections through ``tfjob port-forward``."""

import asyncio
import gc

import pytest

from tf_operator.cli.commands.replicas import port_forward
from tf_operator.cli.commands.replicas.process import ReplicaProcess


async def test_a_reply_comes_through_long_after_the_client_has_sent_everything(capsys):
    is_read, is_due = asyncio.Event(), asyncio.Event()

    async def serve(reader, writer):
        request = await reader.read()
        is_read.set()
        await is_due.wait()
        writer.write(request)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as program:
        variables = {"TF_OPERATOR_PORT_7000": str(program.sockets[0].getsockname()[1])}

        async def find():
            return ReplicaProcess("worker-0", "/", variables)

        forwarder = port_forward._Forwarder(port_forward._Ports(0, 7000), find, asyncio.Future())
        async with await forwarder.listen() as forwarding:
            reader, writer = await asyncio.open_connection(*forwarding.sockets[0].getsockname())
            writer.write(b"request")
            writer.write_eof()
            await is_read.wait()
            gc.collect()
            is_due.set()
            assert await reader.read() == b"request"
            writer.close()


@pytest.mark.parametrize("text", ["none", "0", "-1", "70000", "9" * 5000, "\u0663"])
def test_what_a_program_writes_into_the_variable_of_a_port_is_used_only_if_it_is_a_port(text):
    replica = ReplicaProcess("worker-0", "/", {"TF_OPERATOR_PORT_7000": text})

    assert port_forward._real_port(replica, 7000) == 7000
