"""The file of --controller-config-file: what it says, what is wrong with it, and that changes of it are followed."""

import asyncio
from contextlib import suppress

import pytest
from structlog.testing import capture_logs

from support.fake_clock import FakeClock
from tf_operator.app import config_file, controller_config
from tf_operator.app.controller_config import LARGEST, OLD_PROGRAM, ConfigFileError, ControllerConfig
from tf_operator.planning.bodies.accelerators import Accelerator, HostVolume
from tf_operator.planning.snapshot import Settings

AZURE = f"""
grpcServerFilePath: {OLD_PROGRAM}
accelerators:
  alpha.kubernetes.io/nvidia-gpu:
    envVars:
      - {{name: LD_LIBRARY_PATH, value: '/usr/lib/nvidia:/usr/lib/x86_64-linux-gnu'}}
    volumes:
      - {{name: lib, mountPath: /usr/lib/nvidia, hostPath: /usr/lib/nvidia-384}}
      - {{name: cache, mountPath: /cache, hostPath: /var/cache, readOnly: false}}
    resource: nvidia.com/gpu
"""
LIB = HostVolume("lib", "/usr/lib/nvidia-384", "/usr/lib/nvidia")
CACHE = HostVolume("cache", "/var/cache", "/cache", is_read_only=False)
VARIABLE = ("LD_LIBRARY_PATH", "/usr/lib/nvidia:/usr/lib/x86_64-linux-gnu")
GPU = Accelerator("alpha.kubernetes.io/nvidia-gpu", (LIB, CACHE), (VARIABLE,), "nvidia.com/gpu")


def read(folder, text):
    path = folder / "config.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return controller_config.read(path)


@pytest.mark.documents("fork/accelerators")
def test_a_file_of_that_time_says_what_accelerators_need_and_its_program_is_ours(tmp_path):
    assert read(tmp_path, AZURE) == ControllerConfig(accelerators=(GPU,))


@pytest.mark.parametrize(
    "text",
    ["", "{}", "accelerators:", "grpcServerFilePath: null", "accelerators: {example.org/gpu: }"],
    ids=["empty", "an object", "no accelerators", "no program", "an accelerator that needs nothing"],
)
def test_what_is_not_said_stays_as_it_is(tmp_path, text):
    config = read(tmp_path, text)
    assert (config.server_program, config.server_image) == ("", "")
    assert config.accelerators in {(), (Accelerator("example.org/gpu"),)}


def test_the_program_and_image_of_default_servers_may_be_given(tmp_path):
    (tmp_path / "server.py").write_text("print()")
    config = ControllerConfig(server_program="print()", server_image="registry/tensorflow:2")

    assert read(tmp_path, "{grpcServerFilePath: server.py, tfImage: 'registry/tensorflow:2'}") == config
    assert read(tmp_path, f"{{grpcServerFilePath: {tmp_path}/server.py, tfImage: 'registry/tensorflow:2'}}") == config


def of_gpu(text):
    return f"accelerators: {{g: {{{text}}}}}"


VOLUME = "{name: lib, hostPath: /a, mountPath: /b}"
WRONG = {
    "a list": ("[]", "must be an object, is a list"),
    "no YAML": ("a: [", "is not YAML: while parsing"),
    "no text": (b"\xff", "is not YAML: "),
    "too large": ("#" * (LARGEST + 1), f"it has more than {LARGEST} bytes"),
    "nested too deeply": ("[" * 30_000, "is not YAML: it is nested deeper than 16"),
    "a tag of another value": ("tfImage: !!bool foo", "has a value that cannot be used: KeyError: 'foo'"),
    "a tag of no time": ("tfImage: !!timestamp foo", "has a value that cannot be used: AttributeError: "),
    "a tag of nothing": ("tfImage: !!int ''", "has a value that cannot be used: IndexError: "),
    "a huge time": (f"tfImage: 1{':1' * 300}.0", "has a value that cannot be used: OverflowError: "),
    "a huge number": (f"tfImage: 0x{'f' * 9_000}", "has a value that cannot be used: ValueError: "),
    "another field": (
        "accelerator: {}",
        "accelerator: is unknown: there are accelerators, grpcServerFilePath, tfImage",
    ),
    "no object": ("accelerators: []", "accelerators: must be an object, is a list"),
    "no resource": ("accelerators: {'a b': }", "accelerators[a b]: must be the name of a resource"),
    "no accelerator": ("accelerators: {g: 1}", "accelerators[g]: must be an object, is 1"),
    "another field there": (of_gpu("env: []"), "accelerators[g].env: is unknown: there are volumes, envVars, resource"),
    "no other resource": (of_gpu("resource: "), "accelerators[g].resource: must be the name of a resource, such as"),
    "no volume": (of_gpu("volumes: [x]"), "accelerators[g].volumes[0]: must be an object, is 'x'"),
    "no name": (of_gpu("volumes: [{hostPath: /a, mountPath: /b}]"), "volumes[0].name: must be lower-case letters"),
    "a relative path": (
        of_gpu("volumes: [{name: l, hostPath: a}]"),
        "hostPath: must be an absolute path without '..', is",
    ),
    "a way up": (
        of_gpu("volumes: [{name: l, hostPath: /a/..}]"),
        "hostPath: must be an absolute path without '..', is",
    ),
    "a colon": (
        of_gpu("volumes: [{name: l, mountPath: '/a:b'}]"),
        "mountPath: must be an absolute path without '..' and",
    ),
    "neither true nor false": (
        of_gpu("volumes: [{name: l, readOnly: 'no'}]"),
        "accelerators[g].volumes[0].readOnly: must be true or false, is 'no'",
    ),
    "a field of Kubernetes": (of_gpu("volumes: [{path: /a}]"), "volumes[0].path: is unknown: there are name, hostPath"),
    "a name twice": (of_gpu(f"volumes: [{VOLUME}, {VOLUME}]"), "accelerators[g].volumes[1].name: is 'lib' again"),
    "a place twice": (of_gpu(f"volumes: [{VOLUME}, {VOLUME}]"), "accelerators[g].volumes[1].mountPath: is '/b' again"),
    "no variable": (of_gpu("envVars: [{name: a=b}]"), "envVars[0].name: must be the name of an environment variable"),
    "a number": (of_gpu("envVars: [{name: A, value: 1}]"), "accelerators[g].envVars[0].value: must be a string, is 1"),
    "a reference": (
        of_gpu("envVars: [{name: A, valueFrom: {}}]"),
        "envVars[0].valueFrom: is unknown: there are name, value",
    ),
    "a variable twice": (of_gpu("envVars: [{name: A}, {name: A}]"), "accelerators[g].envVars[1].name: is 'A' again"),
    "TF_CONFIG": (of_gpu("envVars: [{name: TF_CONFIG}]"), "envVars[0].name: must be another one: the operator sets"),
    "no program": ("grpcServerFilePath: /none", "grpcServerFilePath: /none cannot be read: No such file"),
    "an empty program": ("grpcServerFilePath: /dev/null", "grpcServerFilePath: /dev/null is empty"),
    "an endless program": ("grpcServerFilePath: /dev/zero", f"cannot be used: it has more than {LARGEST} bytes"),
    "no image": ("tfImage: ''", "tfImage: must be the name of an image, is ''"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_file_is_reported_in_one_line_with_field_and_rule(name, tmp_path):
    text, rule = WRONG[name]
    with pytest.raises(ConfigFileError) as refused:
        read(tmp_path, text)
    assert rule in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1
    assert str(refused.value).startswith(f"{tmp_path}/config.yaml: ")


def test_everything_that_is_wrong_is_reported_at_once(tmp_path):
    with pytest.raises(ConfigFileError, match=r"x: is unknown.*; tfImage: must be"):
        read(tmp_path, "{x: 1, tfImage: 1}")


def test_a_file_that_has_not_changed_is_not_parsed_again(tmp_path, monkeypatch):
    config = read(tmp_path, AZURE)
    monkeypatch.setattr("yaml.load", pytest.fail)
    assert read(tmp_path, AZURE) == config


class Mounted:
    """A file as a kubelet mounts it: behind a link that is swapped."""

    def __init__(self, folder):
        self._folder = folder
        self._count = 0
        self.path = folder / "data" / "config.yaml"

    def write(self, text):
        self._count += 1
        target = self._folder / str(self._count)
        target.mkdir()
        (target / "config.yaml").write_text(text)
        link = self._folder / "next"
        link.symlink_to(target)
        link.replace(self._folder / "data")


async def test_changes_are_followed_and_a_wrong_one_is_reported_once_and_changes_nothing(tmp_path):
    clock, errors, mounted = FakeClock(), [], Mounted(tmp_path)
    mounted.write(AZURE)
    base = Settings(cluster_domain="cluster.local")
    file = config_file.ConfigFile(str(mounted.path), base, lambda: errors.append(1))
    first = file.settings()
    assert (first.cluster_domain, first.accelerators) == ("cluster.local", (GPU,))

    following = asyncio.create_task(file.follow(clock))
    readings = []
    with capture_logs() as records:
        for text in ("tfImage: i", "tfImage: !!bool ''", None, "tfImage: i", AZURE, "gone"):
            if text == "gone":
                mounted.path.unlink()
            elif text is not None:
                mounted.write(text)
            await clock.advance(config_file.READ_EVERY)
            readings.append((file.settings().server_image, len(errors)))
    following.cancel()
    with suppress(asyncio.CancelledError):
        await following

    assert readings == [("i", 0), ("i", 1), ("i", 1), ("i", 1), ("", 1), ("", 2)]
    assert file.settings() == first
    assert [record["log_level"] for record in records] == ["info", "error", "info", "info", "error"]
