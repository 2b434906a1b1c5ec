"""docs/operations.md has the variables that are no flags."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "operations.md").read_text()


def test_the_page_has_the_variables_that_are_no_flags():
    section = PAGE.split("\n## Environment\n", 1)[1].split("\n## ", 1)[0]

    assert re.findall(r"^- `([A-Z_]+)`", section, re.MULTILINE) == [
        "MY_POD_NAME",
        "MY_POD_IP",
        "CUSTOM_CLUSTER_DOMAIN",
    ]
