"""The tables of docs/api.md. What is in them, the page itself shows: ``hack/generate`` writes it."""

import pytest

from crd import reference
from pages.parts import BEGIN, END, PartMissingError

SPEC = BEGIN.format(name="fields of spec")
OF_ANOTHER = f"{SPEC}\nwritten by hand\n{BEGIN.format(name='fields of status')}\n{END}"


@pytest.mark.parametrize("page", ["", SPEC, OF_ANOTHER], ids=["no markers", "no end", "the end of another part"])
def test_a_page_without_markers_is_refused(page):
    with pytest.raises(PartMissingError, match="fields of spec"):
        reference.fill(page, [])
