"""Completion scripts, made from the parser; that for bash is run."""

import shutil
import subprocess

import pytest

from tf_operator.cli import completion, main

COMMANDS = completion.read(main.make_parser())
BASH = {
    "tfjob wa": "wait",
    "tfjob wait --for s": "suspended succeeded",
    "tfjob wait --ti": "--timeout",
    "tfjob wait --timeout ": "",
    "tfjob local pu": "",
    "tfjob local d": "down",
    "tfjob completion z": "zsh",
    "tfjob get m": "mnist",
    "tfjob get -o j": "json",
}


@pytest.mark.parametrize(("line", "expected"), BASH.items(), ids=BASH.keys())
def test_bash_completes_commands_options_values_and_jobs(line, expected):
    words = " ".join(f"'{word}'" for word in line.split(" "))
    jobs = "tfjob() { echo tfjob.kubeflow.org/mnist; }"
    script = f"{completion.bash(COMMANDS)}\n{jobs}\nCOMP_WORDS=({words}); COMP_CWORD={line.count(' ')}; _tfjob"
    bash = shutil.which("bash") or "/bin/bash"

    process = subprocess.run(
        [bash, "-c", f'{script}; echo "${{COMPREPLY[@]}}"'], capture_output=True, text=True, check=True
    )

    assert (process.stdout.strip(), process.stderr) == (expected, "")


def test_what_is_packaged_is_the_grammar_of_the_parsers():
    assert completion.packaged() == COMMANDS


@pytest.mark.parametrize("shell", completion.SHELLS)
def test_every_command_and_option_is_in_the_script_of_each_shell(shell, capsys):
    assert main.main(["completion", shell]) == 0
    script = capsys.readouterr().out

    for command in COMMANDS:
        assert command.name in script
        for name in (name for option in command.options for name in option.names):
            spelled = {"fish": f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}"}.get(shell, name)
            assert spelled in script, (command.name, name)
    assert {command.name for command in COMMANDS} == set(main.COMMANDS)
