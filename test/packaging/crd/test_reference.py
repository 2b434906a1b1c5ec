"""The tables of docs/api.md. What is in them, the page itself shows: ``hack/generate`` writes it."""

import pytest

from crd import reference


@pytest.mark.parametrize("page", ["", reference.BEGIN.format(top="spec")], ids=["no markers", "no end"])
def test_a_page_without_markers_is_refused(page):
    with pytest.raises(reference.MarkerMissingError, match="fields of spec"):
        reference.fill(page, [])
