"""The command line and the environment of ``tf-operator run``."""

import re
from datetime import timedelta

import pytest

from support.toys import toy_api
from tf_operator.app.options import flags, ignored_flags, options
from tf_operator.app.options.errors import OptionError
from tf_operator.app.options.flag_types import Address
from tf_operator.app.options.options import ElectionOptions, Options, Protection, RestartDelay, Webhook
from tf_operator.app.options.progress import ProgressOptions
from tf_operator.dialects import registry
from tf_operator.machinery.election.leaderelection import ElectionConfig
from tf_operator.meta import ObjectKey

V1, TOY = registry.DEFAULT, toy_api.API


def parse(*arguments, **environment):
    return options.parse(arguments, environment)


def refusal(*arguments, **environment):
    with pytest.raises(OptionError) as refused:
        parse(*arguments, **environment)
    (line,) = str(refused.value).splitlines()
    return line


def test_the_defaults_are_a_production_set_up():
    assert parse() == Options()
    assert Options() == Options(
        namespaces=(),
        workers=16,
        qps=500,
        burst=1000,
        election=ElectionOptions("tf-operator", "tf-operator", ElectionConfig(15, 10.0, 2.0)),
        restart_delay=RestartDelay(1, 300, 600),
        metrics_address=Address("", 8080),
        health_address=Address("", 8081),
        log_format="json",
        log_level="info",
    )


def test_every_flag_finds_its_place():
    parsed = parse(
        "--namespace=a",
        "--gang-scheduler-name=volcano",
        "--controller-threads=4",
        "--override-existing-controller",
        "--drain-timeout=20s",
        "--kubeconfig=/etc/kubeconfig",
        "--kube-api-qps=50.5",
        "--kube-api-burst=100",
        "--leader-elect=true",
        "--leader-election-id=lease",
        "--leader-election-namespace=kubeflow",
        "--leader-election-lease-duration=1m",
        "--leader-election-renew-deadline=40s",
        "--leader-election-retry-period=5s",
        "--restart-delay-base=500ms",
        "--restart-delay-cap=1m",
        "--restart-delay-reset=1h",
        "--metrics-bind-address=127.0.0.1:9090",
        "--metrics-secure",
        "--metrics-cert-path=/certificates",
        "--metrics-cert-name=metrics.crt",
        "--metrics-cert-key=metrics.key",
        "--health-probe-bind-address=0",
        "--log-format=console",
        "--log-level=debug",
        "--log-ended-jobs=false",
    )

    assert parsed == Options(
        namespaces=("a",),
        gang_scheduler="volcano",
        workers=4,
        overrides_existing_controller=True,
        drain_timeout=20,
        kubeconfig="/etc/kubeconfig",
        qps=50.5,
        burst=100,
        election=ElectionOptions("kubeflow", "lease", ElectionConfig(60, 40, 5)),
        restart_delay=RestartDelay(0.5, 60, 3600),
        metrics_address=Address("127.0.0.1", 9090),
        metrics_protection=Protection("/certificates/metrics.crt", "/certificates/metrics.key"),
        health_address=None,
        log_format="console",
        log_level="debug",
        logs_ended_jobs=False,
    )


def test_a_certificate_has_the_names_of_a_kubernetes_secret():
    protection = parse("--metrics-secure", "--metrics-cert-path=/certificates").metrics_protection

    assert protection == Protection("/certificates/tls.crt", "/certificates/tls.key")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--controller-threads=3"],
        ["-controller-threads=3"],
        ["--controller-threads", "3"],
        ["-controller-threads", "3"],
        ["--controller-threads=9", "--controller-threads=3"],
        ["--controller-threads=3", "--"],
    ],
    ids=["two dashes", "one dash", "two words", "one dash, two words", "the last one wins", "end of flags"],
)
def test_flags_are_written_as_in_go(arguments):
    assert parse(*arguments).workers == 3


def test_the_queue_keeps_room_for_who_has_waited_unless_it_is_switched_off():
    """Gangs that the queue places, as there is no gang scheduler, have the same rules."""
    parsed = parse("--job-queue", "--job-queue-shrink-after=1s", "--job-queue-reserve-after=90s")
    assert parsed.job_queue == parsed.queue_rules
    assert (parsed.queue_rules.shrink_after, parsed.queue_rules.reserve_after) == (
        timedelta(seconds=1),
        timedelta(seconds=90),
    )
    assert parse("--job-queue", "--job-queue-reserve-after=0").job_queue.reserve_after is None
    assert parse("--job-queue-reserve-after=0").job_queue is None


def test_the_flags_of_the_job_queue_are_accepted_by_their_older_names():
    names = ("shrink-after=1s", "grow-after=2s", "resize-interval=3s", "reserve-after=4s")
    older, newer = (
        parse(f"--{queue}", *(f"--{queue}-{name}" for name in names)) for queue in ("autoscale", "job-queue")
    )
    assert older == newer
    assert not older.warnings
    assert parse("--autoscale", "--job-queue=false").job_queue is None
    assert refusal("--autoscale-grow-after=x").startswith("--autoscale-grow-after=x: must be a duration")


def test_a_namespace_may_be_given_again_and_counts_once():
    assert parse("--namespace=a", "--namespace", "b,c", "--namespace=a").namespaces == ("a", "b", "c")


def test_the_environment_takes_the_place_of_a_default():
    parsed = parse(
        KUBEFLOW_NAMESPACE="team",
        USE_KUBE_CONFIG="/home/kubeconfig",
        MY_POD_NAMESPACE="kubeflow",
        MY_POD_NAME="tf-operator-0",
        CUSTOM_CLUSTER_DOMAIN=".cluster.local",
    )

    assert parsed.namespaces == ("team",)
    assert parsed.kubeconfig == "/home/kubeconfig"
    assert parsed.election.namespace == "kubeflow"
    assert parsed.pod_name == "tf-operator-0"
    assert parsed.cluster_domain == "cluster.local"


def test_the_command_line_wins_over_the_environment():
    parsed = parse("--namespace=b", "--kubeconfig=x", KUBEFLOW_NAMESPACE="a", USE_KUBE_CONFIG="y")

    assert (parsed.namespaces, parsed.kubeconfig) == (("b",), "x")


@pytest.mark.parametrize(
    ("arguments", "environment", "is_in_cluster"),
    [
        ([], {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, True),
        ([], {}, False),
        (["--kubeconfig=x"], {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, False),
        ([], {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBECONFIG": "x"}, False),
        ([], {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "USE_KUBE_CONFIG": "x"}, False),
    ],
    ids=["a pod", "a laptop", "a flag", "KUBECONFIG", "USE_KUBE_CONFIG"],
)
def test_a_kubeconfig_comes_before_the_pods_own_account(arguments, environment, is_in_cluster):
    assert parse(*arguments, **environment).is_in_cluster is is_in_cluster


@pytest.mark.parametrize(
    ("name", "scheduler"),
    [("none", ""), ("None", ""), ("", ""), ("Volcano", "volcano"), ("VOLCANO", "volcano"), ("My-one", "My-one")],
)
def test_the_gang_schedulers_that_are_known_may_be_written_in_any_case(name, scheduler):
    assert parse(f"--gang-scheduler-name={name}").gang_scheduler == scheduler


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            ["--kube-api-qps=fast"],
            "--kube-api-qps=fast: must be a number greater than 0, or a negative one for no limit",
        ),
        (["--controller-threads", "0"], "--controller-threads=0: must be a whole number from 1 to 1000"),
        (["--leader-elect=yes"], "--leader-elect=yes: must be true or false"),
        (["--leader-elect", "false"], "unexpected argument 'false': a switch takes its value after '='"),
        (["--log-format=xml"], "--log-format=xml: must be json or console"),
        (["--log-level=loud"], "--log-level=loud: must be debug, info, warning or error"),
        (["--kubeconfig"], "--kubeconfig: needs a value"),
        (["--leader-elected"], "there is no flag --leader-elected; did you mean --leader-elect?"),
        (["--xyzzy=1"], "there is no flag --xyzzy; see tf-operator run --help"),
        (["now"], "unexpected argument 'now'"),
        (["-"], "unexpected argument '-'"),
        (["--", "now"], "unexpected argument 'now'"),
        (["--leader-election-lease-duration=1500ms"], "--leader-election-lease-duration: must be whole seconds"),
        (["--restart-delay-base=10m"], "--restart-delay-base: 600s is longer than --restart-delay-cap, 300s"),
        (["--zap-log-level=loud"], "--zap-log-level=loud: must be debug, info, warn, error or a number from 1"),
        (
            ["--metrics-cert-path=/certificates"],
            "--metrics-cert-path: needs --metrics-secure, or metrics are served without TLS",
        ),
        (
            ["--metrics-secure", "--metrics-bind-address=:8081"],
            "--metrics-secure: the kubelet has no token, so probes need an address of their own",
        ),
        (
            ["--leader-election-lease-duration=5s"],
            (
                "--leader-election-...: the lease duration (5 s) must be longer than the renew deadline (10 s): "
                "otherwise a leader still works when another one takes over"
            ),
        ),
        (
            ["--enable-scheme=TFJob,TFJob.hub.kubeflow.org"],
            "--enable-scheme: names a kind in two versions; it is reconciled in one",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_an_invalid_command_line_is_one_line_that_names_flag_value_and_rule(arguments, line):
    assert refusal(*arguments) == line


def test_an_invalid_variable_is_named():
    assert refusal(KUBEFLOW_NAMESPACE="A").startswith("$KUBEFLOW_NAMESPACE is 'A': must be the name of a namespace")
    domain = refusal(CUSTOM_CLUSTER_DOMAIN="a b")
    assert domain == "$CUSTOM_CLUSTER_DOMAIN is 'a b': must be a domain such as cluster.local"


def test_the_arguments_of_a_deployed_go_operator_are_accepted_each_with_one_line_of_warning():
    parsed = parse(
        "--leader-elect",
        "--webhook-server-port=9443",
        "--webhook-service-name",
        "training-operator",
        "--pytorch-init-container-max-tries=100",
        "--mpi-kubectl-delivery-image=example/delivery",
        "--zap-devel",
        "--enable-scheme=tfjob",
        "--enable-scheme=PyTorchJob",
        "-alsologtostderr",
        "--gc-interval=10m0s",
        "-chaos-level",
        "-1",
        "-v=1",
        "--controller-threads=2",
    )

    assert parsed.workers == 2
    assert parsed.warnings == (
        "--webhook-server-port changes nothing: there is no webhook: the checks are in the CRD",
        "--webhook-service-name changes nothing: there is no webhook: the checks are in the CRD",
        "--pytorch-init-container-max-tries changes nothing: this operator runs TensorFlow jobs only",
        "--mpi-kubectl-delivery-image changes nothing: this operator runs TensorFlow jobs only",
        "--zap-devel changes nothing: see --log-format",
        "--alsologtostderr changes nothing: logs always go to standard error",
        "--gc-interval changes nothing: the API server collects what has lost its owner",
        "--chaos-level changes nothing: this operator deletes no pods at random",
        "--v changes nothing: it is called --log-level here",
        "--enable-scheme=PyTorchJob changes nothing: this operator does not know the kind",
    )


@pytest.mark.parametrize(
    ("arguments", "served"),
    [
        ((), (V1,)),
        (("--enable-scheme=PyTorchJob",), (V1,)),
        (("--enable-scheme=TRAINING",), (TOY,)),
        (("--enable-scheme=training.toys.example.org,PyTorchJob", "--enable-scheme", "tfjob"), (TOY, V1)),
        (("--enable-scheme=tfjob", "--enable-scheme=TFJob.kubeflow.org"), (V1,)),
        (("--enable-scheme=tfjob.other.org",), (V1,)),
        (("--enable-scheme=TFJob.v1.kubeflow.org",), (V1,)),
        (("--enable-scheme=TFJob.hub.kubeflow.org",), registry.ON_REQUEST),
    ],
    ids=["default", "none known", "one", "two", "one twice", "another group", "its version", "another version"],
)
def test_the_kinds_that_are_chosen_are_served(monkeypatch, arguments, served):
    monkeypatch.setattr(registry, "SERVED", (V1, TOY))

    assert parse(*arguments).apis == served


@pytest.mark.parametrize("kind", ["TFJob", "TFJob.hub.kubeflow.org"])
def test_the_exit_codes_of_the_fork_are_a_choice_for_kinds_that_have_a_version_v1alpha1(kind):
    kinds = f"--enable-scheme={kind},TfJob.mlkube.io"
    v1, mlkube = parse(kinds).apis
    fork, same = parse(kinds, "--v1alpha1-exit-codes=fork").apis

    assert [128 in profile.exit_codes.retryable for profile in (*v1.profiles, *fork.profiles)] == [
        True,
        False,
        True,
        True,
    ]
    assert same is mlkube


@pytest.mark.parametrize(
    ("level", "expected"),
    [("debug", "debug"), ("5", "debug"), ("info", "info"), ("warn", "warning"), ("panic", "error")],
)
def test_zaps_levels_are_understood(level, expected):
    assert parse(f"--zap-log-level={level}").log_level == expected


@pytest.mark.parametrize(("value", "expected"), [("", "json"), ("=true", "json"), ("=false", "console")])
def test_the_format_of_logs_may_be_said_as_before(value, expected):
    assert parse("--log-format=console", f"--json-log-format{value}").log_format == expected


@pytest.mark.parametrize(
    ("arguments", "name", "is_found"),
    [
        (("--enable-gang-scheduling",), "", True),
        (("--enable-gang-scheduling=false",), "", False),
        (("--enable-gang-scheduling", "--gang-scheduler-name=volcano"), "volcano", False),
        (("--enable-gang-scheduling", "--gang-scheduler-name=none"), "", False),
    ],
    ids=["on", "off", "a name", "none"],
)
def test_a_gang_scheduler_is_looked_for_where_none_is_named(arguments, name, is_found):
    parsed = parse(*arguments)
    assert (parsed.gang_scheduler, parsed.finds_gang_scheduler) == (name, is_found)
    assert refusal("--enable-gang-scheduling=x") == "--enable-gang-scheduling=x: must be true or false"


def test_no_flag_is_both_real_and_ignored():
    assert not flags.BY_NAME.keys() & ignored_flags.BY_NAME.keys()


@pytest.mark.parametrize("flag", flags.FLAGS, ids=lambda flag: flag.name)
def test_every_default_is_readable_and_every_help_a_sentence(flag):
    flag.read(flag.default)
    assert re.fullmatch(r"[A-Zjc].*\.", flag.help, re.DOTALL)
    assert bool(flag.metavar) is not flag.is_switch


def test_a_webhook_has_its_certificate_from_a_secret_or_from_files():
    address, where = Address("", 9443), "--conversion-webhook-bind-address=:9443"
    secret = parse(
        where, "--conversion-webhook-secret=s", "--conversion-webhook-host=h", "--leader-election-namespace=n"
    )

    assert secret.webhook == Webhook(address, ObjectKey("n", "s"), "h")
    files = parse(where, "--conversion-webhook-cert-path=/tls", "--conversion-webhook-versions=v1beta1,v1alpha1")
    assert files.webhook == Webhook(address, folder="/tls", versions=frozenset({"v1beta1", "v1alpha1"}))
    assert parse("--conversion-webhook-secret=s").webhook is None


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ([], "needs either --conversion-webhook-secret or --conversion-webhook-cert-path"),
        (["--conversion-webhook-secret=s"], "--conversion-webhook-secret: needs --conversion-webhook-host"),
        (["--conversion-webhook-versions=v1"], "--conversion-webhook-versions: v1: must be of v1beta2, v1beta1, "),
    ],
    ids=["no certificate", "no host", "no such version"],
)
def test_a_webhook_that_cannot_be_served_is_refused(more, sentence):
    assert sentence in refusal("--conversion-webhook-bind-address=:9443", *more)


def test_reports_of_progress_need_a_url_that_pods_can_trust():
    where, folder = "--progress-bind-address=:9444", "--progress-cert-path=/tls"
    options = parse(where, "--progress-url=https://here/", folder)

    assert options.progress == ProgressOptions(Address("", 9444), "https://here", "/tls")
    in_pod = parse(where, "--progress-url=https://here/", folder, MY_POD_IP="fd00::7")
    assert in_pod.progress.own_address == Address("fd00::7", 9444)
    assert parse("--progress-url=https://here", folder).progress is None
    rule = "needs --progress-url, which begins with https://, and --progress-cert-path"
    for arguments in ((where,), (where, "--progress-url=http://here", folder), (where, "--progress-url=https://here")):
        assert refusal(*arguments) == f"--progress-bind-address: {rule}"
