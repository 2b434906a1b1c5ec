"""The files of manifests/examples: listed, explained, and made of programs that at least are Python."""

import ast
import re
from pathlib import Path

import pytest
import yaml

FOLDER = Path(__file__).resolve().parents[3] / "manifests/examples"
FILES = sorted(FOLDER.glob("*.yaml"))


def pods(path):
    """The pod spec of each type of replica."""
    for document in yaml.load_all(path.read_text(), yaml.CSafeLoader):
        for replica in document["spec"].get("tfReplicaSpecs", {}).values():
            yield replica["template"]["spec"]


def test_the_readme_lists_every_file_of_the_folder_and_no_other():
    entries = re.findall(r"^\| \[(\S+)\]\((\S+)\)", (FOLDER / "README.md").read_text(), re.MULTILINE)

    assert all(name == target for name, target in entries)
    assert {name for name, _ in entries} | {"README.md"} == {path.name for path in FOLDER.iterdir()}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_starts_with_what_it_shows_and_runs_short_python_in_a_release_that_users_have(path):
    first, second, *_ = path.read_text().splitlines()
    containers = [container for spec in pods(path) for container in spec["containers"]]

    assert re.fullmatch(r"# [A-Z].{20,}[.:]", first)
    assert second.startswith("#")
    assert containers
    for container in containers:
        assert re.fullmatch(r"tensorflow/tensorflow:2\.\d+\.\d+(-gpu)?", container["image"])
        assert container["command"] == ["python", "-c"]
        (program,) = container["args"]
        ast.parse(program)
        assert len(program.splitlines()) < 40


OF_THEIR_OWN = {"kubeflow-v1alpha1", "kubeflow-v1alpha1-fork", "kubeflow-v1beta1", "mlkube", "t9k"}
"""Folders with the manifests of documents, which stay as they are."""


def test_every_job_of_the_examples_says_why_it_fails_under_any_operator():
    """A log of a training is shown in its status by ``FallbackToLogsOnError`` alone, which others do not set."""
    files = [path for path in FOLDER.rglob("*.yaml") if not OF_THEIR_OWN & {parent.name for parent in path.parents}]
    texts = {path: path.read_text() for path in files}
    silent = [
        str(path.relative_to(FOLDER))
        for path, text in texts.items()
        if text.count("- name: tensorflow\n") != text.count("terminationMessagePolicy: FallbackToLogsOnError\n")
    ]

    assert sum("- name: tensorflow\n" in text for text in texts.values()) > 20
    assert silent == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_mounted_claim_is_made_by_the_same_file(path):
    documents = yaml.load_all(path.read_text(), yaml.CSafeLoader)
    claims = {item["metadata"]["name"] for item in documents if item["kind"] == "PersistentVolumeClaim"}
    volumes = [volume for spec in pods(path) for volume in spec.get("volumes", ())]

    assert claims == {item["persistentVolumeClaim"]["claimName"] for item in volumes if "persistentVolumeClaim" in item}
