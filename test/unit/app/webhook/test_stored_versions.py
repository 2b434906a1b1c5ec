"""In how many older versions objects may still be stored."""

import asyncio

import pytest
import structlog

from tf_operator.app.http.health import Health
from tf_operator.app.metrics.registry import Metrics
from tf_operator.app.options.flag_types import Address
from tf_operator.app.options.options import Options, Webhook
from tf_operator.app.webhook import endpoint, keys, stored_versions
from tf_operator.dialects.registry import DEFAULT
from tf_operator.machinery.election.heartbeat import Heartbeat
from tf_operator.machinery.transport.errors import Forbidden, Status, Unreachable


class Cluster:
    """Answers with the next of these, and with the last one for ever."""

    def __init__(self, *answers):
        self.answers = list(answers)

    async def get(self, _resource, _key):
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        versions = [{"name": name, "storage": name == "v1"} for name in ("v1", "v1beta1", "v1alpha1")]
        return {"spec": {"versions": versions}, "status": {"storedVersions": answer}}


DENIED = Forbidden(403, Status(message="not you"))


@pytest.mark.parametrize(
    ("answers", "reported"),
    [
        ([["v1alpha1", "v1beta1", "v1"], ["v1"]], [2, 0, 0]),
        ([Unreachable("away"), ["v1beta1"]], [1, 1]),
        ([DENIED], []),
        ([DENIED, DENIED, ["v1beta1"]], [1]),
    ],
    ids=["until they are migrated", "when the API server is back", "nothing without the right", "with a later right"],
)
async def test_older_stored_versions_are_reported(clock, answers, reported):
    reports, cluster = [], Cluster(*answers)
    with structlog.testing.capture_logs() as logs:
        watching = asyncio.create_task(
            stored_versions.watch(["tfjobs.x"], cluster, clock, lambda crd, older: reports.append((crd, older)))
        )
        await clock.advance(2 * stored_versions.EVERY)
        watching.cancel()

    assert reports == [("tfjobs.x", older) for older in reported]
    assert len(logs) == (DENIED in answers)


class Unsynced:
    """The caches of a process that has just started."""

    def unsynced(self):
        return ["tfjobs.kubeflow.org"]

    def awaited(self):
        return []


@pytest.mark.parametrize(
    ("stored", "problems"), [(["v1alpha1", "v1"], []), (["v1"], ["the cache of tfjobs.kubeflow.org has not synced"])]
)
async def test_only_what_is_stored_in_older_versions_is_ready_without_its_cache(clock, tmp_path, stored, problems):
    """The webhook's Service sends to what is ready."""
    pair = keys.next_keys(keys.Keys(), "localhost", clock.now()).served
    (tmp_path / "tls.crt").write_bytes(pair.certificate)
    (tmp_path / "tls.key").write_bytes(pair.key)
    options = Options(webhook=Webhook(Address("127.0.0.1", 0), folder=str(tmp_path)), apis=(DEFAULT,))
    probes, cluster = Health(clock, Heartbeat(clock)), Cluster(stored)
    probes.watch(Unsynced())
    with endpoint.serving(options, cluster, cluster, probes=probes, metrics=Metrics()) as parts:
        assert len(probes.why_not_ready()) == 1
        parts["webhook"].close()
        watching = asyncio.create_task(parts["stored versions"])
        await clock.advance(0)
        assert probes.why_not_ready() == problems
        watching.cancel()
