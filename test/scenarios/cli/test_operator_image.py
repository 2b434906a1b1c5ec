"""The operator's own image, as ``tfjob image push --operator`` and ``tfjob install --registry`` make it, in a registry.

No package is had from outside here: the lock is empty, unless pip is to fail. test/cluster/e2e runs an image with all.
"""

import io
import json
import sys
import tarfile

import pytest

from support.partners.image_registry import ImageRegistry, image_of
from support.partners.wheels import WITHOUT_INDEX
from tf_operator.cli import main
from tf_operator.client.images import operator_image

pytestmark = pytest.mark.programs("registry")
HERE = f"{sys.version_info[0]}.{sys.version_info[1]}"
PACKAGES = f"opt/tf-operator/lib/python{HERE}/site-packages"


@pytest.fixture(autouse=True)
def _without_login(tmp_path, monkeypatch):
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))


@pytest.fixture
def without_packages(monkeypatch):
    monkeypatch.setattr(operator_image, "requirements", lambda: "")


@pytest.fixture
def registry(tmp_path):
    with ImageRegistry.up(tmp_path / "registry") as registry:
        yield registry


def put_base(registry, *variables, architectures=("amd64",)):
    images = [image_of({"usr/local/bin/python3": b""}, architecture=it, Env=[*variables]) for it in architectures]
    registry.put_image("python", "1", images)


def push(registry, tag="1", *arguments):
    base = f"{registry.address}/python:1"
    return main.main(
        ["image", "push", f"{registry.address}/tf-operator:{tag}", "--operator", "--base", base, *arguments]
    )


def content(registry, manifest):
    layer = registry.blob("tf-operator", manifest["layers"][-1]["digest"])
    with tarfile.open(fileobj=io.BytesIO(layer)) as archive:
        return {entry.name: (entry, archive.extractfile(entry).read() if entry.isreg() else b"") for entry in archive}


@pytest.mark.usefixtures("without_packages")
def test_it_begins_as_that_of_the_dockerfile_and_has_a_virtual_environment_for_the_base(registry):
    put_base(registry, "PATH=/usr/local/bin:/usr/bin", "LANG=C.UTF-8", f"PYTHON_VERSION={HERE}.9")

    assert push(registry) == 0

    manifest = registry.manifest("tf-operator", "1")
    config = json.loads(registry.blob("tf-operator", manifest["config"]["digest"]))["config"]
    assert (config["User"], config["Entrypoint"], config["Cmd"]) == ("65532:65532", ["tf-operator"], ["run"])
    assert config["WorkingDir"] == "/"
    assert {"LANG=C.UTF-8", "PATH=/opt/tf-operator/bin:/usr/local/bin:/usr/bin:/bin"} <= set(config["Env"])
    files = content(registry, manifest)
    program, text = files["opt/tf-operator/bin/tf-operator"]
    assert (program.mode, text.splitlines()[0]) == (0o755, b"#!/opt/tf-operator/bin/python")
    assert files["opt/tf-operator/bin/python3"][0].linkname == "/usr/local/bin/python3"
    assert b"home = /usr/local/bin" in files["opt/tf-operator/pyvenv.cfg"][1]
    assert f"{PACKAGES}/tf_operator/client/installation/objects.json" in files
    assert f"{PACKAGES}/tf_operator-{operator_image.version()}.dist-info/entry_points.txt" in files
    compiled = files[f"{PACKAGES}/tf_operator/__pycache__/__init__.cpython-{HERE.replace('.', '')}.pyc"][1]
    assert compiled[4] == 1, "a module is compiled for its content, and not for its time"


@pytest.mark.usefixtures("without_packages")
def test_the_same_operator_gives_the_same_digest_and_is_not_compiled_for_another_python(registry, capsys):
    put_base(registry, "PYTHON_VERSION=3.99.1", architectures=("amd64", "arm64"))

    assert push(registry) == 0
    assert push(registry, "2") == 0

    first, second = (line.partition("@")[2] for line in capsys.readouterr().out.splitlines())
    assert first == second
    index = registry.manifest("tf-operator", "1")
    assert [it["platform"]["architecture"] for it in index["manifests"]] == ["amd64", "arm64"]
    files = content(registry, registry.manifest("tf-operator", index["manifests"][0]["digest"]))
    assert not [name for name in files if "__pycache__" in name]


@pytest.mark.parametrize(
    ("variable", "sentence"),
    [
        ("LANG=C", "/python:1 does not say which Python it has"),
        ("PYTHON_VERSION=three", "/python:1 does not say which Python it has"),
        ("PYTHON_VERSION=3.10.4", "/python:1 has Python 3.10.4, and the operator needs 3.11 or newer"),
    ],
)
def test_a_base_without_a_python_for_it_is_a_sentence_and_nothing_is_pushed(registry, capsys, variable, sentence):
    put_base(registry, variable)

    assert push(registry) == 1

    assert sentence in capsys.readouterr().err
    assert not any("/tf-operator/" in request for request in registry.requests())


def test_packages_that_cannot_be_had_are_a_sentence_and_nothing_is_pushed(registry, capsys, monkeypatch):
    for name, value in {**WITHOUT_INDEX, "PIP_FIND_LINKS": ""}.items():
        monkeypatch.setenv(name, value)
    put_base(registry, f"PYTHON_VERSION={HERE}.9")

    assert push(registry) == 1

    assert "tfjob: the operator's packages cannot be had: there is no wheel of " in capsys.readouterr().err
    assert not any("/tf-operator/" in request for request in registry.requests())


def test_nothing_is_added_to_it(registry, capsys):
    assert push(registry, "1", "--add", ".:/app") == 2
    assert "--operator and --add cannot be combined" in capsys.readouterr().err
