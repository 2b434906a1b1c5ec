"""Pod templates."""

from support.templates import Template


def test_methods_shape_the_main_container_and_leave_the_others():
    spec = (
        Template()
        .sidecar("proxy")
        .image("x")
        .command("train", "--fast")
        .env({"A": "1"})
        .env({"B": "2"})
        .port("p", 1)
        .port("q", 2)
        .resources(requests={"cpu": "1"}, limits={"memory": "1Gi"})
        .body()["spec"]
    )

    main, proxy = spec["containers"]
    assert proxy == {"name": "proxy", "image": "training:test"}
    assert main == {
        "name": "tensorflow",
        "image": "x",
        "command": ["train", "--fast"],
        "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
        "ports": [{"name": "p", "containerPort": 1}, {"name": "q", "containerPort": 2}],
        "resources": {"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}},
    }


def test_a_native_sidecar_is_an_init_container_that_is_kept_running():
    spec = Template().init("fetch").sidecar("proxy", native=True).body()["spec"]

    assert [entry["name"] for entry in spec["containers"]] == ["tensorflow"]
    assert spec["initContainers"] == [
        {"name": "fetch", "image": "training:test"},
        {"name": "proxy", "image": "training:test", "restartPolicy": "Always"},
    ]


def test_without_main_no_container_is_called_tensorflow():
    assert [entry["name"] for entry in Template().without_main().body()["spec"]["containers"]] == ["other"]


def test_a_template_survives_being_read_back():
    template = Template().sidecar().init().labels({"a": "b"}).annotations({"c": "d"}).spec(nodeSelector={"e": "f"})

    assert Template.of(template.body()).body() == template.body()


def test_metadata_is_there_only_when_it_says_something():
    assert "metadata" not in Template().body()
    assert Template().labels({"a": "b"}).body()["metadata"] == {"labels": {"a": "b"}}
