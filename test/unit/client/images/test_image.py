"""Documents of images."""

import json

import pytest

from tf_operator.client.images import image
from tf_operator.client.images.image import Descriptor
from tf_operator.client.images.image_name import ImageName
from tf_operator.client.images.repository import INDEXES, MANIFESTS, ImageManifest
from tf_operator.client.job import NotPossible

BASE = ImageName("docker.io", "library/base", "1")
TOP = Descriptor("application/vnd.oci.image.layer.v1.tar", "sha256:top", 3)


def manifest(**body: object) -> ImageManifest:
    return ImageManifest(MANIFESTS[0], "sha256:base", body)


def entry(architecture: str, digest: str, **platform: str) -> dict:
    return {"digest": digest, "platform": {"os": "linux", "architecture": architecture, **platform}}


def test_of_an_index_the_images_of_the_platforms_count():
    attestation = {"digest": "sha256:d", "platform": {"os": "unknown", "architecture": "unknown"}}
    entries = [
        entry("arm64", "sha256:a", variant="v8"),
        entry("arm64", "sha256:b"),
        entry("s390x", "sha256:c"),
        attestation,
    ]
    index = ImageManifest(INDEXES[0], "", {"manifests": entries})

    assert image.digests_by_platform(BASE, index, ("linux/amd64", "linux/arm64")) == {"linux/arm64": "sha256:a"}
    with pytest.raises(NotPossible, match=r"docker.io/library/base:1 has no image for linux/amd64"):
        image.digests_by_platform(BASE, index, ("linux/amd64",))


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({}, "the manifest of docker.io/library/base:1 is damaged"),
        ({"layers": [{"digest": "sha256:a"}]}, "the manifest of docker.io/library/base:1 is damaged"),
        (
            {"layers": [{"mediaType": "foreign", "digest": "sha256:a", "size": 1}]},
            "docker.io/library/base:1 has a layer that cannot be passed on: foreign",
        ),
    ],
    ids=["empty", "field", "foreign"],
)
def test_a_base_whose_layers_cannot_be_used_is_a_sentence(body, sentence):
    with pytest.raises(NotPossible) as refusal:
        image.layers(BASE, manifest(**body))
    assert str(refusal.value) == sentence


def test_what_is_no_image_is_a_sentence():
    with pytest.raises(NotPossible, match="is not an image, but application/wasm"):
        image.layers(BASE, ImageManifest("application/wasm", "", {"layers": []}))


@pytest.mark.parametrize("body", [{}, {"config": []}, {"config": {"digest": 1}}])
def test_a_manifest_without_a_configuration_is_a_sentence(body):
    with pytest.raises(NotPossible, match="is damaged"):
        image.config_digest(BASE, manifest(**body))


@pytest.mark.parametrize("config", [{}, {"rootfs": {}}, {"rootfs": []}])
def test_a_configuration_without_layers_is_a_sentence(config):
    with pytest.raises(NotPossible, match=r"the configuration of docker.io/library/base:1 is damaged"):
        image.build(BASE, manifest(layers=[]), config, [TOP], process={})


def test_an_image_keeps_what_it_is_not_asked_to_change():
    config = {"author": "ann", "config": {"User": "1", "WorkingDir": "/"}, "rootfs": {"diff_ids": ["sha256:a"]}}
    built = image.build(BASE, manifest(layers=[]), config, [TOP], process={})

    changed = json.loads(built.config)
    assert changed["config"] == config["config"]
    assert (changed["author"], changed["rootfs"]["diff_ids"]) == ("ann", ["sha256:a", "sha256:top"])
