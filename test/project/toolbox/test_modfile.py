"""go.mod files are read in all their forms, and written so that they read back the same."""

from toolbox import modfile
from toolbox.modfile import ModFile

EVERY_FORM = """
module tf-operator.dev/hack/tools/greek // a comment

go 1.26.0

tool alpha.example/cmd/alpha

tool (
	beta.example/cmd/beta
)

require alpha.example v1.2.3 // indirect

require (
	beta.example v0.0.0
	// nothing
	gamma.example v1.0.0 // indirect
)

replace beta.example => beta.example v0.36.3

replace (
	gamma.example v1.0.0 => delta.example v2.0.0
)
"""

READ = ModFile(
    module="tf-operator.dev/hack/tools/greek",
    go="1.26.0",
    tools=frozenset({"alpha.example/cmd/alpha", "beta.example/cmd/beta"}),
    requires={"alpha.example": "v1.2.3", "beta.example": "v0.0.0", "gamma.example": "v1.0.0"},
    replaces={"beta.example": "beta.example v0.36.3", "gamma.example v1.0.0": "delta.example v2.0.0"},
)


def test_single_lines_blocks_and_comments_are_read(tmp_path):
    (tmp_path / "go.mod").write_text(EVERY_FORM)

    assert modfile.read(tmp_path / "go.mod") == READ


def test_what_is_written_reads_back_the_same(tmp_path):
    (tmp_path / "go.mod").write_text(READ.text())

    assert modfile.read(tmp_path / "go.mod") == READ


def test_a_file_without_replaces_has_no_empty_block():
    assert "replace" not in ModFile("m", "1.26.0", frozenset(), {}, {}).text()
