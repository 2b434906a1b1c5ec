"""What a text points to exists: the rule sees what is missing, and leaves alone what is there or belongs to others."""

import pytest

from house.signs import Signs

FILES = [
    "docs/adr/0003-own-writes.md",
    "tf_operator/planning/plan.py",
    "tf_operator/planning/kueue/__init__.py",
    "a/b.yaml",
]


@pytest.fixture
def signs():
    return Signs(FILES, frozenset({"--context"}))


@pytest.mark.parametrize(
    "text",
    [
        "see docs/adr/0004",
        "hack/tool",
        "``planning.plans``",
        "``planning.plan.Plan`` and ``planning.observe``",
        "the file ``c.yaml``",
        "with `tfjob get --contxt prod`",
        "`--contxt`",
    ],
)
def test_what_does_not_exist_is_named(signs, text):
    assert len([*signs.missing(f"first\n{text}")]) == 1


@pytest.mark.parametrize(
    "text",
    [
        "see docs/adr/0003, and tf_operator/planning/plan.py.",
        "``planning.plan.Plan`` of ``planning.kueue``",
        "the file ``b.yaml``",
        "`tfjob get --context prod`, or `--field-selector` of kubectl",
        "hack/requirements/NAME.txt stands for any",
        "``status.conditions`` and ``job.uid`` are fields",
        "https://example.org/docs/x",
    ],
)
def test_what_exists_or_belongs_to_others_is_left_alone(signs, text):
    assert [*signs.missing(text)] == []


def test_the_line_is_said(signs):
    assert [*signs.missing("one\ntwo hack/x.py")] == [(2, "hack/x.py")]
