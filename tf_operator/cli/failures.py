"""What went wrong, in one sentence, and what to do next."""

from collections.abc import Mapping
from typing import Final

from tf_operator.machinery.transport import errors
from tf_operator.machinery.transport.config import ConfigurationError

DOCTOR: Final = "tfjob doctor shows what is missing"
_WHAT: Final[Mapping[type[Exception], str]] = {
    errors.Unreachable: "the API server cannot be reached: ",
    errors.ReplyLost: "the API server did not answer: ",
    errors.Unauthorized: "the API server does not accept the credentials: ",
}
_NEXT: Final[Mapping[type[Exception], str]] = {
    ConfigurationError: "name a cluster with --context or --kubeconfig, or start a server on this machine:"
    " tfjob local up",
    errors.NoReply: "is it the right cluster? -v shows which one is used, --context names another",
    errors.Unauthorized: "is it the right cluster? -v shows which one is used, --context names another",
    errors.AlreadyExists: "--replace deletes it first, --name chooses another name",
    errors.Conflict: "somebody else has changed it: try again",
    errors.Forbidden: DOCTOR,
    errors.ServerFailed: DOCTOR,
    errors.NotFound: "tfjob list shows the jobs, -n names another namespace",
}
"""By class, the special before the general."""


def sentence(error: Exception) -> str:
    """The error in the words of a user, with the next step."""
    if isinstance(error, errors.NotFound) and _is_unknown_kind(error):
        return f"the API server does not serve such objects; is the operator installed? {DOCTOR}"
    words = f"{_of(_WHAT, error)}{error}".rstrip(".")
    step = _of(_NEXT, error)
    return f"{words}; {step}" if step else words


def _is_unknown_kind(error: errors.NotFound) -> bool:
    """Whether it is no object that is missing, but its kind: then the API server names none."""
    return not error.reason or (error.status.details is not None and not error.status.details.name)


def _of(texts: Mapping[type[Exception], str], error: Exception) -> str:
    return next((text for kind, text in texts.items() if isinstance(error, kind)), "")
