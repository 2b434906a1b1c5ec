"""Errors as users read them: one sentence, and the next step."""

import pytest

from tf_operator.cli import failures
from tf_operator.client import NotPossible
from tf_operator.machinery.transport import errors
from tf_operator.machinery.transport.config import ConfigurationError
from tf_operator.machinery.transport.errors import Details, Status

NO_JOB = Status(reason="NotFound", message='tfjobs.kubeflow.org "j" not found', details=Details(name="j"))
NO_KIND = Status(reason="NotFound", message="the server could not find the requested resource", details=Details())
ERRORS = {
    "no job": (errors.NotFound(404, NO_JOB), '"j" not found; tfjob list shows the jobs'),
    "no CRD": (errors.NotFound(404, NO_KIND), "does not serve such objects; is the operator installed? tfjob doctor"),
    "a proxy's page": (errors.NotFound(404, Status()), "does not serve such objects"),
    "no server": (errors.Unreachable("refused"), "cannot be reached: refused; is it the right cluster? -v shows"),
    "no answer": (errors.ReplyLost("reset"), "the API server did not answer: reset; is it the right cluster?"),
    "no rights": (errors.Forbidden(403, Status(message="may not.")), "may not; tfjob doctor shows what is missing"),
    "a webhook that fails": (errors.ServerFailed(500, Status(message="boom")), "boom; tfjob doctor"),
    "invalid": (errors.Invalid(422, Status(message="spec.x: must be y")), "spec.x: must be y"),
    "a conflict": (errors.Conflict(409, Status(message="changed")), "changed; somebody else has changed it: try again"),
    "no kubeconfig": (ConfigurationError("there is none"), "there is none; name a cluster with --context"),
    "not possible": (NotPossible("it has ended: submit it again"), "it has ended: submit it again"),
}


@pytest.mark.parametrize(("error", "words"), ERRORS.values(), ids=ERRORS.keys())
def test_an_error_is_one_sentence_with_the_next_step(error, words):
    sentence = failures.sentence(error)

    assert words in sentence
    assert "\n" not in sentence
