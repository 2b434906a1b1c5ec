"""What is kept of the API server's description of pods."""

from contextlib import contextmanager
from types import SimpleNamespace

from crd import core
from lab.tools import catalogue, get

PREFIX = "#/components/schemas/"


def document(**definitions):
    return {"components": {"schemas": {core.POD_TEMPLATE: {"$ref": f"{PREFIX}Pod"}, **definitions}}}


def test_only_what_a_pod_template_reaches_is_kept():
    definitions = core.keep(
        document(
            Pod={"properties": {"a": {"allOf": [{"$ref": f"{PREFIX}Part"}]}}},
            Part={"items": {"$ref": f"{PREFIX}Part"}},
            Node={"type": "object"},
        )
    )

    assert list(definitions) == ["Part", "Pod", core.POD_TEMPLATE]


def test_descriptions_go_and_a_property_of_that_name_stays():
    definition = core.without_descriptions(
        {"description": "A pod.", "properties": {"description": {"type": "string", "description": "Its text."}}}
    )

    assert definition == {"properties": {"description": {"type": "string"}}}


def test_the_newest_kubernetes_is_asked_whichever_is_run_otherwise(monkeypatch):
    @contextmanager
    def up(_):
        module = get.programs("kube-apiserver")["kube-apiserver"]
        yield SimpleNamespace(admin=SimpleNamespace(get=lambda _: module))

    def make(toolbox, names):
        return {name: toolbox.tools()[name].module.name for name in names}

    oldest, *_, newest = sorted(path.name for path in (catalogue.FOLDER / "modules").glob("kubernetes-*"))
    monkeypatch.setattr(get, "_ENVIRONMENT", {catalogue.MINOR_VARIABLE: oldest.removeprefix("kubernetes-")})
    monkeypatch.setattr(get, "_paths", {"kube-apiserver": oldest})
    monkeypatch.setattr(get, "_refusals", [])
    monkeypatch.setattr(get.Toolbox, "get", make)
    monkeypatch.setattr(core.ControlPlane, "up", up)

    assert core.ask_apiserver() == newest
