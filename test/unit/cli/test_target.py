"""Which cluster a command is about."""

import os

import pytest

from tf_operator.cli import main, target
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
    assert target.choose(arguments, environment).is_local
    assert target.choose(arguments, environment | {"KUBECONFIG": "k"}).why == "the kubeconfig k (KUBECONFIG)"

    folder.forget()
    assert not target.choose(arguments, environment).is_local
    assert os.path.lexists(folder.path)
