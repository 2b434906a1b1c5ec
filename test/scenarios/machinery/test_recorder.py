"""Events on a real apiserver, by the operator's own role: everybody who looks for them finds them, and once."""

import asyncio
import math
import re
from collections import Counter
from contextlib import asynccontextmanager

import pytest

from support.settle import eventually
from tf_operator.machinery.clock import SystemClock
from tf_operator.machinery.events import event_object
from tf_operator.machinery.events.event_object import Reference, Reporter
from tf_operator.machinery.events.recorder import EventRecorder
from tf_operator.machinery.metrics_hooks import RecorderInstruments
from tf_operator.machinery.ratelimit import TokenBucket
from tf_operator.machinery.transport.client import ApiClient
from tf_operator.machinery.transport.connection import Connection
from tf_operator.machinery.transport.kubeconfig import KubeConfig
from tf_operator.machinery.transport.requests import Resource
from tf_operator.meta import ObjectKey, key_of, uid_of

MAPS = Resource("", "v1", "configmaps", "ConfigMap")


class Losses(RecorderInstruments):
    def __init__(self):
        self.losses = Counter()

    def lost(self, cause):
        self.losses[cause] += 1


@asynccontextmanager
async def recording(kubeconfig):
    """A recorder that runs, and what it counts; drained in the end."""
    clock, counted = SystemClock(), Losses()
    async with Connection(KubeConfig(str(kubeconfig)), clock=clock) as connection:
        client = ApiClient(connection, clock=clock, budget=TokenBucket(clock, qps=math.inf, burst=1), attempts=1)
        reporter = Reporter("tfjob-controller", "tf-operator-0")
        recorder = EventRecorder(client, clock=clock, reporter=reporter, instruments=counted)
        running = asyncio.ensure_future(recorder.run())
        yield recorder, counted
        await recorder.drain(10)
        running.cancel()
        await asyncio.wait([running])
        assert running.cancelled()


@pytest.fixture
def job(control_plane, namespace):
    """An object to report on."""
    body = control_plane.admin.create(f"/api/v1/namespaces/{namespace}/configmaps", {"metadata": {"name": "mnist"}})
    return event_object.reference_to(MAPS, key_of(body), uid_of(body))


@pytest.fixture
def events(control_plane, namespace):
    """All events of the namespace, as clients of core/v1 list them."""
    return lambda: control_plane.admin.get(f"/api/v1/namespaces/{namespace}/events")["items"]


async def test_every_client_finds_an_event_its_count_and_its_times(control_plane, namespace, job, events, kubectl):
    pod = Reference("v1", "Pod", ObjectKey(namespace, "mnist-worker-0"), "1234")
    async with recording(control_plane.kubeconfig("operator")) as (recorder, _):
        for _ in range(3):
            recorder.event(job, "Warning", reason="PodFailed", message="exit code 1\n\x1b[31m", related=pod)
            await eventually(events)
    message = r"exit code 1\n\x1b[31m"

    # kubectl describe: type, reason, age, who, message.
    (line,) = [line for line in kubectl("describe", "configmap", "mnist").splitlines() if "PodFailed" in line]
    assert re.search(r"Warning +PodFailed +\S+ \(x3 over \S+\) +tfjob-controller +", line)
    assert line.endswith(message)
    (line,) = kubectl("get", "events", "--no-headers").splitlines()
    assert re.search(r"^\S+ +Warning +PodFailed +configmap/mnist +", line)
    (line,) = kubectl("events", "--for", "configmap/mnist", "--no-headers").splitlines()
    assert "(x3 over" in line

    # The Kubeflow SDKs and dashboards: core/v1, by the object that it is about.
    for selector in (f"involvedObject.uid={job.uid}", "involvedObject.name=mnist,involvedObject.kind=ConfigMap"):
        path = f"/api/v1/namespaces/{namespace}/events?fieldSelector={selector.replace('=', '%3D')}"
        (event,) = control_plane.admin.get(path)["items"]
        assert (event["count"], event["reason"], event["message"]) == (3, "PodFailed", message)
        assert event["firstTimestamp"] <= event["lastTimestamp"]
        assert event["source"] == {"component": "tfjob-controller"}
        assert (event["reportingComponent"], event["reportingInstance"]) == ("tfjob-controller", "tf-operator-0")
        assert event["related"]["name"] == "mnist-worker-0"

    # And the new API.
    (event,) = control_plane.admin.get(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")["items"]
    assert event["reportingController"] == "tfjob-controller"
    assert (event["note"], event["deprecatedCount"]) == (message, 3)


async def test_nothing_is_tried_for_long_in_a_namespace_that_is_going_away(control_plane, namespace, job):
    path = f"/api/v1/namespaces/{namespace}"
    control_plane.admin.patch(f"{path}/configmaps/mnist", {"metadata": {"finalizers": ["example.com/stays"]}})
    control_plane.admin.delete(path)
    nowhere = Reference("v1", "ConfigMap", ObjectKey("there-is-no-such-namespace", "mnist"), "uid")

    async with recording(control_plane.kubeconfig("operator")) as (recorder, counted):
        for regarding in (job, nowhere):
            recorder.event(regarding, "Normal", reason="Created", message="hello")
        await eventually(lambda: sum(counted.losses.values()) == 2)

    assert counted.losses == {"NamespaceTerminating": 1, "NotFound": 1}
    control_plane.admin.patch(f"{path}/configmaps/mnist", {"metadata": {"finalizers": None}})
