"""Each invariant, held against a history that breaks it, and against one that does not."""

import pytest

from support import invariants
from support.audit import Request, Requests
from support.history import History, Revision
from support.jobs import builders
from support.registry_keys import Place

NS = "team"


class Tale:
    """A history that a test writes, one revision after the other."""

    def __init__(self):
        self.revisions = []
        self.job = builders.tfjob("j").workers(2, restart="ExitCode").body()
        self.job["metadata"] |= {"uid": "u", "generation": 1}
        self._store("kubeflow.org", "tfjobs", self.job)

    def status(self, *states, **fields):
        conditions = [
            {"type": state.strip("!"), "status": str(not state.startswith("!")), "lastUpdateTime": f"t{index}"}
            for index, state in enumerate(states)
        ]
        self.job = {**self.job, "status": {"conditions": conditions, **fields}}
        self._store("kubeflow.org", "tfjobs", self.job)
        return self

    def edited(self, **spec):
        metadata = {**self.job["metadata"], "generation": self.job["metadata"]["generation"] + 1}
        self.job = {**self.job, "metadata": metadata, "spec": {**self.job["spec"], **spec}}
        self._store("kubeflow.org", "tfjobs", self.job)
        return self

    def pod(self, uid, index=0, phase="Running", config="", **metadata):
        body = builders.child_pod(self.job, "Worker", index).body()
        body["metadata"] |= {"uid": uid, **metadata}
        body["status"] = {"phase": phase}
        if config:
            body["spec"]["containers"][0]["env"] = [{"name": "TF_CONFIG", "value": config}]
        self._store("", "pods", body)
        return self

    def gone(self, plural, name):
        old = self._last(plural, name)
        self._add(old.place, None, old.body)
        return self

    def service(self, name="j-worker-0"):
        self._store(
            "", "services", builders.service(name).owned_by(self.job).merged({"metadata": {"uid": name}}).body()
        )
        return self

    def broken(self, *requests, waived=()):
        """What is found, by the names of the invariants."""
        sent = Requests(tuple(Request(*fields, 200, "op", "", "") for fields in requests))
        try:
            invariants.check(History(tuple(self.revisions)), sent, namespaces=[NS], waived=waived)
        except AssertionError as failure:
            return {line.partition(":")[0] for line in str(failure).splitlines()}
        return set()

    def _store(self, group, plural, body):
        place = Place(group, plural, NS, body["metadata"]["name"])
        old = self._last(plural, place.name)
        self._add(place, body, old.body if old else None)

    def _last(self, plural, name):
        entries = [entry for entry in self.revisions if (entry.place.plural, entry.place.name) == (plural, name)]
        return entries[-1] if entries else None

    def _add(self, place, body, previous):
        change = "delete" if body is None else "update" if previous else "create"
        self.revisions.append(Revision(len(self.revisions) + 1, place, change, body, previous))


BREAKING = (
    ("one live pod", lambda tale: tale.pod("a").pod("b", name="other")),
    ("pods of the spec", lambda tale: tale.pod("a", index=7)),
    ("success is final", lambda tale: tale.pod("a", phase="Succeeded").gone("pods", "j-worker-0").pod("b")),
    ("success is final", lambda tale: ended_well_and_then_suspended(tale).gone("pods", "j-worker-0").pod("b")),
    (
        "success is final",
        lambda tale: ended_well_and_then_suspended(tale, deletionTimestamp="t").gone("pods", "j-worker-0").pod("b"),
    ),
    (
        "success is final",
        lambda tale: tale.pod("a", phase="Succeeded").status("Created", attempt=2).gone("pods", "j-worker-0").pod("b"),
    ),
    ("ends are final", lambda tale: tale.status("Created", "Failed").service()),
    ("ends are final", lambda tale: tale.status("Succeeded", "Failed")),
    ("ends are final", lambda tale: tale.status("Failed").status("Created")),
    ("ends are final", lambda tale: tale.status("Failed", completionTime="a").status("Failed", completionTime="b")),
    ("restarts", lambda tale: tale.pod("a", phase="Failed").gone("pods", "j-worker-0").pod("b")),
    ("restarts", lambda tale: tale.status("Created", disruptions=2).status("Created", disruptions=1)),
    ("status of others", lambda tale: tale.status("Created", "Foreign").status("Created")),
    ("conditions", lambda tale: tale.status("Created", "Failed").status("Created", "Failed", "Running")),
    ("one cluster", lambda tale: tale.pod("a", config='{"cluster": 1}').pod("b", index=1, config='{"cluster": 2}')),
    ("nothing outlives the job", lambda tale: tale.service().gone("tfjobs", "j")),
    ("nothing outlives the job", lambda tale: tale.pod("a", finalizers=["kubeflow.org/tfjob"])),
    ("counts", lambda tale: tale.pod("a").status("Created", replicaStatuses={"Worker": {"active": 2}})),
)


def ended_well_and_then_suspended(tale, **metadata):
    return tale.pod("a").pod("a", phase="Succeeded", **metadata).status("Created", "Suspended")


@pytest.mark.parametrize(("name", "tell"), BREAKING)
def test_an_invariant_notices_what_breaks_it(name, tell):
    assert name in tell(Tale()).broken()


def test_a_life_in_order_breaks_nothing():
    tale = Tale().status("Created").service().pod("a", phase="Pending").pod("a")
    tale.status("Created", "Running", replicaStatuses={"Worker": {"active": 1}})
    assert tale.broken() == set()


@pytest.mark.parametrize(
    "tale",
    [Tale().pod("a").status("Created", "Suspended"), Tale().edited(enableDynamicWorker=True).pod("a")],
    ids=["its job was suspended", "it is a dynamic worker"],
)
def test_a_pod_that_ended_well_because_it_was_deleted_may_run_again(tale):
    tale.pod("a", deletionTimestamp="t").pod("a", phase="Succeeded", deletionTimestamp="t")
    assert "success is final" not in tale.gone("pods", "j-worker-0").pod("b").broken()


def test_a_pod_that_ended_well_when_its_job_had_begun_to_start_again_may_run_again():
    tale = Tale().pod("a").status("Created", "Restarting", attempt=2).pod("a", phase="Succeeded")
    assert "success is final" not in tale.gone("pods", "j-worker-0").pod("b").broken()


@pytest.mark.parametrize(
    "loss", [{"phase": "Failed"}, {"deletionTimestamp": "t"}, None], ids=["failed", "deleted", "gone"]
)
def test_a_pod_that_ended_well_after_another_was_lost_may_run_again_with_the_whole_job(loss):
    tale = Tale().pod("a").pod("x", name="j-worker-1", index=1)
    tale = tale.pod("x", name="j-worker-1", index=1, **loss) if loss else tale.gone("pods", "j-worker-1")
    tale.pod("a", phase="Succeeded").status("Created", "Restarting", attempt=2)
    assert "success is final" not in tale.gone("pods", "j-worker-0").pod("b").broken()


def test_a_pod_that_ended_well_after_the_loss_that_ends_a_later_run_may_run_again():
    tale = Tale().pod("x", name="j-worker-1", index=1, phase="Failed").status("Created", "Restarting", attempt=2)
    tale.pod("a").pod("y", name="j-worker-1", index=1, phase="Failed").pod("a", phase="Succeeded")
    tale.status("Created", "Restarting", attempt=3)
    assert "success is final" not in tale.gone("pods", "j-worker-0").pod("b").broken()


SUSPENDED = {"runPolicy": {"suspend": True}}


@pytest.mark.parametrize(
    "tale",
    [
        Tale().pod("a").edited(**SUSPENDED).pod("a", phase="Succeeded"),
        Tale().pod("a").pod("a", phase="Succeeded").edited(**SUSPENDED),
    ],
    ids=["after the edit", "just before it"],
)
def test_a_pod_that_ended_well_when_its_job_was_to_be_suspended_may_run_again(tale):
    assert "success is final" not in tale.status("Suspended").gone("pods", "j-worker-0").pod("b").broken()


def test_a_pod_that_ended_well_before_its_job_was_suspended_and_was_counted_must_not_run_again():
    tale = Tale().pod("a").pod("a", phase="Succeeded").edited(**SUSPENDED)
    tale.status("Suspended", replicaStatuses={"Worker": {"succeeded": 1}})
    assert "success is final" in tale.gone("pods", "j-worker-0").pod("b").broken()


def test_a_pod_that_ended_well_may_be_made_again_when_its_job_is_deleted():
    tale = Tale().pod("a", phase="Succeeded").gone("tfjobs", "j").gone("pods", "j-worker-0")
    assert "success is final" not in tale.pod("b").gone("pods", "j-worker-0").broken()


def test_what_is_nobodys_must_not_be_deleted():
    assert "only own objects" in Tale().broken(("delete", "pods", NS, "other-pod"))


def test_nothing_is_deleted_twice():
    tale = Tale().pod("a", phase="Pending")
    assert "one delete" not in tale.broken(("delete", "pods", NS, "j-worker-0"))
    assert "one delete" in tale.broken(*[("delete", "pods", NS, "j-worker-0")] * 2)


def test_what_a_module_waives_is_not_held_up():
    assert Tale().pod("a", index=7, phase="Pending").broken(waived={"pods of the spec"}) == set()


def test_pods_that_a_test_made_are_left_out():
    managed = [{"manager": "test-admin"}]
    assert Tale().pod("a", index=7, phase="Pending", managedFields=managed).broken() == set()


def test_more_workers_may_have_been_wanted_a_moment_ago():
    fewer = builders.tfjob("j").workers(1).body()["spec"]["tfReplicaSpecs"]
    tale = Tale().edited(tfReplicaSpecs=fewer).pod("a", index=1, phase="Pending")
    assert tale.broken() == set()
