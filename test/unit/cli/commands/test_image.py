"""What ``tfjob image`` and ``tfjob install`` say of a file of authorities that they cannot use."""

import pytest

from tf_operator.cli.commands import image
from tf_operator.cli.usage import UsageError


@pytest.mark.parametrize("content", [b"\x30\x82\xff", b"not PEM", b""], ids=["binary", "text", "empty"])
def test_a_file_without_certificates_is_named_with_its_flag(content, tmp_path):
    (tmp_path / "ca").write_bytes(content)

    with pytest.raises(UsageError, match=f"^--ca {tmp_path}/ca: contains no certificates as PEM$"):
        image.tls_of(str(tmp_path / "ca"))


def test_a_file_of_authorities_that_cannot_be_read_is_named_with_its_flag(tmp_path):
    with pytest.raises(UsageError, match=f"^--ca: cannot read {tmp_path}: Is a directory$"):
        image.tls_of(str(tmp_path))
