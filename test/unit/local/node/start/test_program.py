"""From a container's spec to the program that is started for it."""

from dataclasses import replace
from pathlib import Path

import pytest

from tf_operator.local.node import pod as pods
from tf_operator.local.node.machine import PYTHON_ANNOTATION, Capacity, Interpreter
from tf_operator.local.node.node_parts import NodeSettings
from tf_operator.local.node.start import volumes
from tf_operator.local.node.start.program import (
    CannotStart,
    Mount,
    Surroundings,
    bare_ports,
    environment,
    launch,
    unseen_mounts,
)
from tf_operator.local.node.start.volumes import VolumeSources
from tf_operator.meta import ObjectKey

CONFIGS = {("ConfigMap", "c"): {"a": b"1", "b": b"2"}, ("Secret", "s"): {"key": b"hidden"}, ("ConfigMap", "none"): None}
LIMITS = {"limits": {"cpu": "1500m", "memory": "1Gi"}}


def pod_of(*containers, **spec):
    metadata = {"name": "p", "namespace": "ns", "uid": "u", "labels": {"l": 'a"b'}, "annotations": {"x/y": "z"}}
    return pods.pod_of({"metadata": metadata, "spec": {"containers": list(containers), "nodeName": "local", **spec}})


def around(*mounts, python="/env/bin/python", replaced=str):
    return Surroundings(
        interpreter=Interpreter(
            python, {"PATH": "/bin", "HOME": "/home/me", "TMPDIR": "/tmp", "TF_CONFIG": "of the user's shell"}
        ),
        mounts=mounts,
        folder="/state/work",
        temporary="/state/tmp",
        message_file="/state/message",
        configs=CONFIGS,
        replaced=replaced,
        capacity=Capacity(8, 16 * 1024**3),
        ports={2222: 20001},
        gpus={},
    )


def launched(where=None, **container):
    pod = pod_of({"name": "main", "command": ["run"], **container})
    return launch(pod, pod.containers[0], where or around())


def ref(kind, **fields):
    return {"valueFrom": {kind: fields}}


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"value": "plain"}, "plain"),
        ({"value": "$(FIRST)-$(LATER)-$$(FIRST)"}, "1-$(LATER)-$(FIRST)"),
        (ref("fieldRef", fieldPath="metadata.name"), "p"),
        (ref("fieldRef", fieldPath="metadata.labels['l']"), 'a"b'),
        (ref("fieldRef", fieldPath="metadata.annotations['x/y']"), "z"),
        (ref("fieldRef", fieldPath="spec.nodeName"), "local"),
        (ref("fieldRef", fieldPath="status.podIP"), "127.0.0.1"),
        (ref("resourceFieldRef", resource="limits.cpu"), "2"),
        (ref("resourceFieldRef", resource="limits.memory", divisor="1Mi"), "1024"),
        (ref("resourceFieldRef", resource="requests.memory", divisor="1Gi"), "16"),
        (ref("configMapKeyRef", name="c", key="b"), "2"),
        (ref("secretKeyRef", name="s", key="key"), "hidden"),
        (ref("configMapKeyRef", name="none", key="b", optional=True), None),
    ],
)
def test_a_variable_comes_from_where_it_is_declared_to(entry, expected):
    env = [{"name": "FIRST", "value": "1"}, {"name": "IT", **entry}, {"name": "LATER", "value": "x"}]
    pod = pod_of({"name": "main", "env": env, "resources": LIMITS})
    assert environment(pod, pod.containers[0], around()).get("IT") == expected


def test_env_from_comes_before_env():
    sources = [{"prefix": "P_", "configMapRef": {"name": "c"}}, {"secretRef": {"name": "s"}}]
    env = launched(envFrom=sources, env=[{"name": "P_a", "value": "own"}]).env
    assert (env["P_a"], env["P_b"], env["key"], env["HOME"]) == ("own", "2", "hidden", "/home/me")


@pytest.mark.parametrize(
    ("container", "reason", "message"),
    [
        ({"command": [], "args": ["x"]}, "CreateContainerError", "container 'main' has no command"),
        (
            {"env": [{"name": "A", **ref("secretKeyRef", name="z", key="k")}]},
            "CreateContainerConfigError",
            'secret "z" not',
        ),
        ({"envFrom": [{"configMapRef": {"name": "none"}}]}, "CreateContainerConfigError", 'configmap "none" not found'),
        (
            {"env": [{"name": "A", **ref("configMapKeyRef", name="c", key="k")}]},
            "CreateContainerConfigError",
            "couldn't find key k in ConfigMap ns/c",
        ),
    ],
)
def test_what_is_missing_is_named(container, reason, message):
    with pytest.raises(CannotStart, match=message) as failure:
        launched(**container)
    assert failure.value.problem.reason == reason


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/data", "/vol/data"),
        ("--dir=/data/x", "--dir=/vol/data/x"),
        ("/data/deep/x:/data", "/vol/deep/x:/vol/data"),
        ("file:///data/x", "file:///vol/data/x"),
        ("cat '/data' >/dev/termination-log", "cat '/vol/data' >/state/message"),
        ("/database /my/data /data.csv /data-2", "/database /my/data /data.csv /data-2"),
    ],
)
def test_a_path_of_a_mount_becomes_the_folder_that_stands_for_it(text, expected):
    mounts = Mount("d", "/data", "/vol/data"), Mount("deep", "/data/deep", "/vol/deep")
    process = launched(around(*mounts), args=[text], env=[{"name": "V", "value": text}], workingDir="/data")
    assert (process.argv[1], process.env["V"], process.cwd) == (expected, expected, "/vol/data")
    assert process.visible(text) == expected


def test_programs_find_what_cannot_be_replaced_in_variables():
    env = launched(around(Mount("my-data", "/data", "/vol/data"))).env
    assert env["TF_OPERATOR_VOLUME_MY_DATA"] == "/vol/data"
    assert env["TF_OPERATOR_PORT_2222"] == "20001"
    assert env["TF_OPERATOR_TERMINATION_LOG"] == "/state/message"
    assert env["TMPDIR"] == "/state/tmp"
    assert "TF_CONFIG" not in env
    container = pod_of({"name": "main", "command": ["run", "--out=/data"]}).containers[0]
    assert unseen_mounts(container, (Mount("a", "/data", ""), Mount("b", "/dat", ""))) == ["b"]


@pytest.mark.parametrize(
    ("container", "expected"),
    [
        ({"args": ["--port=2222"]}, [2222]),
        ({"args": ["--port", "2222"]}, [2222]),
        ({"env": [{"name": "PORT", "value": "2222"}]}, [2222]),
        ({"args": ["0.0.0.0:2222", "j-worker-0:2222", "[::]:2222"]}, []),
        ({"args": ["serve ${TF_OPERATOR_PORT_2222:-2222}"]}, []),
        ({"args": ["os.environ.get('TF_OPERATOR_PORT_2222', 2222)"]}, []),
        ({"args": ["12222", "2222.5", "0.2222", "a-2222", "22222"]}, []),
    ],
)
def test_a_port_without_a_host_is_noticed(container, expected):
    main_container = pod_of({"name": "main", "command": ["run"], **container}).containers[0]
    assert bare_ports(main_container, {2222, 8080}) == expected


@pytest.mark.parametrize("word", ["python", "python3"])
def test_python_is_the_interpreter_that_stands_for_the_image(word, tmp_path):
    assert launched(command=[word, "-c", "python"]).argv == ["/env/bin/python", "-c", "python"]
    assert launched(command=["/usr/bin/python3"]).argv == ["/usr/bin/python3"]
    assert launched().env["PATH"] == "/env/bin:/bin"
    for named, program in ((tmp_path, f"{tmp_path}/bin/python"), (Path("/opt/python3.12"), "/opt/python3.12")):
        pod = pods.pod_of({"metadata": {"annotations": {PYTHON_ANNOTATION: str(named)}}})
        assert around().interpreter.of(pod).python == program


def test_a_program_runs_where_it_says_or_where_the_node_was_started():
    where = replace(around(), interpreter=Interpreter("python", {}, "/project"))
    assert [launched().cwd, launched(where).cwd, launched(where, workingDir="/x").cwd] == [
        "/state/work",
        "/project",
        "/x",
    ]


def test_addresses_are_put_into_command_and_environment():
    where = around(replaced=lambda text: text.replace("svc", "here"))
    process = launched(where, args=["$(A)"], env=[{"name": "A", "value": "svc:1"}])
    assert (process.argv, process.env["A"]) == (["run", "here:1"], "here:1")


VOLUMES = {
    "emptyDir": {},
    "configMap": {"name": "c", "items": [{"key": "a", "path": "deep/file"}]},
    "secret": {"secretName": "s"},
    "downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]},
    "projected": {"sources": [{"secret": {"name": "s"}}, {"serviceAccountToken": {}}, {"configMap": {"name": "c"}}]},
    "persistentVolumeClaim": {"claimName": "claim"},
}


def volume_folder(tmp_path, **volume):
    pod = pod_of({"name": "main"}, volumes=[{"name": "v", **volume}])
    claims = {("PersistentVolumeClaim", "claim"): {"uid": b"u"}}
    folders = NodeSettings(tmp_path, None, Capacity(1, 1))

    def claim_folder(name, uid):
        return folders.claim_folder(ObjectKey("ns", name), uid)

    sources = VolumeSources(tmp_path / "pod", claim_folder, CONFIGS | claims, Capacity(1, 1))
    return volumes.make_volumes(pod, sources)["v"]


@pytest.mark.parametrize(
    ("kind", "files"),
    [
        ("emptyDir", {}),
        ("configMap", {"deep/file": "1"}),
        ("secret", {"key": "hidden"}),
        ("downwardAPI", {"labels": 'l="a\\"b"'}),
        ("projected", {"key": "hidden", "a": "1", "b": "2"}),
        ("persistentVolumeClaim", {}),
    ],
)
def test_a_volume_is_a_folder_with_its_content(kind, files, tmp_path):
    folder = volume_folder(tmp_path, **{kind: VOLUMES[kind]})
    texts = {str(file.relative_to(folder)): file.read_text() for file in folder.rglob("*") if file.is_file()}
    assert texts == files
    assert folder == (tmp_path / "claims/ns/claim/u" if kind == "persistentVolumeClaim" else tmp_path / "pod/volumes/v")


ITEMS = [{"key": "a", "path": "run", "mode": 0o500}, {"key": "b", "path": "b"}]
LABELS = {"path": "l", "fieldRef": {"fieldPath": "metadata.labels"}}


@pytest.mark.parametrize(
    ("volume", "modes"),
    [
        ({"configMap": {"name": "c"}}, {"a": 0o644, "b": 0o644}),
        ({"configMap": {"name": "c", "defaultMode": 0o755}}, {"a": 0o755, "b": 0o755}),
        ({"configMap": {"name": "c", "defaultMode": 0o440, "items": ITEMS}}, {"run": 0o500, "b": 0o440}),
        ({"secret": {"secretName": "s", "defaultMode": 0o644}}, {"key": 0o600}),  # the API server writes the default
        ({"secret": {"secretName": "s", "defaultMode": 0o400}}, {"key": 0o400}),
        ({"secret": {"secretName": "s", "items": [{"key": "key", "path": "k", "mode": 0o644}]}}, {"k": 0o644}),
        ({"downwardAPI": {"defaultMode": 0o400, "items": [LABELS]}}, {"l": 0o400}),
        ({"downwardAPI": {"items": [LABELS | {"mode": 0o444}]}}, {"l": 0o444}),
        (
            {
                "projected": {
                    "defaultMode": 0o440,
                    "sources": [
                        {"configMap": {"name": "c", "items": ITEMS}},
                        {"secret": {"name": "s", "items": [{"key": "key", "path": "b"}]}},  # in place of another one
                    ],
                }
            },
            {"run": 0o500, "b": 0o440},
        ),
    ],
)
def test_files_of_a_volume_have_the_modes_that_it_names(volume, modes, tmp_path):
    for _ in range(2):  # again after a failure
        folder = volume_folder(tmp_path, **volume)
    assert {file.name: file.stat().st_mode & 0o777 for file in folder.iterdir()} == modes


@pytest.mark.parametrize(
    ("volume", "message"),
    [
        ({"nfs": {}}, "volume 'v' is of kind nfs"),
        ({"secret": {"secretName": "z"}}, 'secret "z" not found'),
        ({"configMap": {"name": "c", "items": [{"key": "k", "path": "p"}]}}, "non-existent key: k"),
        ({"configMap": {"name": "c", "items": [{"key": "a", "path": "../p"}]}}, "leads out of the volume"),
        ({"hostPath": {"path": "/no/such/folder"}}, "hostPath /no/such/folder does not exist"),
        ({"hostPath": {"path": "/etc/hostname", "type": "Directory"}}, "/etc/hostname is not a directory"),
        ({"hostPath": {"path": "/etc", "type": "File"}}, "type check failed: /etc is not a file"),
        ({"hostPath": {"path": "/etc", "type": "FileOrCreate"}}, "/etc is not a file"),
        ({"hostPath": {"path": "/etc", "type": "Socket"}}, "/etc is not a socket file"),
        ({"hostPath": {"path": "/etc", "type": "CharDevice"}}, "/etc is not a character device"),
        ({"hostPath": {"path": "/dev/null", "type": "BlockDevice"}}, "/dev/null is not a block device"),
        ({"persistentVolumeClaim": {"claimName": "../../x"}}, '"../../x" not found'),
    ],
)
def test_a_volume_that_cannot_be_made_is_named(volume, message, tmp_path):
    with pytest.raises(CannotStart, match=message):
        volume_folder(tmp_path, **volume)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("new", "DirectoryOrCreate"),
        ("new", "FileOrCreate"),
        ("/dev/null", "CharDevice"),
        ("/etc", "Directory"),
        ("/", ""),
    ],
)
def test_a_path_of_the_machine_is_what_its_type_says(path, kind, tmp_path):
    folder = volume_folder(tmp_path, hostPath={"path": str(tmp_path / path), "type": kind})
    assert folder == tmp_path / path
    assert (folder.is_dir(), folder.is_file()) == ("Directory" in kind or path == "/", kind == "FileOrCreate")


def mounting(path, **fields):
    mounts = [{"name": "v", "mountPath": path, **fields}]
    return pod_of({"name": "main", "volumeMounts": mounts}).containers[0].spec


def test_a_mount_may_be_a_part_of_a_volume(tmp_path):
    spec = mounting("/data/", subPath="part")
    (mount,) = volumes.mounts_of(spec, {"v": tmp_path})
    assert (mount.path, mount.source, (tmp_path / "part").is_dir()) == ("/data", str(tmp_path / "part"), True)
    with pytest.raises(CannotStart, match="there is no volume 'v'"):
        volumes.mounts_of(spec, {})


@pytest.mark.parametrize("path", ["/", "//", ""])
def test_a_mount_in_place_of_everything_is_refused(path, tmp_path):
    with pytest.raises(CannotStart, match="volume 'v' is mounted at '/'"):
        volumes.mounts_of(mounting(path), {"v": tmp_path})
