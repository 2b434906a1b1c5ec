"""Our informer with its client, the operator's own projection of pods, and a handler that queues their owners."""

import asyncio
import ssl
import sys

import structlog
from measure import Measure

from tf_operator.controller.caches import OWNER, owner_of
from tf_operator.dialects import registry
from tf_operator.machinery.cache.factory import SharedInformerFactory
from tf_operator.machinery.clock import SystemClock
from tf_operator.machinery.ratelimit import TokenBucket
from tf_operator.machinery.transport.client import ApiClient
from tf_operator.machinery.transport.config import ClientConfig
from tf_operator.machinery.transport.connection import Connection
from tf_operator.machinery.transport.requests import Resource
from tf_operator.projections.pods import pod_reader

PODS = Resource("", "v1", "pods", "Pod")


class Jobs:
    def __init__(self):
        self.queue = set()

    def on_add(self, item):
        self.queue.add(item.owner)

    def on_update(self, old, new):
        self.on_add(new)

    def on_delete(self, last, *, final_state_known):
        self.on_add(last)


class Source:
    def __init__(self, url, authority):
        self._access = ClientConfig(url, "Bearer token", ssl.create_default_context(cafile=authority))

    async def read(self, *, refused=False):
        return self._access


async def main(url, authority):
    clock = SystemClock()
    measure = Measure()
    async with Connection(Source(url, authority), clock=clock) as connection:
        client = ApiClient(connection, clock=clock, budget=TokenBucket(clock, qps=100, burst=100))
        informers = SharedInformerFactory(client=client, clock=clock)
        pods = informers.get(PODS, decode=pod_reader((registry.DEFAULT,)), indexes={OWNER: owner_of})
        pods.add_handler(Jobs())
        async with measure:
            task = asyncio.ensure_future(informers.run())
            await informers.wait_synced()
        measure.tell(len(pods.store))
        task.cancel()


if __name__ == "__main__":
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    asyncio.run(main(*sys.argv[1:]))
