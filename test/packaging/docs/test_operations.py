"""docs/operations.md lists every flag, variable and metric of the program, and no other."""

import re
from pathlib import Path

import pytest

from support.idle import full_registry
from tf_operator.app.options import flags

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
    for family in full_registry().collect():
        kind = "gauge" if family.type == "info" else family.type
        suffix = {"counter": "_total", "info": "_info"}.get(family.type, "")
        labels = {name for sample in family.samples for name in sample.labels} - {"le"}
        yield family.name + suffix, kind, labels


def test_the_page_has_every_flag_and_no_other():
    assert [words(row[0])[0] for row in rows("Flags of run")] == [f"--{flag.name}" for flag in flags.FLAGS]


@pytest.mark.parametrize("flag", flags.FLAGS, ids=lambda flag: flag.name)
def test_the_page_has_the_default_of_every_flag(flag):
    (row,) = [row for row in rows("Flags of run") if words(row[0]) == [f"--{flag.name}"]]

    assert not flag.default or flag.default in words(row[1])
    assert not flag.variable or f"${flag.variable}" in words(row[1])


def test_the_page_has_the_variables_that_are_no_flags():
    assert [words(row[0])[0] for row in rows("Environment")] == ["MY_POD_NAME", "CUSTOM_CLUSTER_DOMAIN"]


def documented():
    """Every metric of both tables: name, type, labels."""
    for name, kind, labels, _ in rows("Metrics"):
        yield words(name)[0], kind, set(words(labels))
    for labels, *cells in rows("Standard metrics"):
        for kind, cell in zip(("counter", "gauge", "histogram"), cells, strict=True):
            for name in words(cell):
                yield name, kind, set(words(labels))


def test_the_page_has_every_metric_with_its_type_and_labels_and_no_other():
    assert sorted(documented(), key=str) == sorted(families(), key=str)
