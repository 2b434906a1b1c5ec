"""Which Kubernetes is supported is said on one page, and is what is tested and what the chart demands."""

import re
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[3]
INSTALL = ROOT / "docs" / "install.md"
ROW = re.compile(r"^\| (1\.\d+) \| (.*) \|$", re.MULTILINE)
TOOLS = ROOT / "hack" / "lab" / "tools"
MINORS = {path.name.removeprefix("kubernetes-") for path in (TOOLS / "modules").glob("kubernetes-*")}


def test_the_page_names_the_versions_that_are_tested_and_when():
    default = tomllib.loads((TOOLS / "tools.toml").read_text())["kubernetes"]["default"]
    rows = dict(ROW.findall(INSTALL.read_text()))
    tested = {minor for minor, when in rows.items() if when.startswith(("on every", "every"))}

    assert tested == MINORS
    assert [minor for minor, when in rows.items() if when.startswith("on every change")] == [default]


def test_the_readme_names_the_versions_that_are_tested():
    (row,) = re.findall(r"^\| Kubernetes \| (.*) \|$", (ROOT / "README.md").read_text(), re.MULTILINE)

    assert {*re.findall(r"1\.\d+", row)} == MINORS


def test_the_chart_demands_the_oldest_version_of_the_page():
    oldest = ROW.findall(INSTALL.read_text())[-1][0]

    assert yaml.safe_load((ROOT / "charts/tf-operator/Chart.yaml").read_text())["kubeVersion"] == f">={oldest}.0-0"


def test_no_other_page_says_which_kubernetes_is_needed():
    pages = {ROOT / "README.md", *(ROOT / "docs").rglob("*.md")} - {INSTALL}

    assert [str(page) for page in pages if re.search(r"Kubernetes\s+1\.\d+\s+or\s+newer", page.read_text())] == []
