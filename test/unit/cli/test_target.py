"""Which cluster a command is about."""

import os

import pytest

from tf_operator.cli import main, target
from tf_operator.local import kubeconfig as local_kubeconfig
from tf_operator.local.state import StateFolder


@pytest.fixture
def environment(tmp_path):
    return {"XDG_STATE_HOME": str(tmp_path)}


CHOICES = {
    "--context prod --kubeconfig k": ("k", "prod", "the context prod (--context)"),
    "--kubeconfig k": ("k", None, "the kubeconfig k (--kubeconfig)"),
    "": (None, None, "the current context"),
}


@pytest.mark.parametrize(("line", "chosen"), CHOICES.items(), ids=CHOICES.keys())
def test_what_is_named_wins(environment, line, chosen):
    arguments = main.make_parser("list").parse_args(["list", *line.split()])

    found = target.choose(arguments, environment)

    assert (found.kubeconfig, found.context, found.why) == chosen


def test_a_local_server_is_used_while_it_runs_unless_another_cluster_is_named(environment, tmp_path):
    arguments = main.make_parser("list").parse_args(["list"])
    folder = StateFolder(tmp_path / "tf-operator" / "local")
    folder.create()
    folder.record("https://127.0.0.1:1")
    assert target.choose(arguments, environment).kubeconfig == str(folder.kubeconfig)
    assert target.is_local(target.choose(arguments, environment), "https://127.0.0.1:1", environment)
    assert target.choose(arguments, environment | {"KUBECONFIG": "k"}).why == "the kubeconfig k (KUBECONFIG)"

    folder.forget()
    assert target.choose(arguments, environment).why == "the current context"
    assert os.path.lexists(folder.path)


OURS = "tf-operator/local"
UP = "the local server of {} does not run: tfjob local up"
STOPPED = {
    "KUBECONFIG names its file": ("", f"{OURS}/kubeconfig", f"{UP} starts it (or unset KUBECONFIG)"),
    "another file beside it": ("", f"{OURS}/other", ""),
    "--kubeconfig names its file": ("--kubeconfig {}/kubeconfig", "k", f"{UP} starts it"),
    "its context": ("--context tfjob-local", f"{OURS}/kubeconfig", f"{UP} starts it (or unset KUBECONFIG)"),
    "another context": ("--context prod", f"{OURS}/kubeconfig", ""),
}


@pytest.mark.parametrize(("line", "variable", "said"), STOPPED.values(), ids=STOPPED.keys())
def test_a_local_server_that_does_not_run_is_known_by_its_kubeconfig(environment, tmp_path, line, variable, said):
    folder = StateFolder(tmp_path / OURS)
    folder.create()
    folder.record("https://127.0.0.1:1")
    environment["KUBECONFIG"] = str(tmp_path / variable)
    arguments = main.make_parser("list").parse_args(["list", *line.format(folder.path).split()])
    found = target.choose(arguments, environment)
    assert target.stopped(found, environment) == ""
    assert target.is_local(found, "https://127.0.0.1:1", environment)
    assert not target.is_local(found, "https://127.0.0.1:2", environment)

    folder.forget()
    assert target.stopped(found, environment) == said.format(folder.path)
    assert not target.is_local(found, "https://127.0.0.1:1", environment)


def test_a_local_server_may_have_a_folder_of_its_own(environment, tmp_path):
    folder = StateFolder(tmp_path / "mine")
    folder.create()
    environment["KUBECONFIG"] = str(folder.kubeconfig)
    found = target.choose(main.make_parser("list").parse_args(["list"]), environment)

    assert f"tfjob local up --state-dir {folder.path} starts it" in target.stopped(found, environment)
    folder.record("https://127.0.0.1:1")
    assert target.is_local(found, "https://127.0.0.1:1", environment)


def test_a_command_says_that_its_local_server_does_not_run(environment, monkeypatch, capsys, tmp_path):
    folder = StateFolder(tmp_path / OURS)
    for name, value in (environment | {"KUBECONFIG": str(folder.kubeconfig)}).items():
        monkeypatch.setenv(name, value)
    said = f"tfjob: {UP} starts it (or unset KUBECONFIG)\n".format(folder.path)

    assert (main.main(["list"]), capsys.readouterr().err) == (1, said)
    folder.create()
    folder.kubeconfig.write_text(local_kubeconfig.text("http://127.0.0.1:1", authority=b"", token="t"))
    assert (main.main(["list"]), capsys.readouterr().err) == (1, said)
