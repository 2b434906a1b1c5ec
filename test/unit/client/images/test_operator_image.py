"""Which packages of the lock a base with some Python gets, whatever Python asks for them."""

import re

import pytest

from tf_operator.client.images import operator_image


@pytest.mark.parametrize(("python", "has_extensions"), [((3, 11, 2), True), ((3, 13), False), ((3, 14), False)])
def test_the_lock_is_that_of_the_base_s_python(python, has_extensions):
    text = operator_image.requirements(python)

    names = re.findall(r"^([a-z0-9-]+)==\S+ \\$", text, re.MULTILINE)
    assert {"aiohttp", "msgspec", "cffi", "yarl"} <= set(names)
    assert ("typing-extensions" in names) is has_extensions
    assert ";" not in text
    assert all(block.count("--hash=") for block in re.split(r"^(?=[a-z])", text, flags=re.MULTILINE)[1:])
