"""Which cluster is chosen, and for what reason; test/unit/cli/test_which_cluster.py has what follows from it."""

import pytest

from tf_operator.client import cluster, last_cluster
from tf_operator.client.last_cluster import LastCluster
from tf_operator.client.local_transport import LocalTransport
from tf_operator.local import kubeconfig as local_kubeconfig
from tf_operator.local.state import StateFolder
from tf_operator.machinery.clock import SystemClock

OURS = "tf-operator/local"
UP = "the local server of {} does not run: tfjob local up"


@pytest.fixture
def environment(tmp_path):
    return {"XDG_STATE_HOME": str(tmp_path)}


CHOICES = {
    "a context and a file": (("k", "prod"), ("k", "prod", "the context prod (--context)")),
    "a file": (("k", None), ("k", None, "the kubeconfig k (--kubeconfig)")),
    "nothing": ((None, None), (None, None, "the current context")),
}


@pytest.mark.parametrize(("names", "choice"), CHOICES.values(), ids=CHOICES.keys())
def test_what_is_named_wins(environment, names, choice):
    target = cluster.choose(*names, environment)

    assert (target.kubeconfig, target.context, target.reason) == choice


STOPPED = {
    "KUBECONFIG names its file": ((None, None), f"{OURS}/kubeconfig", f"{UP} starts it (or unset KUBECONFIG)"),
    "another file beside it": ((None, None), f"{OURS}/other", ""),
    "its file is named": ((f"{OURS}/kubeconfig", None), "k", f"{UP} starts it"),
    "its context is named": ((None, "tfjob-local"), f"{OURS}/kubeconfig", f"{UP} starts it (or unset KUBECONFIG)"),
    "another context is named": ((None, "prod"), f"{OURS}/kubeconfig", ""),
}


@pytest.mark.parametrize(("names", "variable", "sentence"), STOPPED.values(), ids=STOPPED.keys())
def test_a_local_server_that_does_not_run_is_known_by_its_kubeconfig(environment, tmp_path, names, variable, sentence):
    folder = StateFolder(tmp_path / OURS)
    folder.create()
    folder.record("https://127.0.0.1:1")
    environment["KUBECONFIG"] = str(tmp_path / variable)
    file, context = names
    target = cluster.choose(file and str(tmp_path / file), context, environment)
    assert cluster.stopped(target, environment) == ""
    assert cluster.is_local(target, "https://127.0.0.1:1", environment)
    assert not cluster.is_local(target, "https://127.0.0.1:2", environment)

    folder.forget()
    assert cluster.stopped(target, environment) == sentence.format(folder.path)
    assert not cluster.is_local(target, "https://127.0.0.1:1", environment)


async def test_a_connection_to_a_local_server_knows_when_that_is_gone(environment, tmp_path):
    folder = StateFolder(tmp_path / OURS)
    folder.create()
    folder.record("https://127.0.0.1:1")
    folder.kubeconfig.write_text(local_kubeconfig.text("https://127.0.0.1:1", authority=b"", token="t"))

    _, connection = await cluster.connection(cluster.choose(environment=environment), SystemClock())

    async with connection as transport:
        assert isinstance(transport, LocalTransport)


def test_a_local_server_may_have_a_folder_of_its_own(environment, tmp_path):
    folder = StateFolder(tmp_path / "mine")
    folder.create()
    environment["KUBECONFIG"] = str(folder.kubeconfig)
    target = cluster.choose(environment=environment)

    assert f"tfjob local up --state-dir {folder.path} starts it" in cluster.stopped(target, environment)
    folder.record("https://127.0.0.1:1")
    assert cluster.is_local(target, "https://127.0.0.1:1", environment)


def test_the_last_cluster_is_remembered_by_its_user_alone_and_where_it_can_be(environment, tmp_path):
    last = LastCluster("https://a", "a", "local")
    last_cluster.write(last, environment)
    file = last_cluster.path(environment)
    assert (last_cluster.read(environment), file.stat().st_mode & 0o777) == (last, 0o600)
    assert list(file.parent.iterdir()) == [file]

    for text in ("[]", "", "[" * 100_000):
        file.write_text(text)
        assert last_cluster.read(environment) == last_cluster.UNKNOWN
    file.unlink()
    assert last_cluster.read(environment) is None
    file.mkdir()
    last_cluster.write(last, environment)
    assert list(file.parent.iterdir()) == [file]
