"""A job without a cluster: everything that exists in one process on a laptop, and who is given what.

Read ``live`` from top to bottom: it is the list. The operator is that of ``run``, the same controllers, caches and
events, over a transport that ends in the API server of this process. It needs no election, and nobody scrapes it.

A training has to start within a second, so nothing is imported here that is not needed before. HTTP, for kubectl, is
``serve``'s.
"""

import asyncio
import math

from tf_operator.app import lifecycle, wiring
from tf_operator.app.options.options import Options
from tf_operator.controller.conflicts import ConflictDetector
from tf_operator.machinery.cache.factory import SharedInformerFactory
from tf_operator.machinery.clock import Clock
from tf_operator.machinery.events.event_object import Reporter
from tf_operator.machinery.events.recorder import EventRecorder
from tf_operator.machinery.ratelimit import TokenBucket
from tf_operator.machinery.transport.client import ApiClient
from tf_operator.machinery.transport.transport import Transport

DRAIN_WITHIN = 2.0
"""Seconds that reconciles have at the end; each of them takes milliseconds here."""


def make_operator(transport: Transport, options: Options, clock: Clock, stop: asyncio.Event) -> lifecycle.Lifecycle:
    """The operator for an API server that nobody else uses."""
    client = ApiClient(transport, clock=clock, budget=TokenBucket(clock, qps=math.inf, burst=1))
    informers = SharedInformerFactory(client=client, clock=clock)
    recorder = EventRecorder(client, clock=clock, reporter=Reporter(wiring.COMPONENT, "local"))
    conflicts = ConflictDetector(clock, recorder=recorder, is_overridden=True)
    settings = wiring.settings(options)
    context = wiring.ControllerContext(
        client=client,
        informers=informers,
        recorder=recorder,
        clock=clock,
        options=options,
        controllers={api.controller: wiring.Unmeasured() for api in options.apis},
        conflicts=conflicts,
        settings=lambda: settings,
    )
    return lifecycle.Lifecycle(
        {api.controller: wiring.make_controller(context, api) for api in options.apis},
        informers=informers,
        recorder=recorder,
        election=lifecycle.NoElection(),
        clock=clock,
        stop=stop,
        drain_timeout=DRAIN_WITHIN,
        wait_until_clear=conflicts.wait_until_clear,
    )
