"""In which namespaces the table shows jobs: wherever the user may list them; where not, it says so."""

import json
from contextlib import asynccontextmanager

import pytest

from support.embedded.scripted_transport import InMemory, ScriptedReply, page
from support.fake_clock import FakeClock
from tf_operator.cli.ui import scopes
from tf_operator.client import AsyncTFJobs, Forbidden, NotFound
from tf_operator.dialects import registry
from tf_operator.machinery.transport import errors
from tf_operator.machinery.transport.requests import Scope

KUBEFLOW, MLKUBE = registry.SERVED[:2]
TFJOBS = "/apis/kubeflow.org/v1/{}tfjobs"
ALL = TFJOBS.format("")
TEAM = TFJOBS.format("namespaces/team/")
DEFAULT = TFJOBS.format("namespaces/default/")
NAMESPACES = "/api/v1/namespaces"
OTHER_KIND = "/apis/mlkube.io/v1beta1/tfjobs"
SERVED = ("/apis/kubeflow.org/v1", "/apis/mlkube.io/v1beta1")


class Rights(InMemory):
    """Lists may be read at these paths; the others are forbidden, and the other kind may not be served."""

    def __init__(self, paths, *, serves_both=False):
        self._paths = paths
        self._serves_both = serves_both or OTHER_KIND in paths

    @asynccontextmanager
    async def send(self, request, *, before_send=None):
        if request.path in SERVED and (request.path in OTHER_KIND) <= self._serves_both:
            kinds = [{"name": "tfjobs", "kind": kind, "namespaced": True} for kind in ("TFJob", "TfJob")]
            yield ScriptedReply(json.dumps({"resources": kinds}).encode())
        elif request.path in self._paths:
            names = ("default", "team", "secret") if request.path == NAMESPACES else ()
            yield ScriptedReply(page([{"metadata": {"name": name}} for name in names], version=1))
        elif request.path in SERVED:
            raise NotFound(404, errors.Status(message="not served"))
        else:
            raise Forbidden(403, errors.Status(message=f"you may not list {request.path}"))


@pytest.mark.parametrize(
    ("allowed", "named", "expected", "note"),
    [
        ({ALL}, "", {KUBEFLOW: [""]}, ""),
        ({ALL, OTHER_KIND}, "", {KUBEFLOW: [""], MLKUBE: [""]}, ""),
        ({TEAM}, "team", {KUBEFLOW: ["team"]}, "Only namespace team is shown"),
        ({TEAM, DEFAULT, NAMESPACES}, "", {KUBEFLOW: ["default", "team"]}, "shown: default, team."),
        ({TEAM, NAMESPACES, OTHER_KIND}, "", {KUBEFLOW: ["team"], MLKUBE: [""]}, "shown: team."),
        ({DEFAULT}, "", {KUBEFLOW: ["default"]}, "shown: default."),
    ],
)
async def test_jobs_are_shown_where_they_may_be_listed(allowed, named, expected, note):
    async with AsyncTFJobs(named, transport=Rights(allowed), clock=FakeClock()) as jobs:
        view = await scopes.visible(jobs, (KUBEFLOW, MLKUBE), named)

    assert {api: [scope.namespace for scope in places] for api, places in view.scopes.items()} == expected
    assert (note in view.note, bool(view.note), view.refusal) == (True, bool(note), "")


@pytest.mark.parametrize(("allowed", "named", "tried"), [({TEAM}, "", "default"), (set(), "team", "team")])
async def test_where_nothing_may_be_listed_the_missing_right_is_named_and_waited_for(allowed, named, tried):
    async with AsyncTFJobs(named, transport=Rights(allowed), clock=FakeClock()) as jobs:
        view = await scopes.visible(jobs, (KUBEFLOW, MLKUBE), named)

    assert view.scopes == {KUBEFLOW: (Scope(tried),)}
    path = TFJOBS.format(f"namespaces/{tried}/")
    assert view.refusal == f"you may not list {path}; tfjob doctor shows what is missing"


async def test_of_several_kinds_that_may_not_be_listed_the_first_is_named():
    async with AsyncTFJobs("team", transport=Rights(set(), serves_both=True), clock=FakeClock()) as jobs:
        view = await scopes.visible(jobs, (KUBEFLOW, MLKUBE), "team")

    assert TEAM in view.refusal
