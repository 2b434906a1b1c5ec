"""The operator with a long page of metrics, and with a controller that computes for ever after SIGUSR1."""

import asyncio
import signal
import sys

import msgspec

from tf_operator.app import run
from tf_operator.app.options import options
from tf_operator.machinery.queue.workqueue import WorkQueue
from tf_operator.machinery.transport.requests import Resource
from tf_operator.machinery.transport.responses import ObjectMeta

PODS = Resource("", "v1", "pods", "Pod")


class Pod(msgspec.Struct, frozen=True):
    metadata: ObjectMeta


NAMESPACES = 500


class Stuck:
    """A controller with an endless loop in it; jobs in many namespaces make its metrics some megabytes."""

    def __init__(self, context, api):
        self.queue = WorkQueue(context.clock)
        context.informers.get(PODS, decode=msgspec.json.Decoder(Pod).decode, scopes=context.scopes("no-such-label"))
        for number in range(NAMESPACES):
            context.controllers[api.controller].jobs.created(f"namespace-{number}")

    async def run(self):
        begin = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, begin.set)
        await begin.wait()
        while True:
            pass

    async def drain(self):
        pass


if __name__ == "__main__":
    sys.exit(run.run(options.parse(sys.argv[1:], {}), make_controller=Stuck))
