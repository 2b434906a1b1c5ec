"""The real trainings of manifests/examples/training: what the files say of each other is so."""

import re
from pathlib import Path

import pytest
import yaml

from lab.cluster import image_archives

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "manifests/examples/training"
JOBS = sorted(FOLDER.glob("*.yaml"))


def containers(path):
    """The container of each replica of the job."""
    for document in yaml.load_all(path.read_text(), yaml.CSafeLoader):
        for replica in document["spec"].get("tfReplicaSpecs", {}).values():
            yield from replica["template"]["spec"]["containers"]


@pytest.mark.parametrize("path", JOBS, ids=lambda path: path.stem)
def test_a_job_runs_a_program_of_the_folder_in_the_image_that_is_built_of_it(path):
    version = re.search(r"^tensorflow-cpu==(\S+)", (ROOT / "hack/requirements/training.txt").read_text(), re.MULTILINE)

    assert {it["image"] for it in containers(path)} == {image_archives.RECIPES["training"].name}
    assert image_archives.RECIPES["training"].name == f"localhost/tf-operator-training:{version[1]}"
    for container in containers(path):
        words = " ".join([*container["command"], *container["args"]])
        assert (FOLDER / re.search(r"\bpython3 /training/(\w+\.py)", words)[1]).is_file()


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_a_program_asks_tensorflow_who_it_is_and_reads_no_environment(path):
    text = path.read_text()

    assert "environ" not in text
    assert "getenv" not in text


def test_the_readme_lists_every_file():
    linked = set(re.findall(r"\]\(([\w.-]+)\)", (FOLDER / "README.md").read_text()))

    assert linked == {path.name for path in FOLDER.iterdir()} - {"README.md", "__pycache__"}
