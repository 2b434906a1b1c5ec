"""The controller of TensorBoards without a server: who asks, who is reconciled, and what a refusal leads to."""

import json
from contextlib import nullcontext
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
from structlog.testing import capture_logs

from support.fake_clock import FakeClock
from tf_operator.controller.caches import OWNER, owner_of
from tf_operator.controller.result import DONE
from tf_operator.controller.tensorboards.reconciler import TensorBoardReconciler
from tf_operator.controller.tensorboards.sources import (
    Asking,
    OnSource,
    OnTensorBoardChild,
    TensorBoardObjects,
    TensorBoardsOfJobs,
)
from tf_operator.dialects.mlkube.v1beta1 import API
from tf_operator.machinery.cache.store import Store
from tf_operator.machinery.queue.workqueue import RateLimitedQueue
from tf_operator.machinery.ratelimit import ExponentialBackoff
from tf_operator.machinery.transport import errors
from tf_operator.meta import ObjectKey
from tf_operator.planning.child_kinds.tensorboard import KIND
from tf_operator.planning.tensorboards import TensorBoardPlan
from tf_operator.projections.extras import extra_reader
from tf_operator.projections.jobs import job_reader
from tf_operator.projections.tensorboards import read_child

KEY = ObjectKey("team", "t")
POD = {"spec": {"containers": [{"name": "tensorflow", "image": "i"}]}}
TRAINS = {"RuntimeId": "76no", "replicaSpecs": [{"template": POD}]}


@dataclass
class FakeCache:
    """An informer that has synced, with these objects."""

    store: Store
    has_synced: bool = True
    resource: object = API.resource
    stale: str = ""

    def is_stale(self, namespace):
        return namespace == self.stale


@dataclass
class FakeWriter:
    """Notes what is written; what is in ``refuses`` is refused."""

    refuses: dict = field(default_factory=dict)
    calls: list = field(default_factory=list)

    async def create(self, _owner, resource, _body):
        if refusal := self.refuses.get(resource.kind):
            raise refusal
        self.calls.append(f"create {resource.kind}")

    async def patch(self, _owner, resource, _name, *, body, subresource=""):
        self.calls.append(f"{resource.kind} {subresource} {json.dumps(body.get(subresource, {}), sort_keys=True)}")

    async def delete(self, _owner, resource, *, name, uid):
        self.calls.append(f"delete {resource.kind} {name} {uid}")


def owners(item):
    return owner_of(item) if hasattr(item, "owner") else ()


def cache(*items, **fields):
    store = Store({OWNER: owners})
    for item in items:
        store.put(item)
    return FakeCache(store, **fields)


def body(spec, *, status=None, uid="u", namespace="team", **metadata):
    head = {"name": "t", "namespace": namespace, "uid": uid, "resourceVersion": "1", "generation": 1, **metadata}
    return json.dumps({"metadata": head, "spec": spec, "status": status or {}}).encode()


def board(*managers, **metadata):
    fields = [{"manager": name, "subresource": "status", "time": "1"} for name in managers]
    return extra_reader(KIND, (API,))(body({"image": "i"}, managedFields=fields, **metadata))


def tfjob(spec, **fields):
    return job_reader(API)(body(spec, **fields))


def child(owner="u", namespace="team", digest="d"):
    reference = {"controller": True, "uid": owner, "kind": "TensorBoard", "apiVersion": "tensorstack.dev/v1beta1"}
    noted = {"tf-operator.kubeflow.org/wanted": digest}
    return read_child(body({}, uid="c", namespace=namespace, ownerReferences=[reference], annotations=noted))


def test_of_a_long_message_of_a_deployment_one_line_is_kept():
    long, trouble = "x\n" * 9999, {"type": "ReplicaFailure", "status": "True"}
    deployment = read_child(body({}, status={"conditions": [{**trouble, "message": long}]})).child

    assert deployment.message == "x " * 510 + "x..."


def queue_of(source):
    return RateLimitedQueue(FakeClock(), ExponentialBackoff(base=1, cap=60)), source


def refusal(kind, code):
    return kind(code, errors.Status(message="not so"))


def events():
    entries = []
    recorder = SimpleNamespace(
        event=lambda _whose, severity, *, reason, message: entries.append((severity, reason, message))
    )
    return entries, recorder


def reconciler(source, writer, children=(), **fields):
    return TensorBoardReconciler(source, cache(*children, **fields), cache(), writer, "")


def test_the_children_of_a_tensorboard_have_it_for_their_controller_and_go_before_it():
    owner = TensorBoardObjects(cache(board())).read(board()).owner

    assert (owner.name, owner.uid, owner.controller, owner.block_owner_deletion) == ("t", "u", True, True)


async def test_a_tensorboard_gets_its_children_and_a_status():
    source, writer = TensorBoardObjects(cache(board())), FakeWriter()
    assert await reconciler(source, writer).reconcile(KEY) == DONE
    assert writer.calls == ["create Service", "create Deployment", 'TensorBoard status {"phase": "Pending"}']
    assert await reconciler(source, writer).reconcile(ObjectKey("team", "gone")) == DONE
    assert len(writer.calls) == 3


@pytest.mark.parametrize(
    ("error", "is_retried"),
    [
        (refusal(errors.Invalid, 422), False),
        (refusal(errors.Forbidden, 403), True),
        (refusal(errors.AlreadyExists, 409), True),
        (refusal(errors.NotAdmitted, 400), True),
    ],
)
async def test_a_refusal_is_in_the_status_and_only_what_may_pass_is_tried_again(error, is_retried):
    writer = FakeWriter({"Deployment": error})
    controller = reconciler(TensorBoardObjects(cache(board())), writer)
    with capture_logs() as logs, pytest.raises(type(error)) if is_retried else nullcontext():
        assert await controller.reconcile(KEY) == DONE
    assert [entry["event"] for entry in logs] == ["a part of a TensorBoard was rejected"]
    assert writer.calls[1:] == ['TensorBoard status {"message": "not so", "phase": "Pending"}']


async def test_a_server_that_fails_changes_no_status():
    writer = FakeWriter({"Service": refusal(errors.ServerFailed, 500)})
    with pytest.raises(errors.ServerFailed):
        await reconciler(TensorBoardObjects(cache(board())), writer).reconcile(KEY)
    assert writer.calls == []


async def test_where_a_cache_cannot_be_used_nothing_is_written():
    writer = FakeWriter()
    for fields in ({"has_synced": False}, {"stale": "team"}):
        result = await reconciler(TensorBoardObjects(cache(board())), writer, **fields).reconcile(KEY)
        assert result.after
    assert writer.calls == []


def test_a_tensorboard_that_another_controller_changes_is_left_to_it_until_the_next_term():
    """What another one had written before counts for nothing, and neither does a person with kubectl."""
    source = TensorBoardObjects(cache())
    original = board("manager")
    for harmless in (board("manager"), board("manager", "tf-operator"), board("manager", "kubectl-edit")):
        source.has_changed(original, harmless)
        assert source.read(harmless)
    with capture_logs() as logs:
        for contested in (board("manager", "other"), board("manager", "other", "third")):
            source.has_changed(original, contested)
    assert [entry["who"] for entry in logs] == ["other"]
    assert source.read(contested) is None
    source.begin_term()
    assert source.read(contested)
    source.has_changed(original, contested)
    source.forget("u")
    assert source.read(contested)
    assert source.read(board(deletionTimestamp="2026-01-01T00:00:00Z")) is None


def test_a_tensorboard_may_ask_for_something_else_when_its_spec_has_changed():
    source = TensorBoardObjects(cache())
    assert source.has_changed(board(generation=1), board(generation=2))
    assert not source.has_changed(board(), board("tf-operator"))


async def test_what_is_wrong_with_the_tensorboard_of_a_job_is_one_event():
    entries, recorder = events()
    job = tfjob(TRAINS | {"tensorboard": {"serviceType": "ExternalName"}})
    source, writer = TensorBoardsOfJobs(cache(job), API, recorder), FakeWriter()
    for _ in range(2):
        assert await reconciler(source, writer).reconcile(KEY) == DONE
    ((severity, reason, message),) = entries
    assert (severity, reason, writer.calls) == ("Warning", API.event_reason(_create_failed()), [])
    assert "spec.tensorboard.logDir: must be the folder with the logs" in message
    assert "spec.tensorboard.serviceType: must be 'ClusterIP'" in message
    source.begin_term()
    await reconciler(source, writer).reconcile(KEY)
    source.forget("u")
    assert (len(entries), source.reported) == (2, {})

    source.informer.store.remove(KEY)
    await source.report(job, TensorBoardPlan(message="wrong"), writer)
    assert (len(entries), source.reported) == (2, {}), "nothing is kept of a job that is gone"


def _create_failed():
    return next(kind for kind in API.event_reasons if kind.name == "CREATE_FAILED")


async def test_only_a_valid_job_gets_a_tensorboard_and_an_invalid_one_loses_it():
    fields = {"tensorboard": {"logDir": "/l"}}
    writer, (_, recorder) = FakeWriter(), events()
    for spec, calls in (
        (TRAINS | fields, ["create Service", "create Deployment"]),
        (fields | {"replicaSpecs": "x"}, []),
    ):
        writer.calls.clear()
        source = TensorBoardsOfJobs(cache(tfjob(spec)), API, recorder)
        await reconciler(source, writer).reconcile(KEY)
        assert writer.calls == calls
    await reconciler(source, writer, [child()]).reconcile(KEY)
    assert writer.calls == ["delete Deployment t c"]
    deleted = tfjob(TRAINS | fields, deletionTimestamp="2026-01-01T00:00:00Z")
    assert source.read(deleted) is None


def test_jobs_without_a_tensorboard_are_not_read():
    source = TensorBoardsOfJobs(cache(), API, None)
    plain, asks = tfjob(TRAINS), tfjob(TRAINS | {"tensorboard": {"logDir": "/l"}}, uid="v")
    noted = tfjob(TRAINS, annotations={"a": '[["tensorboard"]]'})
    assert [source.may_ask(item) for item in (plain, asks, noted)] == [False, True, True]
    source.informer.store.put(plain)
    assert list(Asking(source)) == []
    assert list(Asking(SimpleNamespace(informer=source.informer, may_ask=lambda _: 1 / 0))) == [plain]


def test_changes_of_an_object_and_of_its_children_lead_to_its_key():
    source = TensorBoardsOfJobs(cache(), API, None)
    queue, _ = queue_of(source)
    handler = OnSource(queue, source)
    plain, asks = tfjob(TRAINS), tfjob(TRAINS | {"tensorboard": {"logDir": "/l"}}, generation=2)
    forgotten = []

    def added(act, *items, **options):
        keys = []
        spy = SimpleNamespace(
            add=keys.append, add_debounced=lambda key, _wait: keys.append(key), forget=forgotten.append
        )
        act(spy)(*items, **options)
        return keys

    def on(name):
        return lambda spy: getattr(OnSource(spy, handler.source), name)

    status = tfjob(TRAINS | {"tensorboard": {"logDir": "/l"}}, generation=2, status={"phase": "Running"})
    assert added(on("on_add"), plain) == []
    assert added(on("on_add"), asks) == [KEY]
    assert added(on("on_update"), plain, asks) == added(on("on_update"), asks, plain) == [KEY]
    assert added(on("on_update"), asks, status) == []
    noted = tfjob(TRAINS, annotations={"a": '[["tensorboard"]]'})
    assert added(on("on_update"), plain, noted) == added(on("on_update"), noted, plain) == [KEY]
    source.reported["u"] = "wrong"
    assert added(on("on_delete"), asks, final_state_known=True) == []
    assert (source.reported, forgotten) == ({}, [KEY])

    def of_child(name):
        return lambda spy: getattr(OnTensorBoardChild(spy, {"u": asks}.get), name)

    assert added(of_child("on_add"), child()) == [KEY]
    assert added(of_child("on_add"), child(owner="x")) == added(of_child("on_add"), child(namespace="evil")) == []
    assert added(of_child("on_update"), child(), child()) == []
    assert added(of_child("on_update"), child(), child(digest="e")) == [KEY]
    assert added(of_child("on_update"), child(), child(owner="x")) == [KEY]
    assert added(of_child("on_delete"), child(), final_state_known=True) == [KEY]
