"""The project's address is written once, in setup.cfg: every link follows from it, and without it there is none."""

import re
import shutil
from pathlib import Path

import pytest
import yaml

from chart import address
from chart import outputs as chart
from rules import outputs as rules

ROOT = Path(__file__).resolve().parents[3]
HOME = "https://git.example/team/tf-operator"


@pytest.fixture
def tree(tmp_path):
    """A copy of what the links are made in; call it with an address."""
    for folder in ("manifests", "charts/tf-operator"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    shutil.copy(ROOT / chart.README, tmp_path)

    def with_address(home):
        config = (ROOT / address.SOURCE).read_text()
        bare = re.sub(r"^url = .*\n", "", config, flags=re.MULTILINE)
        line = f"[metadata]\nurl = {home}\n" if home else "[metadata]\n"
        (tmp_path / address.SOURCE).write_text(bare.replace("[metadata]\n", line, 1))
        return tmp_path

    return with_address


def alerts(text):
    body = yaml.safe_load(text)
    return [rule for group in body.get("spec", body)["groups"] for rule in group["rules"]]


@pytest.mark.parametrize("path", [rules.CHART, rules.OVERLAY], ids=["chart", "overlay"])
def test_every_alert_links_to_its_runbook(tree, path):
    links = {rule["alert"]: rule["annotations"]["runbook_url"] for rule in alerts(rules.render(tree(HOME))[path])}

    assert set(links) == {rule["alert"] for rule in alerts((ROOT / rules.SOURCE).read_text())}
    for name, link in links.items():
        page = link.removeprefix(f"{HOME}/blob/main/")
        assert page.endswith(f"/{name}.md")
        assert (ROOT / page).is_file()


def test_the_chart_and_the_readme_link_to_the_project(tree):
    rendered = chart.render(tree(HOME))
    description = yaml.safe_load(rendered[chart.DESCRIPTION])

    assert (description["home"], description["sources"]) == (HOME, [HOME])
    assert f"]({HOME}/issues)" in rendered[chart.README]


def test_there_is_no_link_without_an_address_even_if_there_was_one_before(tree):
    for path, text in chart.render(tree(HOME)).items():
        (tree(HOME) / path).write_text(text)
    root = tree("")
    rendered = {**chart.render(root), **rules.render(root)}

    assert [path for path, text in rendered.items() if HOME in text] == []
    assert not {"home", "sources"} & set(yaml.safe_load(rendered[chart.DESCRIPTION]))
    assert all("runbook_url" not in rule["annotations"] for rule in alerts(rendered[rules.CHART]))


@pytest.mark.parametrize("home", ["git.example/tf-operator", "http://git.example/a", f"{HOME}/"])
def test_an_address_that_no_link_can_be_made_of_is_refused(tree, home):
    with pytest.raises(address.InvalidAddressError, match=re.escape("setup.cfg: metadata.url")):
        address.read(tree(home))
