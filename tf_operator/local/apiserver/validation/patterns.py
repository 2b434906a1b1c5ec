r"""``pattern``: regular expressions as Go reads them, in a time that is linear in the text.

A backtracking engine could be stopped for ever by a schema and a text, so RE2 evaluates them, which is in the engine of
CEL. The patterns of this project's own CRDs do without: each is also here for Python's ``re``, in a form that leads
through a text in one way only. So these CRDs are stored without the engine, which takes start-up time, and ``tfjob
plan`` works where it is not installed.
"""

import re
from functools import cache
from typing import Any, Final

from tf_operator.local.apiserver.messages import ApiFailure
from tf_operator.local.apiserver.validation import engine

_OWN: Final = {
    "^[a-z0-9]{1,8}$": "[a-z0-9]{1,8}",
    r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$": (
        r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?"
    ),
    r"^[0-9]{1,18}(\.[0-9]{1,9})?([KMGTPE]i|[kMGTPE]|[eE][0-9]{1,2})?$": (
        r"[0-9]{1,18}(\.[0-9]{1,9})?([KMGTPE]i|[kMGTPE]|[eE][0-9]{1,2})?"
    ),
}
"""By pattern: the whole text as Python reads it."""
_WORDS_OF_GO: Final = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
    "trailing \\": "trailing backslash at end of expression",
}


def matches(pattern: str, text: str) -> bool:
    """Whether the pattern is somewhere in the text; ``ApiFailure`` if it takes the engine, and there is none."""
    if pattern in _OWN:
        return re.fullmatch(_OWN[pattern], text) is not None
    return _searched(pattern, text) is True


def problem(pattern: str) -> str:
    """Why it is no regular expression, in the words of Go; empty also if nobody can know without the engine."""
    if not pattern or pattern in _OWN:
        return ""
    try:
        result = _searched(pattern, "")
    except ApiFailure:  # then its objects are refused
        return ""
    if isinstance(result, bool):
        return ""
    error, _, where = result.rpartition("invalid regular expression: ")[2].partition(": ")
    return f"error parsing regexp: {_WORDS_OF_GO.get(error, error)}: `{where}`"


def _searched(pattern: str, text: str) -> bool | str:
    result = _expression().eval(data={"text": text, "pattern": pattern})
    value: object = result.value()
    return value if isinstance(value, bool) else str(value)


@cache
def _expression() -> Any:  # noqa: ANN401 - the engine has no types
    cel = engine.imported("patterns")
    variables = {"text": cel.Type.STRING, "pattern": cel.Type.STRING}
    return cel.NewEnv(variables=variables).compile("text.matches(pattern)")
