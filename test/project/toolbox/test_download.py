"""Lists of checksums are read in every form that the publishers of our tools use."""

import pytest

from toolbox.download import Unavailable, listed_checksum

SUM, OTHER = "A1" * 32, "0" * 64


@pytest.mark.parametrize(
    "text",
    [
        f"{SUM}\n",
        SUM,
        f"{SUM}  alpha.tgz\n",
        f"{OTHER}  beta.tgz\n{SUM}  alpha.tgz\n",
        f"{SUM} *./_dist/alpha.tgz\n",
        f"### SHA256\n{OTHER}  alpha.tgz.asc\n{SUM}  ./alpha.tgz\r\n",
    ],
    ids=["alone", "no newline", "sha256sum", "among others", "binary mode and folder", "comment"],
)
def test_the_checksum_of_the_file_is_found(text):
    assert listed_checksum(text, "alpha.tgz") == SUM.lower()


@pytest.mark.parametrize("text", ["", f"{OTHER}  beta.tgz", f"{SUM[:40]}  alpha.tgz", "<html>not found</html>"])
def test_no_checksum_is_made_up(text):
    with pytest.raises(Unavailable, match=r"no checksum for alpha\.tgz is listed"):
        listed_checksum(text, "alpha.tgz")
