"""The built-in kinds: what they fill in, what they refuse, what they show."""

import copy
from collections.abc import Mapping
from contextlib import nullcontext
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from support.fake_clock import FakeClock
from support.toys.toy_kinds import call
from tf_operator.local.apiserver.built_in import catalog
from tf_operator.local.apiserver.messages import ApiFailure, Response
from tf_operator.local.apiserver.server import ApiServer
from tf_operator.machinery.transport.requests import Request

NOW = datetime(2026, 1, 1, tzinfo=UTC)
KINDS = {str(kind.resource): kind for kind in catalog.KINDS}
Json = dict[str, Any]


def _created(resource: str, body: Json, stored: Json | None = None) -> Json:
    kind, body = KINDS[resource], copy.deepcopy(body)
    body["metadata"] = {"name": "x", "uid": "u-1", "namespace": "n"} | body.get("metadata", {})
    assert kind.prepare is not None
    return kind.prepare(body, stored, NOW)


def _causes(resource: str, body: Json, stored: Json | None = None) -> set[str]:
    validate = KINDS[resource].validate
    assert validate is not None
    return set(map(str, validate(_created(resource, body, stored), stored)))


def _pod(container: Mapping[str, object] | None = None, **spec: object) -> Json:
    main = {"name": "main", "image": "i"} | dict(container or {})
    return {"spec": {"containers": [main]} | spec}


def test_a_pod_has_the_defaults_of_the_real_server() -> None:
    tolerations = [
        {"key": f"node.kubernetes.io/{taint}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        for taint in ("not-ready", "unreachable")
    ]
    created = _created("pods", _pod({"ports": [{"containerPort": 80}], "readinessProbe": {"httpGet": {"port": 80}}}))
    assert created["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    assert created["spec"] == {
        "containers": [
            {
                "name": "main",
                "image": "i",
                "imagePullPolicy": "Always",
                "ports": [{"containerPort": 80, "protocol": "TCP"}],
                "readinessProbe": {
                    "httpGet": {"port": 80, "path": "/", "scheme": "HTTP"},
                    "timeoutSeconds": 1,
                    "periodSeconds": 10,
                    "successThreshold": 1,
                    "failureThreshold": 3,
                },
                "resources": {},
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
            }
        ],
        "dnsPolicy": "ClusterFirst",
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
        "priority": 0,
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "serviceAccount": "default",
        "serviceAccountName": "default",
        "terminationGracePeriodSeconds": 30,
        "tolerations": tolerations,
    }


@pytest.mark.parametrize(
    ("image", "policy"),
    [("a/b:latest", "Always"), ("r:5000/b", "Always"), ("r:5000/b:1", "IfNotPresent"), ("b@sha256:0", "IfNotPresent")],
)
def test_an_image_is_pulled_always_if_its_tag_is_latest(image: str, policy: str) -> None:
    assert _created("pods", _pod({"image": image}))["spec"]["containers"][0]["imagePullPolicy"] == policy


@pytest.mark.parametrize(
    ("resources", "qos"),
    [
        ({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
        ({"limits": {"cpu": "1"}}, "Burstable"),
        ({"requests": {"cpu": "0"}}, "BestEffort"),
    ],
)
def test_a_pod_has_the_class_of_its_resources(resources: Json, qos: str) -> None:
    assert _created("pods", _pod({"resources": resources}))["status"]["qosClass"] == qos


_LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end"
    " with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is"
    " '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_MAIN = "spec.containers[0]"


@pytest.mark.parametrize(
    ("pod", "causes"),
    [
        (_pod(), set()),
        ({"spec": {}}, {"spec.containers: Required value"}),
        (_pod({"name": "Main"}), {f'{_MAIN}.name: Invalid value: "Main": {_LABEL_RULE}'}),
        (_pod({"image": ""}), {f"{_MAIN}.image: Required value"}),
        (_pod(initContainers=[{"name": "main", "image": "i"}]), {
            'spec.initContainers[0].name: Duplicate value: "main"'}),
        (_pod({"ports": [{"containerPort": 65536}]}), {
            f"{_MAIN}.ports[0].containerPort: Invalid value: 65536: must be between 1 and 65535, inclusive"}),
        (_pod({"ports": [{"containerPort": 80, "protocol": "tcp"}]}), {
            f'{_MAIN}.ports[0].protocol: Unsupported value: "tcp": supported values: "SCTP", "TCP", "UDP"'}),
        (_pod({"ports": [{"containerPort": 1, "hostPort": 8}, {"containerPort": 2, "hostPort": 8}]}), {
            f'{_MAIN}.ports[1].hostPort: Duplicate value: "TCP//8"'}),
        (_pod({"env": [{"name": "A", "valueFrom": {}}]}), {
            (f'{_MAIN}.env[0].valueFrom: Invalid value: "": must specify one of: `fieldRef`, `resourceFieldRef`,'
            " `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`")}),
        (_pod({"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.x"}}}]}), {
            (f'{_MAIN}.env[0].valueFrom.fieldRef.fieldPath: Invalid value: "spec.x": error converting fieldPath:'
            " field label not supported: spec.x")}),
        (_pod({"volumeMounts": [{"name": "v", "mountPath": "/v"}]}), {
            f'{_MAIN}.volumeMounts[0].name: Not found: "v"'}),
        (_pod(volumes=[{"name": "v", "emptyDir": {}, "hostPath": {"path": "/"}}]), {
            "spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type"}),
        (_pod({"resources": {"requests": {"cpu": 3}, "limits": {"cpu": 2}}}), {
            f'{_MAIN}.resources.requests: Invalid value: "3": must be less than or equal to cpu limit of 2'}),
        (_pod(restartPolicy="Sometimes"), {
            'spec.restartPolicy: Unsupported value: "Sometimes": supported values: "Always", "OnFailure", "Never"'}),
    ],
)  # fmt: skip
def test_a_pod_is_refused_in_the_words_of_the_real_server(pod: Json, causes: set[str]) -> None:
    assert _causes("pods", pod) == causes


@pytest.mark.parametrize(
    ("change", "is_allowed"),
    [
        ({"activeDeadlineSeconds": 5}, True),
        ({"containers": [{"name": "main", "image": "j:1", "imagePullPolicy": "Always"}]}, True),
        ({"nodeSelector": {"a": "b"}}, False),
        ({"tolerations": [{"operator": "Exists"}]}, False),
    ],
)
def test_little_can_change_in_a_pod(change: Json, is_allowed: bool) -> None:
    stored = _created("pods", _pod())
    assert (not _causes("pods", {"spec": stored["spec"] | change}, stored)) is is_allowed


@pytest.mark.parametrize(
    ("spec", "phase", "period", "seconds"),
    [({}, "Pending", 9, 0), ({"nodeName": "k"}, "Running", None, 30), ({"nodeName": "k"}, "Failed", 9, 0),
     ({"nodeName": "k"}, "Running", 0, 0), ({"nodeName": "k"}, "Running", -1, 1)],
)  # fmt: skip
def test_a_pod_stays_for_its_grace_period_while_it_runs(
    spec: Json, phase: str, period: int | None, seconds: int
) -> None:
    grace = KINDS["pods"].grace_seconds
    assert grace is not None
    assert grace({"spec": spec | {"terminationGracePeriodSeconds": 30}, "status": {"phase": phase}}, period) == seconds


def test_a_binding_gives_a_pod_a_node_once() -> None:
    bind = KINDS["pods"].actions["binding"]
    bound = bind(_created("pods", _pod()), {"target": {"name": "k"}}, NOW)
    assert bound["spec"]["nodeName"] == "k"
    assert [(c["type"], c["status"]) for c in bound["status"]["conditions"]] == [("PodScheduled", "True")]
    with pytest.raises(ApiFailure, match='pod x is already assigned to node "k"'):
        bind(bound, {"target": {"name": "l"}}, NOW)


@pytest.mark.parametrize(
    ("hard", "message"),
    [
        ({"pods": "2"}, ""),
        ({"pods": 1}, "exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1"),
        ({"count/pods": "1", "requests.cpu": "3"},
         ("exceeded quota: q, requested: count/pods=1,requests.cpu=2, used: count/pods=1,requests.cpu=2,"
         " limited: count/pods=1,requests.cpu=3")),
        ({"limits.memory": "1Gi"}, "failed quota: q: must specify limits.memory for: main"),
    ],
)  # fmt: skip
def test_a_quota_limits_the_pods_of_its_namespace(hard: Json, message: str) -> None:
    pod = _created("pods", _pod({"resources": {"requests": {"cpu": "2"}}}))
    ended = pod | {"status": {"phase": "Failed"}}
    stored = {"resourcequotas": [{"metadata": {"name": "q"}, "spec": {"hard": hard}}], "pods": [pod, ended]}
    admit = KINDS["pods"].admit
    assert admit is not None
    with pytest.raises(ApiFailure) if message else nullcontext() as failure:
        admit(pod, lambda resource, _: stored[resource])
    assert failure is None or str(failure.value) == f'pods "x" is forbidden: {message}'


def test_the_status_of_a_quota_follows_what_is_in_its_namespace() -> None:
    server = ApiServer(FakeClock(), kinds=catalog.KINDS)
    path = "/api/v1/namespaces/n"
    call(server, "POST", "/api/v1/namespaces", {"metadata": {"name": "n"}})
    hard = {"pods": "9", "count/configmaps": "9", "secrets": "9", "requests.cpu": "9", "count/none": "9"}
    call(server, "POST", f"{path}/resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": hard}})
    for used in ("0", "1", "0"):
        while server.collect():
            pass
        expected = dict.fromkeys(hard, "0") | {"count/configmaps": used, "secrets": used}
        assert call(server, "GET", f"{path}/resourcequotas/q")[1]["status"] == {"hard": hard, "used": expected}
        for kind in ("configmaps", "secrets"):
            if call(server, "POST", f"{path}/{kind}", {"metadata": {"name": "a"}})[0] == 409:
                call(server, "DELETE", f"{path}/{kind}/a")


STORED = [
    ("v1", "endpoints", "Endpoints"),
    ("v1", "persistentvolumes", "PersistentVolume"),
    ("v1", "replicationcontrollers", "ReplicationController"),
    ("apps/v1", "daemonsets", "DaemonSet"),
    ("apps/v1", "replicasets", "ReplicaSet"),
    ("apps/v1", "statefulsets", "StatefulSet"),
    ("autoscaling/v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler"),
    ("batch/v1", "cronjobs", "CronJob"),
    ("batch/v1", "jobs", "Job"),
    ("discovery.k8s.io/v1", "endpointslices", "EndpointSlice"),
    ("networking.k8s.io/v1", "ingresses", "Ingress"),
    ("networking.k8s.io/v1", "networkpolicies", "NetworkPolicy"),
    ("rbac.authorization.k8s.io/v1", "roles", "Role"),
    ("rbac.authorization.k8s.io/v1", "rolebindings", "RoleBinding"),
    ("rbac.authorization.k8s.io/v1", "clusterroles", "ClusterRole"),
    ("rbac.authorization.k8s.io/v1", "clusterrolebindings", "ClusterRoleBinding"),
    ("admissionregistration.k8s.io/v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration"),
    ("admissionregistration.k8s.io/v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration"),
]


@pytest.mark.parametrize(("version", "plural", "kind"), STORED)
def test_a_kind_that_nothing_acts_on_is_stored_with_a_warning(version: str, plural: str, kind: str) -> None:
    server = ApiServer(FakeClock(), kinds=catalog.KINDS)
    call(server, "POST", "/api/v1/namespaces", {"metadata": {"name": "n"}})
    built_in = server.registry.of_kind(version, kind)
    assert built_in is not None
    place = "/namespaces/n" if built_in.resource.is_namespaced else ""
    path = f"/{'apis' if '/' in version else 'api'}/{version}{place}/{plural}"
    body = {"apiVersion": version, "kind": kind, "metadata": {"name": "a", "labels": {"l": "v"}}}

    answer = server.handle(Request("", "POST", path, {}, msgspec.json.encode(body)))

    assert isinstance(answer, Response)
    assert answer.code == 201
    assert answer.headers["Warning"].count(f"{kind} objects") == 1
    merge = {"content_type": "application/merge-patch+json"}
    assert call(server, "PATCH", f"{path}/a", {"metadata": {"labels": {"l": "w"}}}, **merge)[0] == 200
    assert [item["metadata"]["labels"] for item in call(server, "GET", path)[1]["items"]] == [{"l": "w"}]
    assert call(server, "DELETE", f"{path}/a")[0] == 200


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet"])
def test_what_has_replicas_is_scaled(kind: str) -> None:
    server = ApiServer(FakeClock(), kinds=catalog.KINDS)
    call(server, "POST", "/api/v1/namespaces", {"metadata": {"name": "n"}})
    path = f"/apis/apps/v1/namespaces/n/{kind.lower()}s"
    selector = {"matchLabels": {"b": "c"}, "matchExpressions": [{"key": "a", "operator": "In", "values": ["y", "x"]}]}
    template = {"metadata": {"labels": {"a": "x", "b": "c"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 2, "selector": selector, "template": template}
    body = {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "a"}, "spec": spec}
    assert call(server, "POST", path, body)[0] == 201
    scale = call(server, "GET", f"{path}/a/scale")[1]
    assert (scale["spec"], scale["status"]) == ({"replicas": 2}, {"replicas": 0, "selector": "a in (x,y),b=c"})
    assert call(server, "PUT", f"{path}/a/scale", scale | {"spec": {"replicas": 3}})[0] == 200
    assert call(server, "GET", f"{path}/a")[1]["spec"]["replicas"] == 3


def test_a_template_has_no_requests_of_its_own() -> None:
    limited = {"containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "1"}}}]}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": limited}}
    template = _created("deployments.apps", {"spec": spec})["spec"]["template"]["spec"]
    assert "enableServiceLinks" not in template
    assert template["containers"][0]["resources"] == {"limits": {"cpu": "1"}}
    pod = _created("pods", {"spec": limited})["spec"]
    assert (pod["enableServiceLinks"], pod["containers"][0]["resources"]["requests"]) == (True, {"cpu": "1"})


def test_a_node_has_its_information_even_if_nobody_gives_it() -> None:
    status = _created("nodes", {"status": {"nodeInfo": {"architecture": "arm64"}}})["status"]
    assert status["nodeInfo"] | {"architecture": ""} == dict.fromkeys(status["nodeInfo"], "")
    assert (len(status["nodeInfo"]), status["nodeInfo"]["architecture"]) == (10, "arm64")
    assert status["daemonEndpoints"] == {"kubeletEndpoint": {"Port": 0}}


def test_a_role_may_have_a_name_with_colons() -> None:
    assert _causes("clusterroles.rbac.authorization.k8s.io", {"metadata": {"name": "system:a"}}) == set()
    assert _causes("clusterroles.rbac.authorization.k8s.io", {"metadata": {"name": "a/b"}}) == {
        "metadata.name: Invalid value: \"a/b\": may not contain '/'"
    }


def test_a_service_gets_an_address_that_is_free() -> None:
    admit = KINDS["services"].admit
    assert admit is not None
    stored: list[Json] = []
    for _ in range(3):
        service = _created("services", {"spec": {"ports": [{"port": 80}], "type": "NodePort"}})
        admit(service, lambda *_: stored)
        stored.append(service)
    assert len({service["spec"]["clusterIP"] for service in stored}) == 3
    assert [service["spec"]["ports"][0]["nodePort"] for service in stored] == [30000, 30001, 30002]
    assert stored[0]["spec"]["ports"][0] == {"port": 80, "protocol": "TCP", "targetPort": 80, "nodePort": 30000}


def test_a_headless_service_is_created_without_a_look_at_all_others() -> None:
    """Jobs have one for each replica."""
    admit = KINDS["services"].admit
    assert admit is not None
    service = _created("services", {"spec": {"clusterIP": "None"}})

    admit(service, lambda *_: pytest.fail("it looks at others"))

    assert service["spec"]["clusterIPs"] == ["None"]


@pytest.mark.parametrize(
    ("resource", "body", "causes"),
    [
        ("services", {"spec": {"clusterIP": "None"}}, set()),
        ("services", {"spec": {}}, {"spec.ports: Required value"}),
        ("services", {"spec": {"ports": [{"port": 1}, {"port": 1, "name": "b"}]}}, {
            "spec.ports[0].name: Required value",
            'spec.ports[1]: Duplicate value: {"protocol":"TCP","port":1}'}),
        ("configmaps", {"data": {"..a": ""}}, {"data[..a]: Invalid value: \"..a\": must not start with '..'"}),
        ("persistentvolumeclaims", {"spec": {}}, {
            "spec.accessModes: Required value: at least 1 access mode is required",
            "spec.resources[storage]: Required value"}),
        ("leases.coordination.k8s.io", {"spec": {"leaseDurationSeconds": 0}}, {
            "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0"}),
        ("events", {"involvedObject": {"namespace": "m"}}, {
            'involvedObject.namespace: Invalid value: "m": does not match event.namespace'}),
        ("pods", _pod() | {"metadata": {"finalizers": ["keep"]}}, {
            ('metadata.finalizers[0]: Invalid value: "keep": name is neither a standard finalizer name nor is it fully'
            " qualified")}),
    ],
)  # fmt: skip
def test_other_kinds_are_refused_in_the_words_of_the_real_server(resource: str, body: Json, causes: set[str]) -> None:
    assert _causes(resource, body) == causes


def test_what_is_immutable_stays() -> None:
    stored = _created("configmaps", {"data": {"a": "b"}, "immutable": True})
    rule = "Forbidden: field is immutable when `immutable` is set"
    assert _causes("configmaps", {"data": {"a": "c"}}, stored) == {f"immutable: {rule}", f"data: {rule}"}


def test_the_texts_of_a_secret_are_encoded() -> None:
    assert _created("secrets", {"stringData": {"a": "b"}})["data"] == {"a": "Yg=="}
    with pytest.raises(ApiFailure, match="illegal base64 data"):
        _created("secrets", {"data": {"a": "?"}})


@pytest.mark.parametrize(("resource", "field"), [("secrets", "data"), ("configmaps", "binaryData")])
def test_bytes_are_never_a_number(resource: str, field: str) -> None:
    with pytest.raises(
        ApiFailure, match=rf"cannot unmarshal number into Go struct field \w+\.{field} of type \[\]uint8"
    ):
        _created(resource, {field: {"a": -1}})


def test_an_event_has_two_faces() -> None:
    core = _created("events", {"apiVersion": "v1", "involvedObject": {"kind": "Pod"}, "message": "m", "count": 2})
    convert = KINDS["events.events.k8s.io"].convert
    assert convert is not None
    newer = convert(core, "events.k8s.io/v1")
    assert (newer["regarding"], newer["note"], newer["deprecatedCount"]) == ({"kind": "Pod"}, "m", 2)
    assert convert(newer, "v1") == core


def test_a_namespace_is_active_until_it_is_deleted() -> None:
    created, kind = _created("namespaces", {}), KINDS["namespaces"]
    assert (created["spec"], created["status"]) == ({"finalizers": ["kubernetes"]}, {"phase": "Active"})
    assert created["metadata"]["labels"] == {"kubernetes.io/metadata.name": "x"}
    assert kind.on_delete is not None
    kind.on_delete(created)
    assert created["status"] == {"phase": "Terminating"}
    assert kind.changes["finalize"](created, {"spec": {}}, NOW)["spec"] == {}
    with pytest.raises(ApiFailure, match="this namespace may not be deleted"):
        kind.on_delete({"metadata": {"name": "default"}})


@pytest.mark.parametrize(
    "metadata", [{"labels": {"a": 1}}, {"annotations": []}, {"finalizers": [1]}, {"ownerReferences": [{"uid": 1}]}]
)
def test_metadata_of_the_wrong_type_cannot_be_decoded(metadata: Json) -> None:
    with pytest.raises(ApiFailure, match="cannot unmarshal") as failure:
        _created("configmaps", {"metadata": metadata})
    assert failure.value.code == 400


def test_the_fields_of_a_pod_can_be_selected() -> None:
    pod = _created("pods", _pod(nodeName="k"))
    read = {name: select(pod) for name, select in KINDS["pods"].fields.items()}
    assert read["spec.nodeName"] == "k"
    assert read["status.phase"] == "Pending"
    assert read["spec.hostNetwork"] == "false"


@pytest.mark.parametrize(
    ("resource", "body", "message"),
    [
        ("pods", {"spec": {"containers": "x"}}, (
            'Pod in version "v1" cannot be handled as a Pod: json: cannot unmarshal string into Go struct field'
            " PodSpec.spec.containers of type []v1.Container")),
        ("pods", _pod({"image": 1}), (
            "json: cannot unmarshal number into Go struct field Container.spec.containers.image of type string")),
        ("pods", {"spec": 1}, "json: cannot unmarshal number into Go struct field PodSpec.spec of type v1.PodSpec"),
        ("services", {"spec": {"selector": []}}, (
            "json: cannot unmarshal array into Go struct field ServiceSpec.spec.selector of type map[string]string")),
        ("services", {"spec": {"ports": [{"port": 1, "targetPort": []}]}}, (
            "json: cannot unmarshal array into Go struct field ServicePort.spec.ports.targetPort of type int32")),
        ("services", {"spec": {"ports": [{"port": 1, "targetPort": 2**40}]}}, (
            "number 1099511627776 into Go struct field ServicePort.spec.ports.targetPort of type int32")),
        ("pods", _pod(priority=2**31), (
            "json: cannot unmarshal number 2147483648 into Go struct field PodSpec.spec.priority of type int32")),
        ("configmaps", {"data": {"a": True}}, "cannot unmarshal bool into Go struct field ConfigMap.data"),
    ],
)  # fmt: skip
def test_a_field_of_the_wrong_type_cannot_be_decoded(resource: str, body: Json, message: str) -> None:
    with pytest.raises(ApiFailure) as failure:
        _created(resource, body)
    assert failure.value.code == 400
    assert message in str(failure.value)


def test_what_is_unknown_or_empty_is_dropped() -> None:
    pod = _pod({"args": [], "x": 1, "env": [{"name": "A", "value": ""}]}, nodeSelector={}, volumes=None, y=2)
    pod["spec"]["containers"][0]["resources"] = {"limits": {"cpu": 0.5, "memory": "1Gi", "nvidia.com/gpu": 1}}
    unknown = KINDS["pods"].unknown_fields
    assert unknown is not None
    texts = ['unknown field "spec.containers[0].x"', 'unknown field "spec.y"', 'unknown field "metadata.z"']
    assert list(unknown(pod | {"metadata": {"z": 1}})) == texts
    created = _created("pods", pod)["spec"]
    assert {"nodeSelector", "volumes", "y"}.isdisjoint(created)
    assert {"args", "x"}.isdisjoint(created["containers"][0])
    assert created["containers"][0]["env"] == [{"name": "A"}]
    limits = {"cpu": "500m", "memory": "1Gi", "nvidia.com/gpu": "1"}
    assert created["containers"][0]["resources"] == {"limits": limits, "requests": limits}
    assert _created("persistentvolumeclaims", {"spec": {"storageClassName": ""}})["spec"]["storageClassName"] == ""
