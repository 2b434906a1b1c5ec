"""Which pods a node takes that is cordoned or tainted, and which have room where requests count."""

from dataclasses import replace

import msgspec
import pytest
from msgspec import structs

from tf_operator.local.node.cached_objects import CachedObject
from tf_operator.local.node.machine import Capacity
from tf_operator.local.node.pod import pod_of
from tf_operator.local.node.requested import Requests
from tf_operator.local.node.scheduling import refusal

CORDONED = "0/1 nodes are available: 1 node(s) were unschedulable."
TAINTED = "0/1 nodes are available: 1 node(s) had untolerated taint(s)."
GPU = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}


def pod(*tolerations):
    return pod_of({"spec": {"tolerations": tolerations}})


@pytest.mark.parametrize(
    ("node", "tolerations", "reason"),
    [
        ({}, [], ""),
        ({"unschedulable": True}, [], CORDONED),
        ({"unschedulable": True}, [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}], ""),
        ({"taints": [GPU]}, [], TAINTED),
        ({"taints": [{**GPU, "effect": "NoExecute"}]}, [], TAINTED),
        ({"taints": [{**GPU, "effect": "PreferNoSchedule"}]}, [], ""),
        ({"taints": [GPU]}, [{"operator": "Exists"}], ""),
        ({"taints": [GPU]}, [{"key": "gpu", "value": "yes"}], ""),
        ({"taints": [GPU]}, [{"key": "gpu", "value": "no"}], TAINTED),
        ({"taints": [GPU]}, [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}], ""),
        ({"taints": [GPU]}, [{"key": "gpu", "operator": "Exists", "effect": "NoExecute"}], TAINTED),
        ({"taints": [GPU]}, [{"key": "other", "operator": "Exists"}], TAINTED),
        ({"taints": [GPU]}, [{"value": "yes"}], TAINTED),
        ({"taints": [GPU, {"key": "b", "effect": "NoSchedule"}]}, [{"key": "gpu", "operator": "Exists"}], TAINTED),
    ],
)
def test_a_pod_is_taken_if_it_tolerates_the_taints_of_the_node(node, tolerations, reason):
    assert refusal(msgspec.convert({"metadata": {}, "spec": node}, CachedObject), pod(*tolerations)) == reason


MACHINE = Capacity(4, 8 << 30)
TOO_MUCH = (
    "the pods request 6 of 4 CPUs and 9.0 of 8.0 GiB of memory that this machine has, and run all the same, unless"
    " --requests is enforce"
)
CPU, MEMORY = "1 Insufficient cpu", "1 Insufficient memory"


def asking(main, *inits, sidecar=None, **limits):
    """A pod whose containers request so many CPUs; a text is memory."""

    def container(name, amount, **fields):
        requests = {"memory": amount} if isinstance(amount, str) else {"cpu": amount}
        return {"name": name, "resources": {"requests": requests}, **fields}

    first = [container("s", sidecar, restartPolicy="Always")] if sidecar else []
    others = [container(f"i{number}", amount) for number, amount in enumerate(inits)]
    own = container("m", main)
    own["resources"]["limits"] = limits
    return pod_of({"spec": {"initContainers": first + others, "containers": [own]}})


@pytest.mark.parametrize(
    ("pod", "others", "reasons"),
    [
        (asking(4), [], []),
        (asking(5), [], [CPU]),
        (asking(2), [asking(2)], []),
        (asking(2), [asking(1), asking("1Gi"), asking(2)], [CPU]),
        (asking("6Gi"), [asking("3Gi")], [MEMORY]),
        (asking(1, cpu="4", memory="9Gi"), [], [MEMORY]),
        (asking(1, cpu="4", memory="8Gi"), [], []),
        (asking(0), [asking(9)], []),
        (asking(1, 3, 4), [], []),
        (asking(1, 5), [], [CPU]),
        (asking(3, sidecar=1), [], []),
        (asking(4, sidecar=1), [], [CPU]),
        (asking(1, 4, sidecar=1), [], [CPU]),
        (asking(1, memory="4Gi"), [asking(9, memory="8Gi")], [CPU, MEMORY]),
    ],
)
def test_a_pod_has_room_if_what_is_requested_fits_the_machine(pod, others, reasons):
    requests = Requests("local", MACHINE)
    for number, other in enumerate(others):
        requests.assume(named(other, f"other-{number}"))
    assert requests.reasons(pod) == reasons


@pytest.mark.parametrize(
    ("resources", "reasons"),
    [
        ({"requests": {"cpu": 4}}, []),
        ({"requests": {"cpu": 5}}, [CPU]),
        ({"limits": {"cpu": 5}}, []),
        ({"limits": {"memory": "9Gi"}}, [MEMORY]),
        ({"requests": {"memory": "1Gi"}, "limits": {"memory": "9Gi"}}, []),
    ],
)
def test_what_the_pod_requests_as_a_whole_comes_before_its_containers(resources, reasons):
    main = {"name": "m", "resources": {"requests": {"cpu": 1}}}
    pod = pod_of({"spec": {"resources": resources, "containers": [main]}})
    assert Requests("local", MACHINE).reasons(pod) == reasons


def test_a_pod_counts_from_its_binding_to_its_end_or_its_deletion():
    requests, one, other = Requests("local", MACHINE), named(asking(3), "one"), named(asking(2), "other")
    requests.note(one)
    assert requests.reasons(other) == []
    requests.assume(one)
    requests.note(one)
    assert requests.reasons(other) == [CPU]
    requests.note(one, has_ended=lambda _: True)
    assert requests.reasons(other) == []
    requests.note(named(asking(3), "one", node="elsewhere"))
    requests.note(named(asking(4), "third", node="local"))
    assert requests.reasons(other) == [CPU]
    requests.forget("third")
    requests.forget("one")
    assert requests.reasons(other) == []
    assert not requests.is_assumed("one")


def test_a_pod_that_requests_more_than_any_machine_has_leaves_no_room_behind():
    requests = Requests("local", MACHINE)
    for pod in (named(asking(9e99), "huge"), named(asking(1.5), "one"), named(asking(9e99), "huge")):
        requests.assume(pod)
    for number in (0.1, 3.9001):
        requests.assume(named(asking(number), str(number)))
    for uid in ("huge", "one", "0.1", "3.9001"):
        requests.forget(uid)
    assert requests.reasons(named(asking(4), "next")) == []
    assert requests.reasons(named(asking(5), "next")) == [CPU]
    assert not requests._used


def test_a_job_whose_pods_request_more_than_there_is_is_told_once():
    requests = Requests("local", MACHINE)
    said = []
    for number in range(3):
        pod = named(asking(2, memory="3Gi"), f"pod-{number}", owner="job")
        requests.assume(pod)
        said.append(requests.excess(pod))
    other = named(asking(4), "alone")
    requests.assume(other)

    assert said == [
        "",
        "",
        TOO_MUCH,
    ]
    assert (requests.excess(pod), requests.excess(other)) == ("", "")


def named(pod, name, *, owner="", node=""):
    """The same pod under another name, of a job."""
    references = [{"apiVersion": "v1", "kind": "J", "name": owner, "uid": owner, "controller": True}] if owner else []
    head = pod_of({"metadata": {"name": name, "uid": name, "ownerReferences": references}})
    return replace(pod, metadata=head.metadata, owner=head.owner, spec=structs.replace(pod.spec, node_name=node))
