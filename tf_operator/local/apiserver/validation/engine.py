"""Google's C++ engine of CEL and RE2 (cel-expr-python): optional, and imported when it is needed for the first time."""

from typing import Any, Final

from tf_operator.local.apiserver.messages import ApiFailure

_ADVICE: Final = (
    "the Python package cel-expr-python is not installed; 'pip install tf-operator[local]' brings it on Linux (glibc) "
    "and macOS; elsewhere use a real API server (--context)"
)


def imported(need: str) -> Any:  # noqa: ANN401 - the engine has no types
    """The module; without the package ``ApiFailure`` says what cannot be checked: nothing is accepted unchecked."""
    try:
        from cel_expr_python import cel  # noqa: PLC0415 - costs start-up time, and is optional
    except ImportError as error:
        raise ApiFailure(500, "InternalError", f"{need} of this kind cannot be checked: {_ADVICE}") from error
    return cel
