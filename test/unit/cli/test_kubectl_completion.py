"""What kubectl is told when it completes ``kubectl tfjob``."""

import pytest

from tf_operator.cli import completion, kubectl_completion, main

COMMANDS = completion.read(main.make_parser())
TYPED = {
    "wa": "wait\twait for the state of a job|:4",
    "wait --for s": "suspended|succeeded|:4",
    "wait --time": "--timeout\t{timeout}|:4",
    "wait --timeout ": ":0",
    "local d": "down|:4",
    "get m": "mnist of|:4",
    "get -n team --context=c m": "mnist of -n team --context=c|:4",
    "get -o j": "json|:4",
    "run ": ":0",
    "no-such-command ": ":0",
}


def jobs(cluster):
    return [" ".join(["mnist of", *cluster]), "other"]


@pytest.mark.parametrize(("typed", "expected"), TYPED.items(), ids=TYPED.keys())
def test_commands_options_values_and_jobs_are_completed(typed, expected):
    helps = {option.names[0]: option.help for it in COMMANDS if it.name == "wait" for option in it.options}

    lines = "|".join(kubectl_completion.lines(typed.split(" "), COMMANDS, jobs))

    wait = next(command.help for command in COMMANDS if command.name == "wait")
    assert lines == expected.format(timeout=helps["--timeout"]).replace("wait for the state of a job", wait)


def test_nothing_but_the_directive_is_printed_when_no_cluster_answers(capfd, monkeypatch, tmp_path):
    for name in ("HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setattr("sys.argv", ["kubectl_complete-tfjob", "get", ""])

    assert kubectl_completion.run() == 0
    assert capfd.readouterr() == (":4\n", "")
