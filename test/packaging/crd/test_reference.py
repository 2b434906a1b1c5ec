"""The tables of docs/api.md. What is in them, the page itself shows: ``hack/generate`` writes it."""

import pytest

from crd import reference
from pages.parts import BEGIN, PartMissingError


@pytest.mark.parametrize("page", ["", BEGIN.format(name="fields of spec")], ids=["no markers", "no end"])
def test_a_page_without_markers_is_refused(page):
    with pytest.raises(PartMissingError, match="fields of spec"):
        reference.fill(page, [])
