"""``tfjob``: its command line."""

import pytest

from tf_operator.cli import main


@pytest.mark.parametrize(
    ("path", "name"), [("/bin/tfjob", "tfjob"), ("/bin/kubectl-tfjob", "kubectl tfjob")], ids=["tfjob", "kubectl"]
)
def test_usage_is_told_under_the_name_by_which_it_was_called(capsys, monkeypatch, path, name):
    monkeypatch.setattr("sys.argv", [path])
    with pytest.raises(SystemExit) as stopped:
        main.main(["--help"])

    assert stopped.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: {name} ")


def test_version_names_the_program_and_the_release(capsys):
    with pytest.raises(SystemExit) as stopped:
        main.main(["--version"])

    assert stopped.value.code == 0
    assert capsys.readouterr().out.startswith("tfjob ")


@pytest.mark.parametrize("arguments", [["--no-such-flag"], ["no-such-command"], []], ids=["flag", "command", "nothing"])
def test_wrong_usage_is_answered_with_exit_code_2(capsys, arguments):
    with pytest.raises(SystemExit) as stopped:
        main.main(arguments)

    assert stopped.value.code == 2
    assert "usage: " in capsys.readouterr().err
