"""After which exit codes a container with a policy and rules of its own is started again, by the kubelet's words."""

import pytest

from tf_operator.job import restart_rules
from tf_operator.job.training_job import RestartPolicy


def rule(action, operator, *values):
    return {"action": action, "exitCodes": {"operator": operator, "values": list(values)}}


def restarts_after(policy, *rules):
    """The exit codes, of these few, after which the container is started again: alone, or with all others."""
    container_rules = restart_rules.read({"restartPolicy": policy, "restartPolicyRules": list(rules)})
    codes = (0, 1, 42, 137, 300)
    alone = [code for code in codes if container_rules.restarts_after(code) and not container_rules.restarts_all(code)]
    return alone, [code for code in codes if container_rules.restarts_all(code)]


@pytest.mark.parametrize(
    ("policy", "rules", "alone", "together"),
    [
        ("Never", [rule("Restart", "In", 42, 137)], [42, 137], []),
        ("Never", [rule("Restart", "NotIn", 0)], [1, 42, 137, 300], []),
        ("Never", [rule("RestartAllContainers", "In", 42)], [], [42]),
        ("Never", [rule("RestartAllContainers", "In", 42), rule("Restart", "NotIn", 0)], [1, 137, 300], [42]),
        ("Never", [rule("Restart", "NotIn", 0), rule("RestartAllContainers", "In", 42)], [1, 42, 137, 300], []),
        ("Never", [rule("Pause", "In", 42), rule("Restart", "In", 42)], [], []),
        ("OnFailure", [rule("Pause", "In", 42)], [1, 42, 137, 300], []),
        ("OnFailure", [rule("Restart", "In", 0)], [0, 1, 42, 137, 300], []),
        ("Always", [], [0, 1, 42, 137, 300], []),
    ],
)
def test_the_first_rule_about_the_code_decides_and_then_the_policy(policy, rules, alone, together):
    assert restarts_after(policy, *rules) == (alone, together)


@pytest.mark.parametrize(
    "container",
    [{}, {"restartPolicyRules": [rule("Restart", "In", 1)]}, {"restartPolicy": "ExitCode"}, {"restartPolicy": 7}],
)
def test_a_container_without_a_policy_of_its_own_has_no_rules(container):
    assert restart_rules.read(container) is None


@pytest.mark.parametrize(
    "rules",
    [
        7,
        [7],
        [{}],
        [{"action": "Restart"}],
        [{"action": "Restart", "exitCodes": 1}],
        [{"action": "Restart", "exitCodes": {"operator": "In", "values": 1}}],
        [rule("Restart", "Like", 1)],
        [rule("Restart", "In", "1", [], None)],
    ],
)
def test_what_is_no_rule_in_a_template_is_passed_over(rules):
    container_rules = restart_rules.read({"restartPolicy": "Never", "restartPolicyRules": rules})

    assert container_rules == restart_rules.RestartRules(RestartPolicy.NEVER)


def test_a_value_beyond_all_exit_codes_is_in_no_rule():
    rules = restart_rules.read({"restartPolicy": "Never", "restartPolicyRules": [rule("Restart", "In", 256, 1000)]})

    assert not any(rules.restarts_after(code) for code in (0, 255, 256, 1000, -1))
