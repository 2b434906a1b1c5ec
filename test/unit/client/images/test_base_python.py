"""What the layers of a base say of its Python."""

import gzip
import hashlib
import io
import tarfile

import pytest

from tf_operator.client.images import base_python
from tf_operator.client.images.image_name import ImageName
from tf_operator.client.images.push import BaseImage
from tf_operator.client.images.repository import MANIFESTS, ImageManifest
from tf_operator.client.job import NotPossible

PACKAGES = "usr/local/lib/python3.11/dist-packages"
NUMBERS = f"{PACKAGES}/arrays-1.0.dist-info/METADATA"


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


class Layers:
    """A repository that has nothing but layers."""

    def __init__(self, *layers: bytes) -> None:
        self.name = ImageName("registry", "base", "1")
        self.layers = {f"sha256:{hashlib.sha256(layer).hexdigest()}": layer for layer in layers}
        self.downloads = 0

    async def download(self, digest, file):
        self.downloads += 1
        file.write(self.layers[digest])

    def image(self, *variables: str) -> BaseImage:
        layers = [
            {"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", "digest": digest, "size": 1}
            for digest in self.layers
        ]
        return BaseImage(ImageManifest(MANIFESTS[0], "", {"layers": layers}), {"config": {"Env": [*variables]}}, self)


def layer(*names: str, **texts: str) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for name, text in {**dict.fromkeys(names, ""), **texts}.items():
            info = tarfile.TarInfo(f"./{name}")
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))
    return gzip.compress(content.getvalue())


async def test_packages_of_all_layers_count_but_for_those_that_a_later_layer_removes():
    kept = f"{PACKAGES}/kept-2.0.dist-info/METADATA"
    layers = Layers(
        layer(f"{PACKAGES}/old-1.dist-info/METADATA", **{NUMBERS: "Name: arrays\n\nlong text", kept: "Name: kept\n\n"}),
        layer(
            f"{PACKAGES}/.wh.arrays-1.0.dist-info", "usr/local/lib/python3.11/dist-packages/new-1.dist-info/METADATA"
        ),
        layer(
            "opt/venv/lib/python3.12/site-packages/other-1.dist-info/METADATA",
            f"{PACKAGES}/old-1.dist-info/.wh..wh..opq",
        ),
    )

    python = await base_python.read(layers.image(), (3, 11))

    assert python.packages == {"kept-2.0.dist-info": "Name: kept", "new-1.dist-info": ""}


@pytest.mark.parametrize(
    ("variables", "files", "release"),
    [
        (["PYTHON_VERSION=3.12.4"], [NUMBERS], (3, 12, 4)),
        (["PYTHON_VERSION=python3.11"], ["usr/lib/python3.10/os.py", NUMBERS], (3, 11)),
        ([], ["usr/lib64/python3.9/os.py"], (3, 9)),
    ],
    ids=["official image", "packages", "no packages"],
)
async def test_the_release_is_that_of_the_packages_unless_the_image_says_it(variables, files, release):
    python = await base_python.read(Layers(layer(*files)).image(*variables), None)

    assert python.release == release


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (layer("bin/sh"), "registry/base:1 has no Python where it usually is: say with --python"),
        (
            layer("lib/python3.9/os.py", "lib/python3.12/os.py"),
            "registry/base:1 has Python 3.9 and 3.12: say with --python which",
        ),
        (layer(f"lib/python3.{'1' * 5000}/os.py"), "registry/base:1 has no Python where it usually is"),
        (b"no archive", "a layer of registry/base:1 cannot be read"),
        (layer(NUMBERS)[:60], "a layer of registry/base:1 cannot be read"),
        (b"\x28\xb5\x2f\xfd", "for its Python packages: it is compressed with zstd"),
    ],
    ids=["none", "two", "endless", "not an archive", "cut", "zstd"],
)
async def test_a_base_that_does_not_say_it_is_a_sentence(content, sentence):
    with pytest.raises(NotPossible, match=sentence) as raised:
        await base_python.read(Layers(content).image(), None)
    assert "\n" not in str(raised.value)


async def test_a_layer_is_read_once():
    layers = Layers(layer(**{NUMBERS: "Name: arrays"}))

    first = await base_python.read(layers.image(), None)
    again = await base_python.read(layers.image(), None)

    assert layers.downloads == 1
    assert first == again


async def test_a_link_to_a_file_of_another_layer_is_no_package():
    link = tarfile.TarInfo("env/lib/python3.11/site-packages/arrays-1.0.dist-info/METADATA")
    link.type, link.linkname = tarfile.SYMTYPE, f"/{NUMBERS}"
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        archive.addfile(link)
    layers = Layers(layer(**{NUMBERS: "Name: arrays"}), content.getvalue())

    python = await base_python.read(layers.image(), None)

    assert python.packages == {"arrays-1.0.dist-info": "Name: arrays"}


async def test_of_two_versions_of_a_package_the_one_that_is_imported_counts():
    hides = "opt/requirements/lib/python3.11/site-packages/Arrays-2.0.dist-info/METADATA"
    other = "usr/lib/python3.11/site-packages/arrays-0.1.dist-info/METADATA"
    layers = Layers(layer(**{hides: "Name: Arrays", NUMBERS: "Name: arrays"}), layer(**{other: "Name: arrays"}))

    image = layers.image("PYTHONPATH=/own:/opt/requirements/lib/python3.11/site-packages")
    python = await base_python.read(image, None)

    assert python.packages == {"Arrays-2.0.dist-info": "Name: Arrays"}


@pytest.mark.parametrize("name", ["~rrays-1.0", "arrays,-1.0", "arrays\n-1.0", "\udcff-1.0", "a" * 250])
async def test_what_pip_would_not_call_a_package_is_none(name):
    other = f"{PACKAGES}/{name}.dist-info/METADATA"

    python = await base_python.read(Layers(layer(NUMBERS, other)).image(), None)

    assert list(python.packages) == ["arrays-1.0.dist-info"]
