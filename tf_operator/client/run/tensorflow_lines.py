"""What TensorFlow says of itself when it is imported, which would bury what programs say in ``tfjob run``.

Six lines of each process with TensorFlow 2.21 on a processor. A level in the environment leaves four, which are written
before the log is set up. Only ``TF_ENABLE_ONEDNN_OPTS=0`` prevents those, and a convolution takes 1.7 times as long
then; so they are not shown, and stay in the log. Whoever asks for all lines, by a level of 0, gets them all.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from tf_operator.client.run import local_objects
from tf_operator.meta import Body

LEVEL: Final = "TF_CPP_MIN_LOG_LEVEL"
_ALL: Final = "0"
_WARNINGS: Final = "1"
_LINE: Final = re.compile(
    r"WARNING: All log messages before absl::InitializeLog\(\) is called are written to STDERR\s*"
    r"|I0000 [ \d.:]+ port\.cc:\d+\] oneDNN custom operations are on\. .*"
)

_OWN: Final = re.compile(
    r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+: [IW] [\w/.-]+:\d+\] .*"
    r"|[IW]\d{4} \d\d:\d\d:[\d.]+\s+\d+ [\w/.-]+:\d+\] .*"
    r"|WARNING: All log messages before absl::InitializeLog\(\) is called are written to STDERR\s*"
    r"|To enable the following instructions: .* rebuild TensorFlow with the appropriate compiler flags\.\s*"
)
"""Lines of its C++ log up to warnings: an error says why a program fails."""


def quieter(variables: Mapping[str, str]) -> dict[str, str]:
    """The environment of programs, with a level unless there is one."""
    return {LEVEL: _WARNINGS} | dict(variables)


def are_hidden(variables: Mapping[str, str], bodies: Iterable[Body]) -> bool:
    """Whether nobody has asked for all lines: the shell, or a container."""
    levels = {variables.get(LEVEL)}.union(*(local_objects.values_of(body, LEVEL) for body in bodies))
    return _ALL not in levels


def is_one(text: str) -> bool:
    """Whether a line of a log is one that is not shown."""
    return _LINE.fullmatch(text) is not None


def is_own(text: str) -> bool:
    """Whether a line is one that TensorFlow has written, and not the program: more than ``is_one``, for a fold."""
    return _OWN.fullmatch(text) is not None
