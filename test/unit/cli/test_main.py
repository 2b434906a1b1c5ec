"""``tfjob``: its command line."""

import os
import shutil
import signal
import subprocess
import sys

import pytest

from support.jobs.builders import tfjob
from tf_operator.cli import main
from tf_operator.client.manifests import kube_yaml
from tf_operator.machinery.log import Logger


@pytest.mark.parametrize(
    ("path", "name"), [("/bin/tfjob", "tfjob"), ("/bin/kubectl-tfjob", "kubectl tfjob")], ids=["tfjob", "kubectl"]
)
def test_usage_is_told_under_the_name_by_which_it_was_called(capsys, monkeypatch, path, name):
    monkeypatch.setattr("sys.argv", [path])
    with pytest.raises(SystemExit) as stopped:
        main.main(["--help"])

    assert stopped.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: {name} ")


@pytest.mark.parametrize("word", ["--version", "version"])
def test_version_names_the_program_and_the_release(capsys, word):
    with pytest.raises(SystemExit) as stopped:
        main.main([word])

    assert stopped.value.code == 0
    assert capsys.readouterr().out.startswith("tfjob ")


@pytest.mark.parametrize("arguments", [["--no-such-flag"], ["no-such-command"]], ids=["flag", "command"])
def test_wrong_usage_is_answered_with_exit_code_2(capsys, arguments):
    with pytest.raises(SystemExit) as stopped:
        main.main(arguments)

    assert stopped.value.code == 2
    assert "usage: " in capsys.readouterr().err


def test_nothing_is_a_question_for_help(capsys):
    with pytest.raises(SystemExit) as stopped:
        main.main([])
    help_text = capsys.readouterr().out
    with pytest.raises(SystemExit):
        main.main(["--help"])

    assert (stopped.value.code, capsys.readouterr().out) == (0, help_text)
    assert [name for name in main.COMMANDS if f"    {name}" not in help_text] == []


SLOW = {"aiohttp", "asyncio", "msgspec", "structlog", "yaml", "tf_operator.client.jobs", "tf_operator.planning.plan"}
LOADED = {
    "--version": set(),
    "--help": set(),
    "completion bash": set(),
    "list --kubeconfig /nowhere": SLOW - {"aiohttp", "structlog", "tf_operator.planning.plan"},
    "explain j --kubeconfig /nowhere": SLOW - {"aiohttp", "structlog", "tf_operator.planning.plan"},
}


@pytest.mark.parametrize(("line", "needed"), LOADED.items(), ids=LOADED.keys())
def test_a_command_loads_only_what_it_needs(line, needed):
    program = f"""
import atexit, sys
from tf_operator.cli import main
atexit.register(lambda: sys.stderr.write(" ".join(sys.modules)))
sys.exit(main.main({line.split()!r}))
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert SLOW & set(ended.stderr.split()) == needed


def test_records_and_errors_leave_standard_output_to_the_command(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["tfjob", "list", "--kubeconfig", "/nowhere"])
    assert main.main() == 1
    sentence = "tfjob: there is no kubeconfig at /nowhere; name a cluster with --context or --kubeconfig"
    sentence += ", or start a server on this machine: tfjob local up\n"
    assert capsys.readouterr() == ("", sentence)  # once, and as no record beside

    Logger("a.module").warning("something is strange")

    output = capsys.readouterr()
    assert (output.out, "something is strange" in output.err) == ("", True)


def test_ctrl_c_while_a_command_is_loaded_ends_it_without_a_word(tmp_path):
    (tmp_path / "yaml.py").write_text("import os, signal; os.kill(os.getpid(), signal.SIGINT)")
    command = [sys.executable, "-m", "tf_operator.cli", "plan", "-f", "-"]
    ended = subprocess.run(command, env={"PYTHONPATH": str(tmp_path)}, input=b"", capture_output=True, check=False)

    assert (ended.returncode, ended.stdout, ended.stderr) == (-signal.SIGINT, b"", b"")


OUTPUTS = {"a full disk": (">/dev/full", "No space left on device"), "none": (">&-", "Bad file descriptor")}


@pytest.mark.parametrize("line", ["--help", "--version", "completion bash", "plan -f -"])
@pytest.mark.parametrize(("output", "cause"), OUTPUTS.values(), ids=OUTPUTS.keys())
def test_an_output_that_cannot_be_written_is_one_sentence(line, output, cause):
    job = kube_yaml.write(tfjob("j").workers(1).body())
    buffered = os.environ | {"PYTHONUNBUFFERED": ""}
    command = [shutil.which("sh") or "/bin/sh", "-c", f"{sys.executable} -m tf_operator.cli {line} {output}"]
    ended = subprocess.run(command, env=buffered, input=job, capture_output=True, text=True, check=False)

    assert (ended.returncode, ended.stderr) == (1, f"tfjob: cannot write to standard output: {cause}\n")


@pytest.mark.parametrize(
    ("lines", "outcome", "code"),
    [(100_000, 0, 141), (1, 0, 141), (1, 3, 3)],
    ids=["while it prints", "after its success", "after its failure"],
)
def test_a_command_whose_reader_has_gone_never_exits_with_0(lines, outcome, code):
    program = f"""
import sys
from tf_operator.cli import main
from tf_operator.cli.commands import plan

def run(arguments):
    for _ in range({lines}):
        print("a line")
    return {outcome}

plan.run = run
sys.exit(main.main(["plan", "-f", "-"]))
"""
    reader, writer = os.pipe()
    os.close(reader)
    buffered = os.environ | {"PYTHONUNBUFFERED": ""}  # so that a short output fails at the end only
    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, env=buffered, stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)

    assert (ended.returncode, ended.stderr) == (code, b"")
