"""The examples for partners: our part is accepted by an API server, theirs fits what they publish of their kinds."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from crd import json_schema
from lab.tools import catalogue, environment
from lab.tools.get import Toolbox, programs

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "manifests/examples/integrations"
FILES = sorted([*FOLDER.glob("*.yaml"), *FOLDER.with_name("how-to").glob("*.yaml")])
# Whose kinds a test server has.
KNOWN = ("TFJob", "ServiceAccount", "Role", "RoleBinding", "PersistentVolumeClaim", "Deployment", "Service")
ARGO_CD = ("github.com/argoproj/argo-cd/v3@v3.4.13", "h1:kmnF4nE5SQ83OhtdX6DMmLSpH0eRIa1gNYdCLNHqB+A=")
KUEUE = catalogue.required_version(catalogue.FOLDER / "modules/kueue-0.19/go.mod", "sigs.k8s.io/kueue")
# The profile controller is in no registry that publishes its CRD; this is what the CRD says.
PROFILE = {
    "owner": {
        "type": "object",
        "required": ["kind", "name"],
        "properties": {name: {"type": "string"} for name in ("apiGroup", "kind", "name", "namespace")},
    },
    "plugins": {"type": "array"},
    "resourceQuotaSpec": {
        "type": "object",
        "properties": {"hard": {"type": "object"}, "scopes": {"type": "array"}, "scopeSelector": {"type": "object"}},
    },
}


def documents(path):
    return [body for body in yaml.load_all(path.read_text(), yaml.CSafeLoader) if body]


def jobs_inside(body):
    """The job that a partner's object creates, as it creates it."""
    spec = body.get("spec", {})
    for template in spec.get("templates", ()):
        yield yaml.safe_load(template["resource"]["manifest"])
    if "trialTemplate" in spec:
        text = json.dumps(spec["trialTemplate"]["trialSpec"]).replace("${trialParameters.rate}", "0.1")
        yield json.loads(text) | {"metadata": {"name": "trial"}}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_our_part_of_an_example_is_accepted_by_a_server(kubectl, path):
    bodies = documents(path)
    ours = [body for body in bodies if body["kind"] in KNOWN]
    ours += [job for body in bodies if body["kind"] not in KNOWN for job in jobs_inside(body)]

    assert ours or path.stem == "argo-cd"
    for body in ours:
        output = kubectl("create", "--dry-run=server", "--validate=strict", "--filename=-", stdin=json.dumps(body))
        assert "(server dry run)" in output


def test_a_file_says_first_what_it_shows_and_where_more_is_said():
    for path in FILES:
        comment = "".join(line for line in path.read_text().splitlines(keepends=True) if line.startswith("#"))
        (page,) = re.findall(r"docs/[\w/-]+\.md", comment)
        assert f"examples/{path.parent.name}/{path.name}" in (ROOT / page).read_text()


def module(name, checksum=""):
    """The folder of a Go module, as its publisher has tagged it."""
    go = Toolbox(os.environ).go()
    variables = {**go.environ, "GOFLAGS": "-mod=mod"}
    command = [go.program, "mod", "download", "-json", name]
    process = subprocess.run(command, cwd="/", env=variables, capture_output=True, text=True, check=True, timeout=300)
    download = json.loads(process.stdout)
    assert checksum in ("", download["Sum"])
    return Path(download["Dir"])


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """JSON schemas of partners' kinds, in kubeconform's layout."""
    folder = tmp_path_factory.mktemp("schemas")
    models = Path(__file__).with_name("published_models.py")
    subprocess.run([environment.python_of("partners"), models, folder], check=True, timeout=120)
    crds = [module(*ARGO_CD) / "manifests/crds/application-crd.yaml"]
    crds += (module(f"sigs.k8s.io/kueue@v{KUEUE}") / "config/components/crd/bases").glob("*.yaml")
    for path in crds:
        crd = yaml.load(path.read_text(), yaml.CSafeLoader)
        for name, text in json_schema.files(crd, crd["spec"]["versions"]):
            (folder / name.relative_to(json_schema.FOLDER)).parent.mkdir(parents=True, exist_ok=True)
            (folder / name.relative_to(json_schema.FOLDER)).write_text(text)
    spec = {"type": "object", "properties": PROFILE, "required": ["owner"]}
    profile = {"type": "object", "properties": {"spec": spec, "apiVersion": {}, "kind": {}, "metadata": {}}}
    schema = json_schema.of_kind(profile, kind="Profile", api_version="kubeflow.org/v1")
    (folder / "kubeflow.org/profile_v1.json").write_text(json.dumps(schema))
    return folder


def conform(folder, text):
    options = ["-strict", "-output=json", f"-skip={','.join(KNOWN)}"]
    layout = folder / "{{.Group}}/{{.ResourceKind}}_{{.ResourceAPIVersion}}.json"
    command = [programs("kubeconform")["kubeconform"], *options, f"-schema-location={layout}"]
    process = subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=60)
    return [entry["msg"] for entry in json.loads(process.stdout)["resources"]]


OF_PARTNERS = [path for path in FILES if any(body["kind"] not in KNOWN for body in documents(path))]


@pytest.mark.nightly
@pytest.mark.timeout(700)
@pytest.mark.programs("kubeconform")
@pytest.mark.parametrize("path", OF_PARTNERS, ids=lambda path: path.stem)
def test_a_partners_object_fits_what_the_partner_publishes(published, path):
    text = path.read_text()

    assert conform(published, text) == []
    for body in documents(path):
        if body["kind"] not in KNOWN:
            body.get("spec", body)["paralellism"] = 1
            assert "paralellism" in conform(published, json.dumps(body))[0]
