"""hack/sbom: what an image has, by its own package databases, whatever its layers added, replaced and removed."""

import gzip
import hashlib
import io
import json
import tarfile

import pytest

import oci_archive
import sbom

COPYRIGHT = """\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Files: *
License: GPL-2+ and BSD-3-clause
Files: debian/*
License: Expat, and public-domain
"""
DPKG = """\
Package: zlib1g
Status: install ok installed
Architecture: amd64
Source: zlib (1:1.2.13.dfsg-1)
Version: 1:1.2.13.dfsg-1+b1

Package: removed
Status: deinstall ok config-files
Architecture: amd64
Version: 1

Package: bash
Status: install ok installed
Architecture: amd64
Version: 5.2

"""
BASE = {
    "usr/lib/os-release": 'ID=debian\nVERSION_ID="12"\n',
    "var/lib/dpkg/status": DPKG,
    "usr/share/doc/zlib1g/copyright": COPYRIGHT,
    "usr/share/doc/bash/copyright": "See /usr/share/common-licenses/GPL-3, or /usr/share/common-licenses/GPL-2.",
    "usr/lib/python3/dist-packages/a.dist-info/METADATA": "Name: of-debian\nVersion: 1\n",
    "usr/local/lib/python3.13/site-packages/pip-1.dist-info/METADATA": "Name: pip\nVersion: 1\nLicense: MIT\n",
    "usr/local/lib/python3.13/site-packages/old-1.dist-info/METADATA": "Name: old\nVersion: 1\n",
}
OWN = {
    "usr/local/lib/python3.13/site-packages/.wh.old-1.dist-info": "",
    "opt/venv/One_Part-2.dist-info/METADATA": "Name: One_Part\nVersion: 2+x\nLicense-Expression: MIT OR 0BSD\n\nText.",
    "opt/venv/b-3.dist-info/METADATA": "Name: b\nVersion: 3\n"
    "Classifier: License :: OSI Approved :: Apache Software License\nLicense: (the whole text)\n",
    "usr/share/doc/bash/README": "ignored",
}


def tarred(files):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(f"./{name}" if name.startswith("usr") else name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content.encode() if isinstance(content, str) else content))
    return buffer.getvalue()


class Archive:
    """An OCI archive in the making, with an image of the two layers for each platform."""

    def __init__(self, *architectures):
        self._files = {}
        manifests = [self._blob(self._image(architecture)) for architecture in architectures]
        self._files["index.json"] = json.dumps({"manifests": [self._blob({"manifests": manifests})]}).encode()

    def _image(self, architecture):
        layers = [
            self._blob(gzip.compress(tarred(BASE), mtime=0), "application/vnd.oci.image.layer.v1.tar+gzip"),
            self._blob(tarred(OWN), "application/vnd.oci.image.layer.v1.tar"),
        ]
        labels = {"org.opencontainers.image.version": "0.1.0"}
        config = {
            "os": "linux",
            "architecture": architecture,
            "created": "2030-01-02T03:04:05Z",
            "config": {"Labels": labels, "Env": ["PATH=/bin", "PYTHON_VERSION=3.13.9"]},
        }
        return {"config": self._blob(config), "layers": layers}

    def _blob(self, content, media_type=""):
        content = content if isinstance(content, bytes) else json.dumps(content).encode()
        name = hashlib.sha256(content).hexdigest()
        self._files[f"blobs/sha256/{name}"] = content
        return {"digest": f"sha256:{name}", "mediaType": media_type}

    def write(self, path):
        path.write_bytes(tarred(self._files))
        return path


@pytest.fixture
def archive(tmp_path):
    return Archive("arm64", "amd64").write(tmp_path / "image.tar")


def test_it_has_what_the_layers_together_have_of_the_base_and_of_python(archive):
    document = json.loads(sbom.write(archive, "linux/amd64"))

    distribution = "?arch=amd64&distro=debian-12&upstream="
    assert {part["bom-ref"]: part.get("licenses", []) for part in document["components"]} == {
        "os:debian@12": [],
        f"pkg:deb/debian/bash@5.2{distribution}bash%405.2": [
            {"license": {"id": "GPL-3.0-only"}},
            {"license": {"id": "GPL-2.0-only"}},
        ],
        f"pkg:deb/debian/zlib1g@1:1.2.13.dfsg-1%2Bb1{distribution}zlib%401%3A1.2.13.dfsg-1": [
            {"license": {"id": "GPL-2.0-or-later"}},
            {"license": {"id": "BSD-3-Clause"}},
            {"license": {"id": "MIT"}},
            {"license": {"name": "public-domain"}},
        ],
        "pkg:generic/python@3.13.9": [{"license": {"id": "PSF-2.0"}}],
        "pkg:pypi/b@3": [{"license": {"id": "Apache-2.0"}}],
        "pkg:pypi/one-part@2%2Bx": [{"expression": "MIT OR 0BSD"}],
        "pkg:pypi/pip@1": [{"license": {"id": "MIT"}}],
    }


def test_each_platform_has_a_list_of_its_own_that_names_its_image(archive):
    images = {image.platform: image.digest for image in oci_archive.images(archive)}
    documents = {platform: json.loads(sbom.write(archive, platform)) for platform in images}

    assert set(images) == {"linux/amd64", "linux/arm64"}
    for platform, document in documents.items():
        about = document["metadata"]["component"]
        assert images[platform].replace(":", "%3A") in about["purl"]
        assert (about["version"], document["metadata"]["timestamp"]) == ("0.1.0", "2030-01-02T03:04:05Z")
    assert len({document["serialNumber"] for document in documents.values()}) == 2


@pytest.mark.parametrize(
    ("content", "platform", "rule"),
    [
        (b"no archive", "", "is no OCI archive"),
        (tarred({"index.json": "{}"}), "", "is no OCI archive: 'manifests'"),
        (None, "linux/s390x", "has no image for linux/s390x"),
    ],
)
def test_what_cannot_be_listed_is_refused(archive, capsys, content, platform, rule):
    if content is not None:
        archive.write_bytes(content)

    assert sbom.main([str(archive), "--platform", platform]) == 1
    assert rule in capsys.readouterr().err
