"""``tfjob``: its command line."""

import pytest

from tf_operator.cli import main


def test_version_names_the_program_and_the_release(capsys):
    with pytest.raises(SystemExit) as stopped:
        main.main(["--version"])

    assert stopped.value.code == 0
    assert capsys.readouterr().out.startswith("tfjob ")


def test_a_wrong_flag_is_answered_with_exit_code_2(capsys):
    with pytest.raises(SystemExit) as stopped:
        main.main(["--no-such-flag"])

    assert stopped.value.code == 2
    assert "usage: tfjob" in capsys.readouterr().err


def test_no_arguments_do_nothing_and_succeed():
    assert main.main([]) == 0
