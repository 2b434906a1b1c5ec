"""docs/cli.md shows what the program prints."""

import re
from pathlib import Path

import pytest

from support.builders import tfjob
from support.templates import Template
from tf_operator.cli import kube_yaml, main

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
EXAMPLE = re.compile(r"^```\n\$ tfjob (.+)\n((?:.*\n)*?)```$", re.MULTILINE)


def test_the_examples_are_what_the_program_prints(capsys, monkeypatch, tmp_path):
    wrong = tfjob("j").workers(1, template=Template()).backoff_limit(-1)
    template = {"spec": {"tolerance": []}}
    spec = {"suspend": True, "tfReplicaSpecs": {"Worker": {"template": template}}}
    (tmp_path / "job.yaml").write_text(kube_yaml.write(wrong.merged({"spec": spec}).body()))
    (tmp_path / "manifests").symlink_to(ROOT / "manifests")
    monkeypatch.chdir(tmp_path)

    examples = EXAMPLE.findall(PAGE)

    assert len(examples) == 2
    for command, shown in examples:
        main.main(command.split())
        printed = capsys.readouterr()
        assert printed.err + printed.out == shown


def test_every_option_is_on_the_page(capsys):
    with pytest.raises(SystemExit):
        main.main(["plan", "--help"])
    entries = re.findall(r"^  (-(?!h, --help).*)$", capsys.readouterr().out, re.MULTILINE)
    spellings = [re.findall(r"(?<![\w-])--?[a-z][a-z-]*", entry) for entry in entries]

    assert [names for names in spellings if not any(f"`{name}" in PAGE for name in names)] == []
    assert len(spellings) == 6
