"""Google's C++ engine of CEL and RE2 (cel-expr-python): optional, and imported when it is needed for the first time."""

import sys
from typing import Any, Final

from tf_operator.local.apiserver.messages import ApiFailure

_NEWEST: Final = (3, 13)
"""The newest Python that the package has wheels for; setup.cfg knows it, too."""


def imported(need: str) -> Any:  # noqa: ANN401 - the engine has no types
    """The module; without the package ``ApiFailure`` says what cannot be checked: nothing is accepted unchecked."""
    try:
        from cel_expr_python import cel  # noqa: PLC0415 - costs start-up time, and is optional
    except ImportError as error:
        raise ApiFailure(500, "InternalError", f"{need} of this kind cannot be checked: {_advice()}") from error
    return cel


def _advice() -> str:
    """Why there is no engine, and what to do."""
    python = sys.version_info[:2]
    if python > _NEWEST:
        newest, this = (".".join(map(str, version)) for version in (_NEWEST, python))
        why = f"the Python package cel-expr-python has no release for Python {this} yet"
        return f"{why}; use Python 3.11 to {newest}, or a real API server (--context)"
    why = "the Python package cel-expr-python is not installed; 'pip install tf-operator[local]' brings it on Linux"
    return f"{why} (glibc) and macOS; elsewhere use a real API server (--context)"
