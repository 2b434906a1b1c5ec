"""Names of images."""

import pytest

from tf_operator.client.images import image_name
from tf_operator.client.images.image_name import ImageName
from tf_operator.client.job import NotPossible

DIGEST = f"sha256:{'a' * 64}"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("python", ImageName("docker.io", "library/python", "latest")),
        ("tensorflow/tensorflow:2.19.0", ImageName("docker.io", "tensorflow/tensorflow", "2.19.0")),
        ("index.docker.io/team/x:1", ImageName("docker.io", "team/x", "1")),
        ("registry.example.com/team/x:1", ImageName("registry.example.com", "team/x", "1")),
        ("localhost/x", ImageName("localhost", "x", "latest")),
        ("localhost:5000/x:1", ImageName("localhost:5000", "x", "1")),
        ("[::1]:5000/x:1", ImageName("[::1]:5000", "x", "1")),
        (f"ghcr.io/a/b__c@{DIGEST}", ImageName("ghcr.io", "a/b__c", DIGEST)),
        (f"ghcr.io/a/b:1@{DIGEST}", ImageName("ghcr.io", "a/b", DIGEST)),
    ],
)
def test_a_name_is_read_as_docker_reads_it(text, name):
    assert image_name.parse(text) == name
    assert image_name.parse(str(name)) == name


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "it has small letters"),
        ("Team/x:1", "it has small letters"),
        ("registry.example.com/team/x:", "the tag is empty"),
        ("registry.example.com/team/x:a b", "'a b' is no tag"),
        ("registry.example.com/team/x@sha256:12", "'sha256:12' is no digest"),
        ("https://registry.example.com/x:1", "'https:' is not the address of a registry"),
        ("-x.example.com/x:1", "'-x.example.com' is not the address of a registry"),
    ],
)
def test_what_is_no_name_is_refused_with_the_reason(text, problem):
    with pytest.raises(NotPossible) as refusal:
        image_name.parse(text)
    assert str(refusal.value).startswith(f"{text!r} is not the name of an image: {problem}")


@pytest.mark.parametrize("text", ["r.example.com/x", "r.example.com:5000/x", f"r.example.com/x@{DIGEST}"])
def test_an_image_is_pushed_by_a_tag_that_is_named(text):
    with pytest.raises(NotPossible, match=r"name (one, as in .*/x:1|a tag instead)$"):
        image_name.parse_target(text)


@pytest.mark.parametrize(
    ("host", "is_loopback"),
    [("localhost", True), ("127.0.0.9", True), ("::1", True), ("10.0.0.1", False), ("localhost.example.com", False)],
)
def test_only_this_machine_is_loopback(host, is_loopback):
    assert image_name.is_loopback(host) is is_loopback
