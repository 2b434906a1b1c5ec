"""docs/operations.md tells of every flag, variable and metric, as the program has them, and of none that it has not."""

import re
from pathlib import Path

import pytest

from support.idle import Idle
from tf_operator.app.metrics.registry import Metrics
from tf_operator.app.options import flags
from tf_operator.controller.instruments import PassResult

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "operations.md").read_text()


def section(title):
    return PAGE.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]


def rows(title):
    """The rows of the section's table, each as the texts of its cells."""
    lines = [line for line in section(title).splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines[1:]]


def words(cell):
    """What stands in backticks."""
    return re.findall(r"`([^`]+)`", cell)


def families():
    """Every family that the process exposes: name as in the text format, type, labels."""
    metrics = Metrics(lease="lease")
    client, pods = metrics.client("host"), metrics.reflector("pods")
    client.replied("get", "200", 0.1)
    client.retried("get", "Throttled")
    pods.listed(1, 0.1)
    metrics.sample_informers(Idle())
    metrics.jobs.failed("ns", "why")
    metrics.jobs.restarted("ns", replica_type="PS", reason="why")
    metrics.controllers["tfjob-controller"].reconciles.ended(PassResult.SUCCESS, 0.1)
    metrics.sample()
    for family in metrics.registry.collect():
        kind = "gauge" if family.type == "info" else family.type
        suffix = {"counter": "_total", "info": "_info"}.get(family.type, "")
        labels = {name for sample in family.samples for name in sample.labels} - {"le"}
        yield family.name + suffix, kind, labels


FAMILIES = {name: (kind, labels) for name, kind, labels in families()}


def test_the_page_has_every_flag_and_no_other():
    assert [words(row[0])[0] for row in rows("Flags of run")] == [f"--{flag.name}" for flag in flags.FLAGS]


@pytest.mark.parametrize("flag", flags.FLAGS, ids=lambda flag: flag.name)
def test_the_page_has_the_default_of_every_flag(flag):
    (row,) = [row for row in rows("Flags of run") if words(row[0]) == [f"--{flag.name}"]]

    assert not flag.default or flag.default in words(row[1])
    assert not flag.variable or f"${flag.variable}" in words(row[1])


def test_the_page_has_every_variable_and_no_other():
    named = [words(row[0])[0] for row in rows("Environment")]

    assert {flag.variable for flag in flags.FLAGS if flag.variable} < set(named)
    assert set(named) - {flag.variable for flag in flags.FLAGS} == {"MY_POD_NAME", "CUSTOM_CLUSTER_DOMAIN"}


def test_the_page_has_every_metric_and_no_other():
    named = [words(row[0])[0] for row in rows("Metrics")]

    assert sorted(named) == sorted(FAMILIES)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_page_has_the_type_and_the_labels_of_every_metric(name):
    (row,) = [row for row in rows("Metrics") if words(row[0]) == [name]]
    kind, labels = FAMILIES[name]

    assert (row[1], set(words(row[2]))) == (kind, labels)
