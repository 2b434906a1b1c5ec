"""``tf-operator crd``: what it prints, and what it says when applying works and when it does not."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest

from support.toys import toy_api
from tf_operator.app import command, crd_apply, crd_migrate
from tf_operator.dialects import registry
from tf_operator.dialects.registry import DEFAULT
from tf_operator.machinery.transport import errors
from tf_operator.machinery.transport.config import ConfigurationError
from tf_operator.meta import ObjectKey

NAME = "customresourcedefinition.apiextensions.k8s.io/tfjobs.kubeflow.org"


def test_the_definition_is_printed_as_one_json_document(capsys):
    assert command.main(["crd"]) == 0

    assert json.loads(capsys.readouterr().out) == DEFAULT.crd.load()


def test_the_definition_of_another_kind_is_asked_for_by_its_name(capsys, monkeypatch):
    monkeypatch.setattr(registry, "SERVED", (DEFAULT, toy_api.API))
    assert command.main(["crd", "training"]) == 0
    assert json.loads(capsys.readouterr().out)["metadata"]["name"] == "trainings.toys.example.org"

    assert command.main(["crd", "PyTorchJob"]) == 2
    assert (
        capsys.readouterr().err == "tf-operator crd: KIND must be TFJob or Training or TensorBoard, is 'PyTorchJob'\n"
    )


def test_older_versions_are_in_the_definition_with_the_webhook_that_converts_them(capsys):
    assert command.main(["crd", "--older-versions=v1beta1", "--webhook=team/tf-operator-webhook"]) == 0

    spec = json.loads(capsys.readouterr().out)["spec"]
    assert [version["name"] for version in spec["versions"]] == ["v1", "v1beta1"]
    service = spec["conversion"]["webhook"]["clientConfig"]["service"]
    assert (service["namespace"], service["name"]) == ("team", "tf-operator-webhook")


@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        (
            errors.NotFound(404, errors.Status()),
            0,
            "has no such CustomResourceDefinition, so there is nothing to migrate",
        ),
        (errors.Forbidden(403, errors.Status(message="not you")), 1, "was not migrated: not you"),
    ],
    ids=["one that was deleted", "one that may not be read"],
)
def test_without_a_definition_there_is_nothing_to_migrate(capsys, monkeypatch, error, status, words):
    """The hook of a release whose CRD was deleted first."""

    class Cluster:
        async def get(self, *_):
            raise error

    @asynccontextmanager
    async def connected(*_):
        yield Cluster()

    monkeypatch.setattr(crd_migrate, "connected", connected)

    assert command.main(["crd", "migrate", "--last"]) == status
    assert words in "".join(capsys.readouterr())


@pytest.mark.parametrize(
    ("waiting", "more"),
    [
        ([], ""),
        (["v1beta1"], "; v1beta1 is served once the webhook answers"),
        (["v1", "v1beta1"], "; v1, v1beta1 are served once the webhook answers"),
    ],
)
def test_applying_says_so(capsys, monkeypatch, waiting, more):
    applied = []

    async def apply(body, source, clock):
        applied.append(body)
        return waiting

    monkeypatch.setattr(crd_apply, "apply", apply)

    assert command.main(["crd", "--apply", "--kubeconfig=x"]) == 0
    assert capsys.readouterr().out == f"{NAME} applied{more}\n"
    assert applied == [DEFAULT.crd.load()]


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ConfigurationError("no file"), "was not applied: no file"),
        (crd_apply.StillStored("still stored"), "was not applied: still stored"),
        (crd_apply.NotServed("it is not served"), "was applied, but it is not served"),
    ],
)
def test_what_went_wrong_is_one_line_and_exit_code_1(error, words, capsys, monkeypatch):
    async def apply(body, source, clock):
        raise error

    monkeypatch.setattr(crd_apply, "apply", apply)

    assert command.main(["crd", "--apply"]) == 1
    assert capsys.readouterr().err == f"tf-operator crd: {NAME} {words}\n"


class SlowCluster:
    """Takes a second for each write."""

    def __init__(self, clock, refused=()):
        self.clock = clock
        self.refused = refused
        self.under_way = self.most = 0
        self.written = []

    async def merge_patch(self, resource, key, body, *, subresource=""):
        if key.name in self.refused:
            raise errors.Invalid(422, errors.Status(message="not this one"))
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await self.clock.sleep(1.0)
        self.under_way -= 1
        self.written.append((key.name, body))


def stored_in_two_versions(monkeypatch, count):
    async def keys(*_):
        for number in range(count):
            yield ObjectKey("n", str(number))

    monkeypatch.setattr(crd_migrate, "_keys", keys)
    crd = DEFAULT.crd.load()
    return crd | {"status": {"storedVersions": ["v1beta1", "v1"]}}


async def test_some_objects_are_migrated_at_once_and_the_definition_after_all_of_them(clock, monkeypatch):
    crd, cluster = stored_in_two_versions(monkeypatch, 20), SlowCluster(clock)
    began = clock.monotonic()
    migrating = asyncio.create_task(crd_migrate._migrate(cluster, crd, clock))
    while not migrating.done():
        await clock.advance(0.5)

    assert migrating.result() == 20
    assert (cluster.most, clock.monotonic() - began) == (crd_migrate.AT_ONCE, 4.0)
    assert [name for name, _ in cluster.written] == [*map(str, range(20)), crd["metadata"]["name"]]


@pytest.mark.parametrize(
    ("refused", "named"),
    [(["3", "9"], ["3", "9"]), ([*map(str, range(30))], [*map(str, range(20))])],
    ids=["two", "all"],
)
async def test_objects_that_are_refused_are_named_and_all_others_are_written(clock, monkeypatch, refused, named):
    """But the definition is not: they are still stored in an older version."""
    crd, cluster = stored_in_two_versions(monkeypatch, 30), SlowCluster(clock, refused=refused)
    migrating = asyncio.create_task(crd_migrate._migrate(cluster, crd, clock))
    while not migrating.done():
        await clock.advance(0.5)

    with pytest.raises(crd_migrate.NotMigrated) as refusal:
        migrating.result()
    more = ["and 10 more"] if len(refused) > len(named) else []
    assert str(refusal.value).split("; ") == [*(f"TFJob n/{name}: not this one" for name in named), *more]
    assert (cluster.under_way, len(cluster.written)) == (0, 30 - len(refused))
