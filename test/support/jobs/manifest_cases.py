"""Manifests, good and bad, with the fields that are wrong: what ``tfjob plan`` and a real API server must agree on.

The unit tests compare the fields with those that ``tfjob plan`` names. The test on a real API server compares only the
verdict: there a manifest is bad if the server refuses the job, or the pod of its template.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from support.jobs.builders import merge, tfjob
from support.resources import Json

MAIN: Final = {"name": "tensorflow", "image": "i"}
SIDE: Final = {"name": "side", "image": "i"}
JOB: Final = tfjob("j").workers(1)
_REPLICAS: Final = "spec.tfReplicaSpecs"
_WORKER: Final = f"{_REPLICAS}.Worker"
_META: Final = f"{_WORKER}.template.metadata"
_AVOID: Final = "spec.runPolicy.avoidNodes"
_PROGRESS: Final = "spec.runPolicy.progressPolicy"
_POD: Final = f"{_WORKER}.template.spec"
_MAIN: Final = f"{_POD}.containers[0]"


@dataclass(frozen=True, slots=True)
class Case:
    """A manifest, the text of a file, with the fields that are wrong in it."""

    name: str
    text: str
    errors: tuple[str, ...]


def _case(name: str, manifest: Mapping[str, Any] | str, *errors: str) -> Case:
    return Case(name, manifest if isinstance(manifest, str) else json.dumps(manifest), errors)


def _spec(**fields: object) -> Json:
    body = JOB.body()
    body["spec"] |= fields
    return body


def _policy(**fields: object) -> Json:
    return _spec(runPolicy=fields)


def _types(**specs: object) -> Json:
    return _spec(tfReplicaSpecs=specs)


def _worker(**fields: object) -> Json:
    return _types(Worker=JOB.body()["spec"]["tfReplicaSpecs"]["Worker"] | fields)


def _template(metadata: object = None, **spec: object) -> Json:
    return _worker(template={"metadata": metadata or {}, "spec": {"containers": [MAIN]} | spec})


def _main(**fields: object) -> Json:
    return _template(containers=[MAIN | fields])


def _requests(**amounts: object) -> Json:
    return _main(resources={"requests": amounts, "limits": {"cpu": 2}})


def _limits(**amounts: object) -> Json:
    return _main(resources={"limits": amounts})


def _grows(limit: object, **policy: object) -> Json:
    body = _limits(memory=limit)
    body["spec"]["tfReplicaSpecs"]["Worker"]["oomPolicy"] = policy
    return body


def _ports(*ports: Json) -> Json:
    return _main(ports=list(ports))


def _metadata(**fields: object) -> Json:
    body = JOB.body()
    body["metadata"] |= fields
    return body


_SPEC: Final = {"template": {"spec": {"containers": [MAIN]}}}
_TEXT: Final = json.dumps(_worker(replicas=5))
_VOLUME: Final = {"name": "v", "emptyDir": {}}
_MOUNT: Final = {"name": "v", "mountPath": "/v"}
_SPREAD: Final = {
    "maxSkew": 1,
    "topologyKey": "zone",
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"a": "b"}},
}

GOOD: Final = (
    _case("a small job", JOB.body()),
    _case("null for a type of replica", _types(Worker=_SPEC, PS=None)),
    _case("null for an object", _template(nodeSelector=None)),
    _case("null for a string", _template(restartPolicy=None)),
    _case("null for a field with a default", _spec(runPolicy=None)),
    _case("null for a label", _metadata(labels={"a": None})),
    _case("null for a label of the pods", _template({"labels": {"a": None}})),
    _case("a whole number with a fraction of 0", _TEXT.replace('"replicas": 5', '"replicas": 3.0')),
    _case("the largest numbers", _policy(backoffLimit=2**31 - 1, activeDeadlineSeconds=2**63 - 1)),
    _case("a type in lower case", _types(worker=_SPEC)),
    _case("nodes that are avoided", _policy(avoidNodes={"afterFailures": 10})),
    _case("a program that reports its progress", _policy(progressPolicy={"reports": True})),
    _case(
        "a program that may hang", _policy(progressPolicy={"reports": True, "deadlineSeconds": 60, "action": "Fail"})
    ),
    _case("a host name", _template(hostname="a", subdomain="b")),
    _case("one Service", _spec(serviceMode="Job")),
    _case("a NetworkPolicy", _spec(networkPolicy="Job")),
    _case("no NetworkPolicy, with a host network", merge(_template(hostNetwork=True), _spec(networkPolicy="None"))),
    _case("a suspended job", _policy(suspend=True)),
    _case("a job of another cluster", _policy(managedBy="kueue.x-k8s.io/multikueue")),
    _case("no replicas", _worker(replicas=0)),
    _case("an unknown field of the pod", _template(tolerance=[])),
    _case("a sidecar", _template(containers=[MAIN, SIDE])),
    _case("an environment variable twice", _main(env=[{"name": "A", "value": "1"}, {"name": "A", "value": "2"}])),
    _case("a port twice", _ports({"containerPort": 80}, {"containerPort": 80})),
    _case("a port for UDP too", _ports({"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"})),
    _case("quantities as numbers", _main(resources={"requests": {"cpu": 1}, "limits": {"cpu": "1.5"}})),
    _case("a mounted volume", _template(volumes=[_VOLUME], containers=[MAIN | {"volumeMounts": [_MOUNT]}])),
    _case("memory that may grow", _grows("8Gi", maxMemory="8192Mi")),
    _case("memory in bytes that may grow", _grows(2**30, maxMemory="1.5Gi")),
    _case("a volume without a type", _template(volumes=[{"name": "v"}])),
    _case("an extended resource", _main(resources={"limits": {"nvidia.com/gpu": 1}})),
    _case("a status", JOB.body() | {"status": {"conditions": []}}),
    _case(
        "labels and annotations",
        _metadata(labels={"example.com/a": "B_1"}, annotations={"example.com/a": "any, thing"}),
    ),
    _case("finalizers", _metadata(finalizers=["example.com/keep", "keep"])),
    _case("two documents of JSON", json.dumps(JOB.body()) + "\n" + json.dumps(JOB.named("k").body())),
)
BROKEN_RULES: Final = (  # of the CRD, in CEL
    _case("a name that begins with a digit", JOB.named("1j").body(), "metadata.name"),
    _case("a name that is too long", JOB.named("j" * 55).body(), "metadata.name"),
    _case("no type of replica", _types(), _REPLICAS),
    _case("null for the only type", _types(Worker=None), _REPLICAS),
    _case("an unknown type", _types(Boss=_SPEC), f"{_REPLICAS}.Boss"),
    _case("a type twice", _types(Worker=_SPEC, worker=_SPEC), f"{_REPLICAS}.worker"),
    _case("chief and master", JOB.chief().master().body(), _REPLICAS),
    _case("two chiefs", _types(Chief=_SPEC | {"replicas": 2}), f"{_REPLICAS}.Chief.replicas"),
    _case("no container tensorflow", _template(containers=[SIDE]), f"{_POD}.containers"),
    _case("no image", _template(containers=[{"name": "tensorflow"}]), f"{_POD}.containers"),
    _case(
        "dynamic workers that restart together",
        _spec(enableDynamicWorker=True, runPolicy={"restarts": {"scope": "Job"}}),
        "spec.runPolicy.restarts.scope",
    ),
    _case("a hang without reports", _policy(progressPolicy={"deadlineSeconds": 60}), f"{_PROGRESS}.deadlineSeconds"),
    _case("a restart without a hang", _policy(progressPolicy={"action": "Restart"}), f"{_PROGRESS}.action"),
    _case(
        "one replica in place",
        _policy(restarts={"scope": "Replica", "method": "InPlace"}),
        "spec.runPolicy.restarts.method",
    ),
    _case(
        "in place by rules of its own",
        merge(
            _main(restartPolicy="Never"), {"spec": {"runPolicy": {"restarts": {"scope": "Job", "method": "InPlace"}}}}
        ),
        "spec.runPolicy.restarts.method",
    ),
    _case(
        "a host name in the Service of the job",
        merge(_template(hostname="a"), {"spec": {"serviceMode": "Job"}}),
        "spec.serviceMode",
    ),
    _case(
        "a NetworkPolicy for a host network",
        merge(_template(hostNetwork=True), {"spec": {"networkPolicy": "Job"}}),
        "spec.networkPolicy",
    ),
    _case("less memory than the limit", _grows("8Gi", maxMemory="7.9Gi"), f"{_WORKER}.oomPolicy.maxMemory"),
    _case("an empty image", _main(image=""), f"{_POD}.containers"),
    _case("a sidecar without image", _template(containers=[MAIN, {"name": "side"}]), f"{_POD}.containers"),
    _case(
        "a range whose end is before its beginning",
        _spec(elasticPolicy={"minReplicas": 2, "maxReplicas": 1}),
        "spec.elasticPolicy",
    ),
    _case(
        "a range for no parameter servers",
        _spec(elasticPolicy={"maxReplicas": 99, "parameterServers": {"maxReplicas": 9}}),
        "spec.elasticPolicy.parameterServers",
    ),
)
BAD: Final = (
    *BROKEN_RULES,
    # The schema.
    _case("no spec", {k: v for k, v in JOB.body().items() if k != "spec"}, _REPLICAS, "spec"),
    _case("no types", _spec(tfReplicaSpecs=None), _REPLICAS),
    _case("no template", _types(Worker={"replicas": 1}), f"{_POD}.containers", f"{_WORKER}.template"),
    _case("no containers", _template(containers=None), f"{_POD}.containers"),
    _case("a container without a name", _template(containers=[MAIN, {"image": "i"}]), f"{_POD}.containers[1].name"),
    _case("a negative limit", _policy(backoffLimit=-1), "spec.runPolicy.backoffLimit"),
    _case("no time to start", _policy(startupDeadlineSeconds=0), "spec.runPolicy.startupDeadlineSeconds"),
    _case("another method", _policy(restarts={"method": "Pod"}), "spec.runPolicy.restarts.method"),
    _case("a Service for each type", _spec(serviceMode="Type"), "spec.serviceMode"),
    _case("a NetworkPolicy for each type", _spec(networkPolicy="Type"), "spec.networkPolicy"),
    _case("another scope", _policy(restarts={"scope": "Pod"}), "spec.runPolicy.restarts.scope"),
    _case("nodes that are avoided at once", _policy(avoidNodes={"afterFailures": 0}), f"{_AVOID}.afterFailures"),
    _case("nodes that are avoided too late", _policy(avoidNodes={"afterFailures": 11}), f"{_AVOID}.afterFailures"),
    _case("nodes that are avoided at some time", _policy(avoidNodes={}), f"{_AVOID}.afterFailures"),
    _case(
        "a hang after a moment",
        _policy(progressPolicy={"reports": True, "deadlineSeconds": 59}),
        f"{_PROGRESS}.deadlineSeconds",
    ),
    _case(
        "another action",
        _policy(progressPolicy={"reports": True, "deadlineSeconds": 60, "action": "Stop"}),
        f"{_PROGRESS}.action",
    ),
    _case("too little growth", _grows("1Gi", maxMemory="2Gi", growthPercent=9), f"{_WORKER}.oomPolicy.growthPercent"),
    _case("no maximum of memory", _grows("1Gi"), f"{_WORKER}.oomPolicy.maxMemory"),
    _case("a maximum that is no quantity", _grows("1Gi", maxMemory="much"), f"{_WORKER}.oomPolicy.maxMemory"),
    _case("too many replicas", _worker(replicas=10001), f"{_WORKER}.replicas"),
    _case("beyond int32", _policy(backoffLimit=2**31), "spec.runPolicy.backoffLimit"),
    _case("beyond int64", _policy(activeDeadlineSeconds=2**63), "spec.runPolicy.activeDeadlineSeconds"),
    _case("far beyond int64", _TEXT.replace('"replicas": 5', '"replicas": 1' + 400 * "0"), "line 1, column 193"),
    _case("beyond int32 in the pod", _template(priority=2**31), f"{_POD}.priority"),
    _case("beyond int64 in the pod", _template(activeDeadlineSeconds=10**19), f"{_POD}.activeDeadlineSeconds"),
    _case("a fraction", _worker(replicas=1.5), f"{_WORKER}.replicas"),
    _case("an unknown restart policy", _worker(restartPolicy="Sometimes"), f"{_WORKER}.restartPolicy"),
    _case("an empty clean-up policy", _policy(cleanPodPolicy=""), "spec.runPolicy.cleanPodPolicy"),
    _case("an unknown success policy", _spec(successPolicy="Any"), "spec.successPolicy"),
    _case("an unknown manager", _policy(managedBy="example.com/other"), "spec.runPolicy.managedBy"),
    _case("a list for an object", _template(nodeSelector=["gpu"]), f"{_POD}.nodeSelector"),
    _case(
        "a string for a number",
        _template(tolerations=[{"tolerationSeconds": "60"}]),
        f"{_POD}.tolerations[0].tolerationSeconds",
    ),
    _case("null in a list", _main(args=[None]), f"{_MAIN}.args[0]"),
    _case("a quantity with a fraction", _limits(cpu=0.5), f"{_MAIN}.resources.limits.cpu"),
    _case("no quantity", _limits(cpu="many"), f"{_MAIN}.resources.limits.cpu"),
    _case("a quantity and a line end", _limits(cpu="1\n"), f"{_MAIN}.resources.limits.cpu"),
    _case("a container twice", _template(containers=[MAIN, SIDE, SIDE]), f"{_POD}.containers[2]"),
    _case("an init container twice", _template(initContainers=[SIDE, SIDE]), f"{_POD}.initContainers[1]"),
    _case("a volume twice", _template(volumes=[_VOLUME, _VOLUME]), f"{_POD}.volumes[1]"),
    _case(
        "a mount twice",
        _template(volumes=[_VOLUME], containers=[MAIN | {"volumeMounts": [_MOUNT] * 2}]),
        f"{_MAIN}.volumeMounts[1]",
    ),
    _case(
        "a spread constraint twice",
        _template(topologySpreadConstraints=[_SPREAD, _SPREAD]),
        f"{_POD}.topologySpreadConstraints[1]",
    ),
    _case("an unknown field", _spec(cleanupPolicy="All"), "spec.cleanupPolicy"),
    _case("an unknown field of the pods' metadata", _template({"uid": "u"}), f"{_META}.uid"),
    # The metadata.
    _case("no name", _metadata(name=None), "metadata.name"),
    _case("an unknown field of metadata", _metadata(lables={}), "metadata.lables"),
    _case("a label that is a number", _metadata(labels={"a": 1}), "metadata.labels.a"),
    _case("a label with a bad key", _metadata(labels={"a b": "c"}), "metadata.labels"),
    _case("a label with a bad prefix", _metadata(labels={"A!/b": "c"}), "metadata.labels"),
    _case("a label with a bad value", _metadata(labels={"a": "b c"}), "metadata.labels"),
    _case("a label with a long value", _metadata(labels={"a": 64 * "b"}), "metadata.labels"),
    _case("an annotation with a bad key", _metadata(annotations={"a b": "c"}), "metadata.annotations"),
    _case("too long annotations", _metadata(annotations={"a": 2**18 * "b"}), "metadata.annotations"),
    _case("a finalizer with a space", _metadata(finalizers=["a b"]), "metadata.finalizers"),
    _case(
        "an owner without a UID",
        _metadata(ownerReferences=[{"apiVersion": "v1", "kind": "Pod", "name": "p"}]),
        "metadata.ownerReferences[0].uid",
    ),
    # What the API server accepts in a job, and refuses in its pods.
    _case("a pod label with a bad value", _template({"labels": {"a": "b c"}}), f"{_META}.labels"),
    _case("a pod annotation with a bad key", _template({"annotations": {"a b": "c"}}), f"{_META}.annotations"),
    _case(
        "an init container without image",
        _template(initContainers=[{"name": "side"}]),
        f"{_POD}.initContainers[0].image",
    ),
    _case("an init container like another one", _template(initContainers=[MAIN]), f"{_POD}.initContainers[0]"),
    _case(
        "a container name in capitals",
        _template(containers=[MAIN, SIDE | {"name": "Side"}]),
        f"{_POD}.containers[1].name",
    ),
    _case(
        "a port name twice",
        _ports({"containerPort": 80, "name": "a"}, {"containerPort": 81, "name": "a"}),
        f"{_MAIN}.ports[1]",
    ),
    _case(
        "a host port twice",
        _ports({"containerPort": 80, "hostPort": 80}, {"containerPort": 81, "hostPort": 80}),
        f"{_MAIN}.ports[1]",
    ),
    _case("a volume of two types", _template(volumes=[_VOLUME | {"hostPath": {"path": "/"}}]), f"{_POD}.volumes[0]"),
    _case("an image and a line end", _main(image="i\n"), f"{_MAIN}.image"),
    _case("a negative request", _requests(cpu=-1), f"{_MAIN}.resources.requests.cpu"),
    _case("a request beyond its limit", _requests(cpu="2001m"), f"{_MAIN}.resources.requests.cpu"),
    _case("an unknown resource", _requests(gpu=1), f"{_MAIN}.resources.requests.gpu"),
    _case("an unknown protocol", _ports({"containerPort": 80, "protocol": "tcp"}), f"{_MAIN}.ports[0].protocol"),
    _case("port 0", _ports({"containerPort": 0}), f"{_MAIN}.ports[0].containerPort"),
    _case("port 65536", _ports({"containerPort": 65536}), f"{_MAIN}.ports[0].containerPort"),
    _case("a mount of no volume", _main(volumeMounts=[_MOUNT]), f"{_MAIN}.volumeMounts[0].name"),
)
