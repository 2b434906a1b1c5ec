"""Which cluster each verb is for: no change goes where nobody has sent it.

The verbs are those of the grammar, so a new one is in this table. Each is tried in the situations that tell a verb that
changes something from one that does not; all other situations, which all verbs share, with one of either. Clusters are
embedded servers behind kubeconfigs.
"""

import argparse
import json
import os
import sys
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import pytest

from support.embedded.embedded_jobs import EmbeddedJobs
from support.jobs.builders import tfjob
from tf_operator.cli import main
from tf_operator.cli.commands import ui
from tf_operator.cli.run import job_run, without_cluster
from tf_operator.client import AsyncTFJobs, NotPossible, cluster, last_cluster
from tf_operator.client.cluster import ClusterNotNamed
from tf_operator.client.last_cluster import LastCluster
from tf_operator.client.manifests import kube_yaml
from tf_operator.local import kubeconfig as local_kubeconfig
from tf_operator.local import state
from tf_operator.local.process_identity import ProcessIdentity
from tf_operator.local.state import StateFolder
from tf_operator.machinery.clock import SystemClock
from tf_operator.machinery.transport import connection, errors, kubeconfig
from tf_operator.machinery.transport.config import ClientConfig

HOSTS = {name: f"http://{name}:1" for name in ("prod-eu", "staging", "pod", "local")}
READS = {"get", "list", "watch"}
HARMLESS = ("selfsubjectaccessreviews",)
ARGUMENTS = {"COMMAND": "true", "FILE": "job.yaml", "N": "2", "[LOCAL:]PORT": ":2222"}
FURTHER = {"delete": "train", "wait": "--for running", "ui": "--no-browser"}
"""What a verb needs besides, or what keeps it from waiting for somebody."""
JOBS = {"retry": "failed"}
"""For which job a verb is, if it is not for one that runs."""

OF_OPERATOR = {"install": "--image registry.example/tf-operator:1", "uninstall": ""}
"""Verbs that are not for jobs, and what they need; test/scenarios/cli/test_install.py has the clusters for them."""


def verbs():
    """Each verb that is for a cluster, as it is typed, and whether it says of itself that it changes something."""
    (action,) = [entry for entry in main.make_parser()._actions if isinstance(entry, argparse._SubParsersAction)]
    for name, parser in action.choices.items():
        if name not in OF_OPERATOR and any(group.title == "cluster" for group in parser._action_groups):
            yield pytest.param((typed(name, parser), parser.get_default("changes")), id=name)


def typed(name, parser):
    words = [name, *FURTHER.get(name, "").split()]
    for option in parser._actions:
        if option.required or (option.metavar == "FILE" and not option.option_strings):
            arguments = ARGUMENTS | {"JOB": JOBS.get(name, "train")}
            words += [*option.option_strings[-1:], arguments[option.metavar]]
    return " ".join(words)


@dataclass(frozen=True)
class Situation:
    """What there is, and what is expected of it."""

    local: str = ""
    """The local server: ``runs``, ``killed``, ``down``, ``starting``; ``shared``: it runs, and another program has put
    its own cluster into its kubeconfig."""
    variable: str = ""
    """KUBECONFIG, by names of clusters."""
    flags: str = ""
    last: str = ""
    """How the commands before, which named nothing, came to their cluster."""
    program: str = "tfjob"
    in_pod: bool = False
    has_kubeconfig: bool = True
    reads: str = "prod-eu"
    """The cluster that is read; empty: none."""
    changes: str = "prod-eu"
    """The cluster that is changed; empty: none."""
    refusal: str = ""
    """What a refusal says."""
    notes: bool = False
    """Whether a command that reads says which cluster it is for."""


UP = "start it again (tfjob local up), or name the cluster (--context prod-eu)"
SITUATIONS = {
    "no local server has ever run": Situation(),
    "a local server runs": Situation(local="runs", reads="local", changes="local"),
    "it runs, and its kubeconfig has another current context": Situation(
        local="shared", reads="local", changes="local"
    ),
    "it was killed": Situation(local="killed", last="local", changes="", refusal=UP, notes=True),
    "it was killed, and nothing was remembered": Situation(local="killed", changes="", refusal=UP, notes=True),
    "it was ended": Situation(local="down", last="local", changes="", refusal=UP, notes=True),
    "it is starting": Situation(local="starting", changes="", refusal="is starting", notes=True),
    "it was purged after commands for it": Situation(last="local", changes="", refusal=UP, notes=True),
    "it was killed, and a context is named": Situation(local="killed", flags="--context prod-eu"),
    "it was killed, and its context is named": Situation(
        local="killed", flags="--context tfjob-local", reads="", changes="", refusal="tfjob local up starts it"
    ),
    "it was killed, and a kubeconfig is named": Situation(
        local="killed", flags="--kubeconfig staging", reads="staging", changes="staging"
    ),
    "it was killed, and KUBECONFIG is set": Situation(
        local="killed", variable="staging", reads="staging", changes="staging"
    ),
    "it runs, and KUBECONFIG is set": Situation(local="runs", variable="staging", reads="staging", changes="staging"),
    "KUBECONFIG has several files": Situation(variable="nowhere:staging:prod-eu", reads="staging", changes="staging"),
    "the first of several files has gone, and the previous command used its cluster": Situation(
        variable="nowhere:prod-eu",
        last="kubeconfig",
        changes="",
        refusal="name the cluster (--context prod-eu)",
        notes=True,
    ),
    "the first of several files has gone, and the previous command used the same cluster": Situation(
        variable="nowhere:staging", last="kubeconfig", reads="staging", changes="staging"
    ),
    "the second of several files has gone": Situation(variable="prod-eu:nowhere", last="kubeconfig", notes=True),
    "KUBECONFIG names a server that was purged, and another cluster": Situation(
        variable="local:prod-eu", reads="", changes="", refusal="tfjob local up starts it"
    ),
    "KUBECONFIG is empty, and a local server was killed": Situation(
        local="killed", variable=":", changes="", refusal=UP, notes=True
    ),
    "KUBECONFIG is empty, and a local server runs": Situation(
        local="runs", variable=":", reads="local", changes="local"
    ),
    "KUBECONFIG is empty": Situation(variable=":", changes="", refusal="KUBECONFIG names no file", notes=True),
    "kubectl tfjob, and KUBECONFIG is empty": Situation(
        variable=":", program="kubectl-tfjob", changes="", refusal="KUBECONFIG names no file", notes=True
    ),
    "what was remembered is damaged": Situation(last="damaged", changes="", refusal="is damaged", notes=True),
    "KUBECONFIG names another cluster, and a server that was purged": Situation(variable="prod-eu:local"),
    "KUBECONFIG names a server that was killed": Situation(
        local="killed", variable="local", reads="", changes="", refusal="tfjob local up starts it (or unset KUBECONFIG)"
    ),
    "KUBECONFIG names a server with a folder of its own that was killed": Situation(
        variable="own", reads="", changes="", refusal="starts it (or unset KUBECONFIG)"
    ),
    "kubectl tfjob, and a local server runs": Situation(local="runs", program="kubectl-tfjob"),
    "kubectl tfjob, and it was killed": Situation(local="killed", program="kubectl-tfjob"),
    "in a pod": Situation(in_pod=True, has_kubeconfig=False, reads="pod", changes="pod"),
    "in a pod with a kubeconfig": Situation(in_pod=True),
    "in a pod whose kubeconfig is gone": Situation(
        in_pod=True,
        has_kubeconfig=False,
        last="kubeconfig",
        reads="pod",
        changes="",
        refusal="name the cluster (--context in-cluster)",
        notes=True,
    ),
    "in a pod that is named": Situation(
        in_pod=True,
        has_kubeconfig=False,
        last="kubeconfig",
        flags="--context in-cluster",
        reads="pod",
        changes="pod",
        notes=True,
    ),
}


class Clusters:
    """The servers by their addresses, and what was changed in which."""

    def __init__(self, monkeypatch, home, *, is_local_up):
        self._servers = {}
        self._is_local_up = is_local_up
        self.targets = []
        self.changed = []
        monkeypatch.setattr(connection, "Connection", self.connect)
        monkeypatch.setattr(kubeconfig, "make_tls", lambda *_, **__: False)
        for name in ("prod-eu", "staging"):
            (home / name).write_text(config_of(name))

    @asynccontextmanager
    async def connect(self, config, **_):
        host = (await config.first()).host
        self._name = next(name for name, address in HOSTS.items() if address == host)
        if self._name == "local" and not self._is_local_up:
            raise errors.Unreachable("connection refused")  # at once: requests would be repeated
        async with self._server(self._name).client() as jobs:
            self._inner = jobs._opened
            yield self

    def _server(self, name):
        if name not in self._servers:
            server = self._servers[name] = EmbeddedJobs(SystemClock())
            server.pod(server.job("train", runPolicy={"suspend": True}), "worker-0")
            server.report("train", "Running")
            server.job("failed")
            server.report("failed", "Failed")
        return self._servers[name]

    @property
    def host(self):
        return HOSTS[self._name]

    @property
    def problem(self):
        return ""

    def send(self, request, **options):
        self.targets.append(self._name)
        if request.verb not in READS and request.path.rpartition("/")[2] not in HARMLESS:
            self.changed.append(self._name)
        return self._inner.send(request, **options)


def merged(ours, other):
    """A kubeconfig after another program has added a cluster of its own, as for the first file of KUBECONFIG."""
    first, second = json.loads(ours), json.loads(other)
    lists = {name: [*first[name], *second[name]] for name in ("clusters", "contexts", "users")}
    return json.dumps(first | lists | {"current-context": second["current-context"]})


def config_of(name):
    text = local_kubeconfig.text(HOSTS[name], authority=b"", token="t")
    return text.replace(local_kubeconfig.CONTEXT, name)


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setattr(job_run.JobRun, "run", ended)
    monkeypatch.setattr(without_cluster, "run", lambda *_: 0)
    monkeypatch.setattr(ui, "_stopped", Stopped)
    (tmp_path / "job.yaml").write_text(kube_yaml.write(tfjob("new").workers(1).body()))
    return tmp_path


class Stopped:
    async def wait(self):
        pass


async def ended(_):
    return 0


def arrange(situation, home, monkeypatch):
    """Make the situation; the clusters in it."""
    clusters = Clusters(monkeypatch, home, is_local_up=situation.local in {"runs", "shared"})
    folder = StateFolder(state.default_folder(os.environ))
    if situation.local:
        folder.create()
        text = local_kubeconfig.text(HOSTS["local"], authority=b"", token="t")
        folder.kubeconfig.write_text(merged(text, config_of("prod-eu")) if situation.local == "shared" else text)
    if situation.local in {"runs", "killed", "starting", "shared"}:
        folder.record("" if situation.local == "starting" else HOSTS["local"])
    if situation.local == "killed":
        alive = ProcessIdentity.is_alive.fget
        monkeypatch.setattr(
            ProcessIdentity, "is_alive", property(lambda identity: identity.pid != os.getpid() and alive(identity))
        )
    own = StateFolder(home / "own")
    own.create()
    own.kubeconfig.write_text(local_kubeconfig.text(HOSTS["local"], authority=b"", token="t"))
    files = {"local": folder.kubeconfig, "own": own.kubeconfig}
    if situation.variable:
        paths = [str(files.get(name, home / name)) if name else "" for name in situation.variable.split(":")]
        monkeypatch.setenv("KUBECONFIG", ":".join(paths))
    if situation.has_kubeconfig:
        (home / ".kube").mkdir()
        (home / ".kube/config").write_text(config_of("prod-eu"))
    if situation.in_pod:
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "pod")
        (home / "token").touch()
        monkeypatch.setattr(cluster, "SERVICE_ACCOUNT", home)
        monkeypatch.setattr(cluster, "InCluster", Pod)
    if situation.last:
        remember(situation.last)
    monkeypatch.setattr(sys, "argv", [f"/bin/{situation.program}"])
    return clusters


def remember(last):
    if last == "damaged":
        last_cluster.path(os.environ).parent.mkdir(parents=True, exist_ok=True)
        last_cluster.path(os.environ).write_text("[" * 100_000)
        return
    name = {"local": "local", "kubeconfig": "staging"}[last]
    last_cluster.write(LastCluster(HOSTS[name], name, last))


class Pod:
    async def read(self, *, refused=False):
        return ClientConfig(HOSTS["pod"])


TELLING = (
    "a local server runs",
    "it was killed, and nothing was remembered",
    "it was killed, and a context is named",
    "the first of several files has gone, and the previous command used its cluster",
    "in a pod",
)
"""The situations for each verb."""
TYPICAL = ("get", "suspend", "run")
"""The verbs for each situation: one that reads, one that changes, and the one that needs no cluster."""


def tries():
    for verb in verbs():
        for name, situation in SITUATIONS.items():
            if verb.id in TYPICAL or name in TELLING:
                yield pytest.param(*verb.values, situation, id=f"{verb.id}: {name}")


def test_the_typical_verbs_and_the_telling_situations_exist():
    assert set(TYPICAL) <= {verb.id for verb in verbs()}
    assert set(TELLING) <= SITUATIONS.keys()


@pytest.mark.parametrize(("verb", "situation"), tuple(tries()))
def test_a_verb_is_for_the_cluster_that_is_meant_and_says_so(home, monkeypatch, capsys, verb, situation):
    line, changes = verb
    clusters = arrange(situation, home, monkeypatch)
    command = f"{line} {situation.flags}".split()

    code = main.main(command)

    printed = capsys.readouterr()
    output, expected = printed.out + printed.err, situation.changes if changes else situation.reads
    if line.startswith("run ") and not (
        situation.flags or situation.variable.strip(":") or "kubectl" in situation.program
    ):
        # Without a cluster the job runs on this machine, in the server that runs, or in one of its own.
        expected = "local" if situation.local in {"runs", "shared"} else ""
        assert (code, set(clusters.targets)) == (0, {"local"} if expected else set())
        return
    assert set(clusters.targets) == ({expected} if expected else set()), output
    assert bool(clusters.changed) is (changes and bool(expected)), output
    if not expected:
        assert (code, situation.refusal in output, printed.out) == (1, True, ""), output
    else:
        names = {"pod": "the cluster of this pod", "local": f"the local server at {HOSTS['local']}"}
        assert (f" in {names.get(expected, expected)}" in output) >= changes, output
        assert (f"tfjob: this is {names.get(expected, expected)} (" in output) is situation.notes


@pytest.mark.parametrize("verb", OF_OPERATOR)
def test_the_operator_of_a_local_server_is_neither_installed_nor_removed(home, monkeypatch, capsys, verb):
    clusters = arrange(SITUATIONS["a local server runs"], home, monkeypatch)

    assert main.main([verb, *OF_OPERATOR[verb].split()]) == 1

    assert "the local server has the operator in it: --context names a cluster" in capsys.readouterr().err
    assert clusters.changed == []


def test_a_cluster_is_named_once(home, monkeypatch, capsys):
    clusters = arrange(SITUATIONS["it was purged after commands for it"], home, monkeypatch)

    assert main.main(["delete", "train"]) == 1
    assert (
        "nothing was changed, because the local server, which earlier commands used, is gone" in capsys.readouterr().err
    )
    notes = [(main.main(["list"]), capsys.readouterr().err)[1] for _ in range(2)]
    assert notes == ["tfjob: this is prod-eu (the current context); the previous command used local\n", ""]
    assert main.main(["delete", "train"]) == 0
    assert (capsys.readouterr().out, clusters.changed) == ("TFJob default/train deleted in prod-eu\n", ["prod-eu"])


@pytest.mark.parametrize("flag", ["--context", "--kubeconfig"])
def test_a_name_out_of_a_variable_that_is_empty_means_no_cluster(home, monkeypatch, capsys, flag):
    """As by ``tfjob delete train --context "$CLUSTER"``: not the cluster that happens to be current."""
    clusters = arrange(Situation(), home, monkeypatch)

    with pytest.raises(SystemExit, match="2"):
        main.main(["delete", "train", flag, ""])
    assert f"argument {flag}: is empty, and names no cluster" in capsys.readouterr().err
    with pytest.raises(NotPossible, match=f"{flag[2:]} is empty, and names no cluster"):
        AsyncTFJobs(**{flag[2:]: ""})
    assert clusters.targets == []


def test_a_refusal_speaks_of_the_local_server_although_another_cluster_was_named_since(home, monkeypatch, capsys):
    arrange(SITUATIONS["it was purged after commands for it"], home, monkeypatch)
    assert main.main(["list", "--context", "prod-eu"]) == 0
    capsys.readouterr()

    assert main.main(["delete", "train"]) == 1
    assert "because the local server, which earlier commands used, is gone" in capsys.readouterr().err


def test_completion_leaves_the_note_to_the_next_command(home, monkeypatch, capsys):
    arrange(SITUATIONS["it was killed"], home, monkeypatch)
    with monkeypatch.context() as shell:
        shell.setenv("TFJOB_COMPLETING", "1")
        assert (main.main(["list", "-o", "name"]), capsys.readouterr().err) == (0, "")

    main.main(["list", "-o", "name"])
    assert "tfjob: this is prod-eu" in capsys.readouterr().err


OF_PYTHON = {name: situation for name, situation in SITUATIONS.items() if situation.program == "tfjob"}


@pytest.mark.parametrize("situation", OF_PYTHON.values(), ids=OF_PYTHON.keys())
async def test_the_python_client_chooses_and_refuses_as_the_command_does(home, monkeypatch, situation):
    clusters = arrange(situation, home, monkeypatch)
    flag, _, value = situation.flags.partition(" ")
    options = {flag[2:]: value} if flag else {}

    async with AsyncExitStack() as stack:
        if not situation.reads:
            with pytest.raises((NotPossible, errors.Unreachable)):
                await (await stack.enter_async_context(AsyncTFJobs(**options))).get("train")
            return
        jobs = await stack.enter_async_context(AsyncTFJobs(**options))
        await jobs.get("train")
        for client in (jobs, jobs.of_kind("tfjob")):
            if situation.changes:
                await client.suspend("train")
            else:
                with pytest.raises(ClusterNotNamed, match="nothing was changed, because"):
                    await client.suspend("train")

    assert (set(clusters.targets), bool(clusters.changed)) == ({situation.reads}, bool(situation.changes))
