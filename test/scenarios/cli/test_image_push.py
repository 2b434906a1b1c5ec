"""``tfjob image push`` and the real registry: what arrives, who is let in, and what a cut leaves."""

import base64
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import trustme

from lab.tools.get import programs
from support import doc_pages
from support.disturbances.cut_line import CutLine
from support.partners.image_registry import (
    IDENTITY,
    OCI_INDEX,
    OCI_MANIFEST,
    PASSWORD,
    USER,
    Access,
    ImageRegistry,
    digest_of,
    image_of,
)
from support.partners.wheels import WITHOUT_INDEX, write_wheel
from tf_operator.cli import main
from tf_operator.client.images import repository

pytestmark = pytest.mark.programs("registry")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Where the command is typed: a program, and no login."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text("print('hello')\n")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    return folder


@pytest.fixture
def registry(tmp_path):
    with ImageRegistry.up(tmp_path / "registry") as registry:
        yield registry


def push(registry: ImageRegistry, *arguments: str, base: str = "base:1", image: str = "team/train:1") -> int:
    names = [f"{registry.address}/{image}", "--base", f"{registry.address}/{base}"]
    return main.main(["image", "push", *names, *arguments])


def log_in(tmp_path, registry: ImageRegistry, user: str = USER, password: str = PASSWORD) -> None:
    auth = base64.b64encode(f"{user}:{password}".encode()).decode()
    config(tmp_path, {"auths": {registry.address: {"auth": auth}}})


def config(tmp_path, content: dict) -> None:
    path = tmp_path / "docker" / "config.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content))


def files_of(content: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        return {entry.name: archive.extractfile(entry).read() for entry in archive if entry.isreg()}


def test_an_image_has_the_layers_of_its_base_and_one_of_the_folder(registry, capsys):
    base = image_of({"etc/os": b"linux"}, Env=["A=1"], WorkingDir="/")
    base_digest = registry.put_image("base", "1", [base])

    assert push(registry) == 0

    manifest = registry.manifest("team/train", "1")
    image_config = json.loads(registry.blob("team/train", manifest["config"]["digest"]))
    layers = [registry.blob("team/train", layer["digest"]) for layer in manifest["layers"]]
    assert layers[0] == base.layers[0]
    assert files_of(layers[1]) == {"app/train.py": b"print('hello')\n"}
    assert image_config["config"] == {"Env": ["A=1"], "WorkingDir": "/app"}
    assert image_config["rootfs"]["diff_ids"] == [*base.config["rootfs"]["diff_ids"], digest_of(layers[1])]
    assert manifest["mediaType"] == OCI_MANIFEST
    assert manifest["annotations"]["org.opencontainers.image.base.digest"] == base_digest
    name, _, digest = capsys.readouterr().out.strip().partition("@")
    assert name == f"{registry.address}/team/train:1"
    assert registry.manifest("team/train", digest) == manifest


def test_a_base_of_two_platforms_makes_an_image_of_both(registry):
    platforms = ("amd64", "arm64", "s390x")
    registry.put_image("base", "1", [image_of({"arch": it.encode()}, architecture=it) for it in platforms])

    assert push(registry) == 0

    index = registry.manifest("team/train", "1")
    images = {entry["platform"]["architecture"]: entry["digest"] for entry in index["manifests"]}
    manifests = [registry.manifest("team/train", digest) for digest in images.values()]
    assert (index["mediaType"], list(images)) == (OCI_INDEX, ["amd64", "arm64"])
    assert len({manifest["layers"][0]["digest"] for manifest in manifests}) == 2
    assert len({manifest["layers"][1]["digest"] for manifest in manifests}) == 1


def test_a_base_of_docker_becomes_an_image_of_oci(registry):
    base = image_of({"etc/os": b"linux"}, is_of_docker=True)
    registry.put_image("base", "1", [base])

    assert push(registry) == 0

    manifest = registry.manifest("team/train", "1")
    types = {manifest["mediaType"], manifest["config"]["mediaType"], *(it["mediaType"] for it in manifest["layers"])}
    assert not any("docker" in media_type for media_type in types)
    assert registry.blob("team/train", manifest["layers"][0]["digest"]) == base.layers[0]


def test_the_same_files_give_the_same_digest_whenever_and_wherever_they_are(
    registry, capsys, folder, tmp_path, monkeypatch
):
    registry.put_image("base", "1", [image_of({"etc/os": b"linux"})])
    assert push(registry) == 0
    other = tmp_path / "other"
    other.mkdir(mode=0o700)
    (other / "train.py").write_text("print('hello')\n")
    (other / "train.py").chmod(0o600)
    monkeypatch.chdir(other)
    assert push(registry, image="team/train:2") == 0

    first, second = (line.partition("@")[2] for line in capsys.readouterr().out.splitlines())
    assert first == second


def test_layers_of_a_base_in_the_same_registry_are_mounted_and_not_sent(registry):
    registry.put_image("base", "1", [image_of({"etc/os": b"linux"})])
    earlier = len(registry.requests())

    assert push(registry) == 0

    requests = registry.requests()[earlier:]
    assert sum("mount=" in request for request in requests) == 1
    assert sum(request.startswith("PUT") and "/blobs/" in request for request in requests) == 2  # layer and config
    assert not any(
        request.startswith("GET") and "/base/blobs/" in request and "config" in request for request in requests
    )


def test_layers_of_a_base_in_another_registry_are_copied(registry, tmp_path):
    base = image_of({"etc/os": b"linux"})
    with ImageRegistry.up(tmp_path / "other") as other:
        other.put_image("base", "1", [base])
        names = [f"{registry.address}/team/train:1", "--base", f"{other.address}/base:1"]
        assert main.main(["image", "push", *names]) == 0

    manifest = registry.manifest("team/train", "1")
    assert registry.blob("team/train", manifest["layers"][0]["digest"]) == base.layers[0]


def test_what_has_arrived_is_not_sent_again(registry, folder):
    registry.put_image("base", "1", [image_of({"etc/os": b"linux"})])
    assert push(registry) == 0
    earlier = len(registry.requests())

    assert push(registry) == 0

    assert not any("/uploads/" in request for request in registry.requests()[earlier:])


HERE = f"{sys.version_info[0]}.{sys.version_info[1]}"


@pytest.fixture
def wheels(tmp_path, monkeypatch):
    """The only place where pip looks: a package, the one that it requires for each platform, and the source of one."""
    wheels = tmp_path / "wheels"
    for name, value in {**WITHOUT_INDEX, "PIP_FIND_LINKS": str(wheels), "XDG_CACHE_HOME": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    write_wheel(wheels, "tables", "1.0", requires=["arrays>=2"], programs=["show"])
    for machine in ("x86_64", "aarch64"):
        write_wheel(wheels, "arrays", "2.0", tag=f"cp{HERE.replace('.', '')}-abi3-manylinux_2_28_{machine}")
    (wheels / "old-1.0.tar.gz").write_bytes(b"source")
    return wheels


def put_python(registry, *variables: str) -> None:
    """A base of two platforms with this Python and an old package."""
    metadata = b"Metadata-Version: 2.1\nName: arrays\nVersion: 1.0\n"
    files = {f"usr/local/lib/python{HERE}/site-packages/arrays-1.0.dist-info/METADATA": metadata}
    images = [image_of(files, architecture=it, Env=[*variables]) for it in ("amd64", "arm64")]
    registry.put_image("base", "1", images)


@pytest.mark.usefixtures("wheels")
def test_packages_that_a_program_requires_are_found_in_the_image(registry, folder, tmp_path, capsys):
    (folder / "requirements.txt").write_text("tables\n")
    put_python(registry, "PATH=/usr/bin:/bin", "PYTHONPATH=/own")

    assert push(registry, "--requirements", "requirements.txt") == 0
    assert push(registry, "--requirements", "requirements.txt", image="team/train:2") == 0

    first, second = (line.partition("@")[2] for line in capsys.readouterr().out.splitlines())
    assert first == second
    index = registry.manifest("team/train", "1")
    manifests = [registry.manifest("team/train", it["digest"]) for it in index["manifests"]]
    layers = [[layer["digest"] for layer in manifest["layers"]] for manifest in manifests]
    assert [len(it) for it in layers] == [3, 3]
    assert layers[0][1] != layers[1][1], "packages are for a platform"
    assert layers[0][2] == layers[1][2]
    for manifest, own, machine in zip(manifests, layers, ("x86_64", "aarch64"), strict=True):
        root = tmp_path / machine
        for digest in own[1:]:
            root.mkdir(exist_ok=True)
            (tmp_path / "layer").write_bytes(registry.blob("team/train", digest))
            subprocess.run(["tar", "-xf", tmp_path / "layer", "-C", root], check=True)
        config = json.loads(registry.blob("team/train", manifest["config"]["digest"]))
        variables = dict(entry.split("=", 1) for entry in config["config"]["Env"])
        assert variables["PATH"] == "/usr/bin:/bin:/opt/requirements/bin"
        own_paths, _, path = variables["PYTHONPATH"].partition(":")
        assert own_paths == "/own"
        environment = {"PATH": f"{Path(sys.executable).parent}:/usr/bin", "PYTHONPATH": f"{root}{path}"}
        program = "import arrays, tables; print(arrays.tag)"
        tag = subprocess.check_output(["python3", "-c", program], env=environment, text=True)
        assert tag.strip().endswith(machine)
        shown = subprocess.check_output([root / "opt/requirements/bin/show"], env=environment, text=True)
        assert shown == "tables 1.0\n"


@pytest.mark.usefixtures("wheels", "folder")
@pytest.mark.parametrize(
    ("arguments", "sentence", "code"),
    [
        (["--requirements", "old.txt"], "--requirements old.txt: there is no wheel of old for Python ", 1),
        (["--requirements", "absent.txt"], "--requirements: cannot read absent.txt: No such file or directory", 2),
        (["--python", "3.12"], "--python is for --requirements", 2),
        (["--requirements", "old.txt", "--operator"], "--operator and --requirements cannot be combined", 2),
    ],
    ids=["source", "absent", "python", "operator"],
)
def test_packages_that_cannot_be_had_are_a_sentence_and_nothing_is_pushed(registry, capsys, arguments, sentence, code):
    Path("old.txt").write_text("tables\nold\n")
    put_python(registry)

    assert push(registry, *arguments) == code

    assert sentence in capsys.readouterr().err
    assert not any("/team/" in request for request in registry.requests())


@pytest.mark.parametrize("access", [Access.PASSWORD, Access.TOKEN], ids=["password", "token"])
@pytest.mark.parametrize("has_tls", [False, True], ids=["http", "tls"])
def test_a_login_of_docker_lets_in(tmp_path, access, has_tls):
    authority = trustme.CA() if has_tls else None
    with ImageRegistry.up(tmp_path / "registry", access=access, authority=authority) as registry:
        registry.put_image("base", "1", [image_of({"etc/os": b"linux"})])
        log_in(tmp_path, registry)
        arguments = []
        if authority:
            authority.cert_pem.write_to_path(tmp_path / "ca.pem")
            arguments = ["--ca", str(tmp_path / "ca.pem")]

        assert push(registry, *arguments) == 0
        assert registry.tags("team/train") == ["1"]


@pytest.mark.programs("registry", "kubectl")
def test_a_login_that_kubectl_has_written_lets_in(tmp_path, monkeypatch):
    page = doc_pages.Page("docs/cli.md")
    (block,) = (it for it in doc_pages.blocks(page) if it.not_run.endswith("a_login_that_kubectl_has_written_lets_in"))
    with ImageRegistry.up(tmp_path / "registry", access=Access.PASSWORD) as registry:
        registry.put_image("base", "1", [image_of({"etc/os": b"linux"})])
        commands = block.text.replace("registry.example.com", registry.address)
        commands = commands.replace("=team", f"={USER}").replace("=secret", f"={PASSWORD}")
        kubectl = programs("kubectl")["kubectl"]
        own = {"HOME": str(tmp_path), "PATH": f"{Path(kubectl).parent}:{os.environ['PATH']}"}
        subprocess.run(["bash", "-e", "-c", commands], env=os.environ | own, check=True)
        monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / ".docker"))

        assert push(registry) == 0
        assert registry.tags("team/train") == ["1"]


def test_a_credential_helper_is_asked_for_the_login(tmp_path, monkeypatch):
    with ImageRegistry.up(tmp_path / "registry", access=Access.TOKEN) as registry:
        registry.put_image("base", "1", [image_of({"etc/os": b"linux"})])
        helper = tmp_path / "bin" / "docker-credential-safe"
        helper.parent.mkdir()
        reply = json.dumps({"ServerURL": registry.address, "Username": "<token>", "Secret": IDENTITY})
        helper.write_text(
            f"#!/bin/sh\nread -r server\n[ \"$1 $server\" = 'get {registry.address}' ] && echo '{reply}'\n"
        )
        helper.chmod(0o755)
        monkeypatch.setenv("PATH", f"{helper.parent}:/usr/bin:/bin")
        config(tmp_path, {"credHelpers": {registry.address: "safe"}})

        assert push(registry) == 0
        assert registry.tags("team/train") == ["1"]
        assert any(
            it.startswith("POST repository:team/train:pull,push repository:base:pull")
            for it in registry.tokens.requests
        )


@pytest.mark.parametrize("access", [Access.PASSWORD, Access.TOKEN], ids=["password", "token"])
def test_without_a_login_or_with_a_wrong_one_a_sentence_says_how_to_log_in(tmp_path, capsys, access):
    with ImageRegistry.up(tmp_path / "registry", access=access) as registry:
        registry.put_image("base", "1", [image_of({"etc/os": b"linux"})])
        assert push(registry) == 1
        log_in(tmp_path, registry, password="old")
        assert push(registry) == 1

    advice, other = f"docker login {registry.address}", " (without docker: docs/cli.md#tfjob-image)"
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("tfjob: ")]
    assert lines == [
        f"tfjob: {registry.address} has no base, or shows it only after a login: {advice}{other}",
        f"tfjob: {registry.address} does not accept ann for base: {advice} logs in again",
    ]


def test_a_certificate_that_nobody_vouches_for_is_refused(tmp_path, capsys):
    with ImageRegistry.up(tmp_path / "registry", authority=trustme.CA()) as registry:
        registry.put_image("base", "1", [image_of({"etc/os": b"linux"})])
        assert push(registry) == 1

    error = capsys.readouterr().err
    assert f"the certificate of {registry.address} is not trusted" in error
    assert "--ca names its authority" in error


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--base", "{}/absent:1"], "there is no image {}/absent:1"),
        (["--base", "{}/base:1", "--platform", "linux/arm64"], "{}/base:1 is for linux/amd64, and not for linux/arm64"),
        (["--base", "127.0.0.1:1/base:1"], "127.0.0.1:1 cannot be reached"),
    ],
    ids=["absent", "platform", "unreachable"],
)
def test_a_base_that_cannot_be_used_is_a_sentence_and_nothing_is_pushed(registry, capsys, arguments, sentence):
    registry.put_image("base", "1", [image_of({"etc/os": b"linux"})])
    earlier = len(registry.requests())
    name = f"{registry.address}/team/train:1"

    assert main.main(["image", "push", name, *(it.format(registry.address) for it in arguments)]) == 1

    assert sentence.format(registry.address) in capsys.readouterr().err
    assert not any("/team/" in request for request in registry.requests()[earlier:])


@pytest.fixture
def without_pauses(monkeypatch):
    """A push that breaks is tried again at once."""
    monkeypatch.setattr(repository, "_PAUSES", (0.0, 0.0, 0.0))


def write_large(folder) -> bytes:
    """A file of 2 MB that is not one byte over and over."""
    content = b"".join(hashlib.sha256(str(number).encode()).digest() for number in range(65_536))
    (folder / "weights").write_bytes(content)
    return content


@pytest.mark.usefixtures("without_pauses")
def test_a_push_goes_on_where_the_line_was_cut(registry, folder):
    content = write_large(folder)
    registry.put_image("base", "1", [image_of({"etc/os": b"linux"})])
    with CutLine.to(registry.port, after=500_000, times=2) as line:
        name = f"127.0.0.1:{line.port}/team/train:1"
        assert main.main(["image", "push", name, "--base", f"{registry.address}/base:1"]) == 0
        assert line.cuts == 2

    layer = registry.manifest("team/train", "1")["layers"][-1]
    assert files_of(registry.blob("team/train", layer["digest"]))["app/weights"] == content


@pytest.mark.usefixtures("without_pauses")
def test_a_push_that_stays_cut_leaves_the_old_image_and_can_be_repeated(registry, folder, capsys):
    registry.put_image("base", "1", [image_of({"etc/os": b"linux"})])
    assert push(registry) == 0
    old = registry.manifest("team/train", "1")
    write_large(folder)
    with CutLine.to(registry.port, after=500_000, times=100) as line:
        name = f"127.0.0.1:{line.port}/team/train:1"
        assert main.main(["image", "push", name, "--base", f"{registry.address}/base:1"]) == 1
        assert line.cuts == 4

    assert f"tfjob: 127.0.0.1:{line.port} did not receive sha256:" in capsys.readouterr().err
    assert registry.manifest("team/train", "1") == old
    assert push(registry) == 0
    assert registry.manifest("team/train", "1") != old
