"""Whatever is stored as a TFJob, a plan is made of it, and nothing is raised: not for itself, and not for its pods.

The pod template is open in the CRD's schema, checks can be bypassed, and objects are older than checks. What is wrong
becomes a message, or is left to the apiserver to refuse.
"""

import json
import os
from copy import deepcopy
from datetime import timedelta

from hypothesis import example, given, settings
from hypothesis import strategies as st

from support.embedded.simulator import MORNING
from support.jobs.builders import tfjob
from support.jobs.templates import CONTAINER, Template
from tf_operator.dialects.kubeflow import v1
from tf_operator.job.record import ReplicaType
from tf_operator.planning.actions import Create
from tf_operator.planning.plan import make_plan
from tf_operator.planning.snapshot import Pod, PodGroup, RejectedWrite, Service, Settings, Snapshot

ANY_OBJECTS = int(os.environ.get("ANY_OBJECTS", "150"))
LEAF = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from(
        [10**400, -(10**30), 1.5, 1e300, "", "x", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "0-99999999"]
    )
)
ANY_JSON = st.recursive(
    LEAF,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["name", "spec", "type", "Worker", "limits", "cpu"]), inner, max_size=3)
    ),
    max_leaves=6,
)
AT = "2026-01-01T00:00:00Z"
MAIN = {
    **CONTAINER,
    "env": [{"name": "TF_CONFIG", "value": "{}"}],
    "ports": [{"name": "tfjob-port", "containerPort": 2222, "protocol": "TCP"}],
    "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}},
}
TEMPLATE = (
    Template()
    .labels({"app": "x"})
    .spec(restartPolicy="Never", schedulerName="mine", containers=[MAIN, {"name": "sidecar", "image": "s"}])
)
JOB = (
    tfjob("job")
    .workers(3, restart="OnFailure", template=TEMPLATE)
    .parameter_servers(1, restart="ExitCode", template=TEMPLATE)
    .evaluators(0, restart="Never")
    .success_policy()
    .dynamic_workers()
    .clean_pods("All")
    .ttl(1)
    .deadline(10**9)
    .startup_deadline(10**9)
    .backoff_limit(100)
    .suspended(False)
    .managed_by("kubeflow.org/training-operator")
    .scheduling(min_available=1, queue="q", priority_class="p", min_resources={"cpu": "1"}, timeout=3)
    .annotations({"a": "b"})
    .labels({"a": "b"})
    .in_namespace("team")
)
CREATED = {"type": "Created", "status": "True", "reason": "TFJobCreated", "message": "m", "lastUpdateTime": AT}
STATUS = {
    "conditions": [CREATED | {"lastTransitionTime": AT}, {"type": "Running", "status": "True"}],
    "replicaStatuses": {
        "Worker": {"active": 1, "restarts": 1, "completedIndexes": "1", "startedIndexes": "0-1", "selector": "s"}
    },
    **dict.fromkeys(("startTime", "completionTime", "allRunningTime"), AT),
    "ready": "1/2",
    "restarts": 1,
    "disruptions": 1,
    "firstFailure": {"pod": "p", "exitCode": 1, "time": AT},
    "restartRecords": [{"replica": "Worker-0", "uid": "u", "inPlace": 1, "replaced": True, "attempts": 2, "time": AT}],
}
METADATA = {"uid": "u", "resourceVersion": "1", "generation": 2, "creationTimestamp": AT}
PODS = {"template": {"metadata": {"annotations": {"a": "b"}, "finalizers": []}}}
SPEC = {"tfReplicaSpecs": {"Worker": PODS, "PS": PODS}}
WHOLE = JOB.merged({"metadata": METADATA, "spec": SPEC, "status": STATUS}).body()


def paths(value, above=()):
    """Every place in a JSON value."""
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, below in children:
        yield (*above, key)
        yield from paths(below, (*above, key))


PATHS = sorted(paths(WHOLE), key=str)
PORT_NAME = ("spec", "tfReplicaSpecs", "Worker", "template", "spec", "containers", 0, "ports", 0, "name")


def put(body, path, value):
    """Another value at a place, if the place is still there."""
    for key in path[:-1]:
        if not isinstance(body, dict | list) or (isinstance(body, dict) and key not in body):
            return
        if isinstance(body, list) and (not isinstance(key, int) or key >= len(body)):
            return
        body = body[key]
    if isinstance(body, dict) or (isinstance(body, list) and isinstance(path[-1], int) and path[-1] < len(body)):
        body[path[-1]] = value


def observed(body, scheduler=""):
    job = v1.API.read_object(body)
    worker, server = ReplicaType.WORKER, ReplicaType.PS
    pods = (
        Pod("job-worker-0", "p0", worker, 0, phase="Running", restarts=3),
        Pod("job-ps-0", "p1", server, 0, phase="Failed", reason="Evicted"),
        Pod("job-worker-1", "p2", worker, 1, pending_reason="Unschedulable", created_at=MORNING - timedelta(minutes=1)),
    )
    return Snapshot(
        job,
        MORNING,
        pods=pods,
        services=(Service("job-worker-7", "s"), Service("job-worker-0", "s0")),
        pod_group=PodGroup("job", "g", "Running", {"minMember": "x", "minResources": []}) if scheduler else None,
        rejected=RejectedWrite("pod job-ps-0", "no", MORNING - timedelta(seconds=2)) if not scheduler else None,
        settings=Settings(gang_scheduler=scheduler),
    )


def carry_out(body, scheduler=""):
    """Make the plan, the bodies, and the JSON of the status."""
    snapshot = observed(body, scheduler)
    plan = make_plan(snapshot)
    json.dumps(v1.API.status_patch(plan.report), allow_nan=False)
    for create in [action for action in plan.actions if isinstance(action, Create)][:4]:
        json.dumps([child.body() for child in create.in_order()])


@settings(max_examples=ANY_OBJECTS)
@given(ANY_JSON.filter(lambda body: isinstance(body, dict)))
def test_a_plan_is_made_of_any_object_at_all(body):
    carry_out(body)


@settings(max_examples=2 * ANY_OBJECTS)
@given(
    st.lists(st.tuples(st.sampled_from(PATHS), ANY_JSON), min_size=1, max_size=3),
    st.sampled_from(["", "volcano", "scheduler-plugins"]),
)
@example([(PORT_NAME, [None])], "")
def test_a_plan_is_made_whatever_stands_in_any_field(changes, scheduler):
    body = deepcopy(WHOLE)
    for path, value in changes:
        put(body, path, value)
    carry_out(body, scheduler)


def test_the_whole_object_is_valid_so_that_most_changes_matter():
    snapshot = observed(WHOLE)

    assert snapshot.job.problems == ()
    assert {action.replica.split("-")[0] for action in make_plan(snapshot).actions if isinstance(action, Create)}
