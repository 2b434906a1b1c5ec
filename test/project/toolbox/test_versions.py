"""Versions are found in what programs say, and compared by the rules of versions.toml."""

import pytest

from toolbox.errors import BadCatalogue
from toolbox.versions import Version


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("Kubernetes v1.36.3", "1.36.3"),
        ("etcd Version: 3.6.8\nGit SHA: Not provided\nGo Version: go1.26.8", "3.6.8"),
        ("CoreDNS-1.12.4\nlinux/amd64, go1.26.8, ", "1.12.4"),
        ("v3.22.0+g1234567", "3.22.0"),
        ("promtool, version 2.42.0+ds (branch: debian/sid)", "2.42.0"),
        ("go version go1.26.8 linux/amd64", "1.26.8"),
        ("Client Version: v1.32.4-dispatcher", "1.32.4-dispatcher"),
        ("v1.36.0-rc.1", "1.36.0-rc.1"),
    ],
)
def test_the_first_version_in_what_a_program_says_counts(said, found):
    assert str(Version.first_in(said)) == found


@pytest.mark.parametrize("said", ["", "unknown flag: --version", "go1.27", "127.0.0.1:2379", "go1.27rc1"])
def test_what_is_not_a_version_is_not_taken_for_one(said):
    assert Version.first_in(said) is None


@pytest.mark.parametrize(
    ("found", "rule", "fits"),
    [
        ("1.36.3", "exact", True),
        ("1.36.4", "exact", False),
        ("1.36.0", "minor", True),
        ("1.37.3", "minor", False),
        ("2.36.3", "minor", False),
        ("1.36.3-rc.1", "minor", False),
        ("1.36.2", "major", False),
        ("1.36.3", "major", True),
        ("1.40.0", "major", True),
        ("2.0.0", "major", False),
    ],
)
def test_a_found_version_fits_by_the_rule_of_the_tool(found, rule, fits):
    assert Version.first_in(found).fits(Version.parse("1.36.3"), rule) is fits


@pytest.mark.parametrize("text", ["v1.2.3", "1.2", "1.2.3 or so", ""])
def test_the_catalogue_must_write_a_plain_version(text):
    with pytest.raises(BadCatalogue, match="is not a version"):
        Version.parse(text)
