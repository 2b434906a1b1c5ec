"""hack/update-tools writes every go.mod from versions.toml, or leaves it as it was."""

import shutil

import pytest


@pytest.fixture
def published(bench):
    """A bench whose module is on a module proxy, and whose go.mod has not been written yet."""
    bench.with_go()
    bench.publish_module()
    shutil.rmtree(bench.tools / "greek")
    return bench


def test_what_is_written_can_be_verified_and_built(published):
    status, out, err = published.run(name="update-tools")

    assert (status, out) == (0, []), err
    assert "hack/update-tools: hack/tools/greek: go mod tidy: done in " in err
    assert published.run(name="verify-tools") == (0, [], "")
    assert published.run("alpha")[:2] == (0, [str(published.cached_alpha)])
    status, [folder], _ = published.run("--source", "alpha")
    assert (status, folder) == (0, f"{published.root}/modules/greek.example@v1.2.3")


def test_writing_it_again_changes_nothing(published):
    published.run(name="update-tools")
    files = [published.tools / "greek" / name for name in ("go.mod", "go.sum")]
    first = [file.read_text() for file in files]

    assert published.run(name="update-tools")[0] == 0
    assert [file.read_text() for file in files] == first


@pytest.mark.parametrize(
    ("old", "new"), [('"1.2.3"', '"1.2.4"'), ("cmd/{tool}", "cmd/no-{tool}")], ids=["version", "package"]
)
def test_what_does_not_exist_is_refused_and_leaves_the_former_files(published, old, new):
    published.run(name="update-tools")
    former = (published.tools / "greek" / "go.mod").read_text()
    versions = published.tools / "versions.toml"
    versions.write_text(versions.read_text().replace(old, new))

    status, out, err = published.run(name="update-tools")

    assert (status, out) == (1, [])
    assert "check the versions in hack/tools/versions.toml" in err
    assert "Traceback" not in err
    assert (published.tools / "greek" / "go.mod").read_text() == former


def test_a_module_that_is_not_what_go_sum_says_is_refused(published):
    published.run(name="update-tools")
    go_sum = published.tools / "greek" / "go.sum"
    lines = [f"{line[: line.index('h1:')]}h1:{'A' * 43}=" for line in go_sum.read_text().splitlines()]
    go_sum.write_text("\n".join(lines) + "\n")

    status, out, err = published.run("alpha")

    assert (status, out) == (1, [])
    assert "error: alpha 1.2.3: a module is not what go.sum says it is\n" in err
    assert published.leftovers() == []


@pytest.mark.parametrize("arguments", [["alpha"], ["--source", "alpha"]], ids=["build", "source"])
def test_a_set_that_was_never_written_is_an_error_in_words(published, arguments):
    status, out, err = published.run(*arguments)

    assert (status, out) == (1, [])
    assert err.endswith(
        "hack/tool: error: alpha 1.2.3: there is no hack/tools/greek/go.mod\nhack/tool: run hack/update-tools\n"
    )
