"""Which controllers of TensorBoards a process has, and what it watches for them."""

import pytest

from support.embedded.scripted_transport import ScriptedTransport, client_of
from support.fake_clock import FakeClock
from tf_operator.app import tensorboards, wiring
from tf_operator.app.metrics.registry import Metrics
from tf_operator.app.options import options
from tf_operator.machinery.cache.factory import SharedInformerFactory

LABEL = "(training.kubeflow.org/operator-name=tensorboard-controller)"
CHILDREN = {f"deployments.apps in {LABEL}", f"services in {LABEL}"}
JOBS = "tfjobs.mlkube.io v1beta1"
WEBHOOK = ("--conversion-webhook-bind-address=:9443", "--conversion-webhook-cert-path=/tls")
V1ALPHA1 = (*WEBHOOK, "--conversion-webhook-versions=v1beta1,v1alpha1")
V1BETA1 = (*WEBHOOK, "--conversion-webhook-versions=v1beta1")
NOT_SERVED = {"kubeflow.org/v1": "it belongs to v1alpha1, which is not one of --conversion-webhook-versions"}


@pytest.mark.parametrize(
    ("arguments", "names", "watched"),
    [
        ((), set(), set()),
        (("--enable-scheme=tfjob.mlkube.io",), set(), set()),
        (
            ("--tensorboards=serve", "--enable-scheme=tfjob.mlkube.io"),
            {"tensorboard-controller", "mlkube-tfjob-controller-tensorboards"},
            {JOBS, "tensorboards.tensorstack.dev v1beta1", *CHILDREN},
        ),
        (
            ("--tensorboards=external", "--enable-scheme=tfjob.mlkube.io"),
            {"mlkube-tfjob-controller-tensorboards"},
            {JOBS, *CHILDREN},
        ),
        (("--tensorboards=external", "--enable-scheme=tensorflowtrainingjob"), set(), set()),
        (("--tensorboards=external",), set(), set()),
        (("--tensorboards=external", *V1BETA1), set(), set()),
        (
            ("--tensorboards=external", *V1ALPHA1),
            {"tfjob-controller-tensorboards"},
            {"tfjobs.kubeflow.org", *CHILDREN},
        ),
    ],
)
def test_a_process_watches_for_tensorboards_what_its_options_ask_for_and_no_more(arguments, names, watched):
    clock, run_options = FakeClock(), options.parse(arguments, {})
    informers = SharedInformerFactory(client=client_of(ScriptedTransport(clock), clock), clock=clock)
    metrics = Metrics(controllers=tensorboards.frameworks(run_options), workers=1)
    context = wiring.ControllerContext(None, informers, None, clock, run_options, metrics.controllers, None, None)

    assert set(tensorboards.make_controllers(context)) == names
    assert set(informers.idle_seconds()) == watched


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--tensorboards=external", *V1ALPHA1), {}),
        (("--tensorboards=external", *V1BETA1), NOT_SERVED),
        (("--tensorboards=external", "--enable-scheme=tfjob,tfjob.mlkube.io"), NOT_SERVED),
    ],
)
def test_why_tensorboards_of_jobs_are_not_run_is_known_to_their_plans(arguments, reason):
    assert wiring.settings(options.parse(arguments, {})).without_tensorboards == reason
