"""docs/cli.md shows what the program prints."""

import re
from pathlib import Path

import pytest

from commands import reference
from pages.parts import PartMissingError
from support.embedded.embedded_jobs import EmbeddedJobs
from support.jobs.builders import tfjob
from support.jobs.templates import Template
from tf_operator.cli import main, session
from tf_operator.client.manifests import kube_yaml
from tf_operator.machinery.clock import SystemClock

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
EXAMPLE = re.compile(r"^```text\n\$ tfjob (.+)\n((?:.*\n)*?)```$", re.MULTILINE)


@pytest.fixture
def folder(monkeypatch, tmp_path):
    """Where the examples are typed: with a manifest that has errors, and a cluster with a job that waits."""
    wrong = tfjob("j").workers(1, template=Template()).backoff_limit(-1)
    template = {"spec": {"tolerance": []}}
    spec = {"suspend": True, "tfReplicaSpecs": {"Worker": {"template": template}}}
    (tmp_path / "wrong.yaml").write_text(kube_yaml.write(wrong.merged({"spec": spec}).body()))
    (tmp_path / "manifests").symlink_to(ROOT / "manifests")
    monkeypatch.chdir(tmp_path)
    cluster = EmbeddedJobs(SystemClock())
    job = cluster.job("mnist")
    cluster.report("mnist")
    cluster.pod(job, "chief-0")
    message = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
    scheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    cluster.pod(job, "worker-0", "Pending", conditions=[scheduled])
    monkeypatch.setattr(session, "make_jobs", lambda *_: cluster.client())


def test_the_examples_are_what_the_program_prints(capsys, folder):
    examples = EXAMPLE.findall(PAGE)

    assert len(examples) == 2
    for command, output in examples:
        main.main(command.split())
        printed = capsys.readouterr()
        assert printed.err + printed.out == output


def test_a_page_without_a_command_is_refused():
    with pytest.raises(PartMissingError, match="tfjob wait"):
        reference.fill(PAGE.replace("generated: tfjob wait", "generated: tfjob"))


def test_the_first_commands_of_the_page_can_be_typed(folder):
    block = re.search(r"^```sh\n(tfjob (?:.*\n)*?)```$", PAGE, re.MULTILINE)
    typed = [line.partition("#")[0].split() for line in block[1].splitlines()]

    assert [words[:3] for words in typed] == [["tfjob", "init", "job.yaml"], ["tfjob", "run", "job.yaml"]]
    assert main.main(typed[0][1:]) == 0
    assert main.main(["plan", "-f", "job.yaml"]) == 0
