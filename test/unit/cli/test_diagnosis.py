"""What ``tfjob doctor`` makes of what an API server says."""

from datetime import UTC, datetime

import pytest

from support.embedded.embedded_jobs import EmbeddedJobs
from tf_operator.cli import diagnosis, main, session, target
from tf_operator.cli.commands import doctor
from tf_operator.client.cluster import ClusterChoice
from tf_operator.dialects import registry
from tf_operator.machinery.clock import SystemClock

API = registry.DEFAULT
NOW = datetime(2026, 1, 1, 10, 0, tzinfo=UTC)


def lease(renewed, holder="op-1"):
    spec = {"renewTime": renewed, "holderIdentity": holder, "leaseDurationSeconds": 15}
    return {"metadata": {"namespace": "tf-operator", "name": "tf-operator"}, "spec": spec}


def deployment(available):
    metadata = {"namespace": "tf-operator", "name": "tf-operator"}
    return {"metadata": metadata, "spec": {"replicas": 2}, "status": {"availableReplicas": available}}


OPERATORS = {
    "it works": ([lease("2026-01-01T09:59:55Z")], [deployment(2)], [True, True], "op-1 leads, and renewed the Lease"),
    "its pods do not run": ([], [deployment(0)], [False], "has 0 of 2 pods available"),
    "its leader is gone": (
        [lease("2026-01-01T09:50:00Z")],
        [],
        [False],
        "no replica leads: the Lease tf-operator/tf-operator",
    ),
    "its leader has left": ([lease("2026-01-01T09:59:59Z", "")], [], [False], "no replica leads"),
    "there is none": ([], [], [False], "no operator is installed"),
}


@pytest.mark.parametrize(("leases", "deployments", "well", "sentence"), OPERATORS.values(), ids=OPERATORS.keys())
def test_an_operator_is_well_that_has_pods_and_a_leader(leases, deployments, well, sentence):
    findings = list(diagnosis.of_operator(leases, deployments, NOW))

    assert [finding.is_well for finding in findings] == well
    assert sentence in "".join(map(str, findings))
    assert all(finding.is_well or finding.step for finding in findings)


def test_a_crd_that_lacks_fields_of_this_release_is_found():
    crd = API.crd.load()
    assert diagnosis.of_crd(API, crd).is_well
    policy = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["runPolicy"]
    policy["properties"]["more"] = {"type": "string"}
    assert diagnosis.of_crd(API, crd).is_well

    del policy["properties"]["startupDeadlineSeconds"]
    assert "it lacks spec.runPolicy.startupDeadlineSeconds" in str(diagnosis.of_crd(API, crd))
    crd["spec"]["versions"][0]["served"] = False
    assert "does not serve v1" in str(diagnosis.of_crd(API, crd))
    assert diagnosis.of_crd(API, crd, is_local=True).step.endswith("tfjob local down, then tfjob local up")


@pytest.mark.parametrize(
    ("by_operator", "by_kueue", "is_well", "sentence"),
    [
        (
            True,
            True,
            False,
            "Kueue's own code for TFJobs is on, and the operator runs with --kueue=external\n     -> take",
        ),
        (True, False, True, "jobs wait in queues of Kueue, by the operator"),
        (False, True, True, "jobs wait in queues of Kueue, by its own code for TFJobs"),
        (
            False,
            False,
            None,
            "jobs do not wait in queues of Kueue, even if they name one\n     -> to let them wait",
        ),
    ],
)
def test_exactly_one_lets_jobs_wait_in_queues(by_operator, by_kueue, is_well, sentence):
    finding = diagnosis.of_queues(by_operator=by_operator, by_kueue=by_kueue)

    assert (finding.is_well, sentence in str(finding)) == (is_well, True)


def test_permissions_that_are_missing_are_named():
    permissions = diagnosis.permissions(API)
    assert diagnosis.of_permissions([], "team").is_well
    finding = diagnosis.of_permissions(
        [permission for permission in permissions if permission.verb in {"create", "get"}], "team"
    )
    assert "you lack permissions in namespace team: create tfjobs, get pods/log\n     -> ask an administrator" in str(
        finding
    )


def test_doctor_says_what_is_missing_and_fails(monkeypatch, capsys):
    cluster = EmbeddedJobs(SystemClock())
    monkeypatch.setattr(session, "make_jobs", lambda *_: cluster.client())
    monkeypatch.setattr(target, "choose", lambda _: ClusterChoice(None, None, "the cluster of a test"))
    monkeypatch.setattr(doctor.discovery, "release", version)

    assert main.main(["doctor"]) == 1
    output = capsys.readouterr().out.splitlines()
    assert [line[:4].strip() for line in output] == ["ok", "FAIL", "", "FAIL", "", "ok"]
    assert output[-1] == "ok   you have all permissions that tfjob needs in namespace default"


def test_the_operator_of_a_local_server_counts(monkeypatch, capsys):
    cluster = EmbeddedJobs(SystemClock())
    monkeypatch.setattr(session, "make_jobs", lambda *_: cluster.client())
    monkeypatch.setattr(doctor.cluster, "is_local", lambda _, address: address == "in-process")
    monkeypatch.setattr(target, "choose", lambda _: ClusterChoice(None, None, "the kubeconfig k (KUBECONFIG)"))
    monkeypatch.setattr(doctor.discovery, "release", version)

    main.main(["doctor"])
    assert "ok   the operator is part of this server\n" in capsys.readouterr().out


async def version(_):
    return {"gitVersion": "v1.36.0"}
