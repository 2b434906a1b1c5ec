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
