"""The manifest for a function, what is refused before there is one, and what its launcher leaves for the result."""

import json
import os
import subprocess
import sys

import pytest

from tf_operator.client import NotPossible
from tf_operator.client.functions import function_job, launcher
from tf_operator.client.manifests import validate


def fit(parameters):
    print("$(HOME)", parameters)  # noqa: T201 (as users do)
    return parameters["result"]


def alone():
    return 1


def _():
    return 1


unnamed = _


def report():
    def message():
        return __name__

    return message()


def imports_launcher():
    import tf_operator.client.functions.launcher  # noqa: PLC0415 (all that is sent is the function)

    return tf_operator.client.functions.launcher.MOST_BYTES


def test_the_job_has_the_replicas_resources_and_variables_that_were_named():
    job = function_job.make(
        fit,
        {
            "parameters": {"result": 1},
            "num_workers": 2,
            "num_ps": 1,
            "resources_per_worker": {"cpu": 2, "memory": "4Gi", "gpu": 1},
            "env_vars": {"A": "$x"},
        },
        is_here=False,
    )

    replicas = job["spec"]["tfReplicaSpecs"]
    (container,) = replicas["Worker"]["template"]["spec"]["containers"]
    (server,) = replicas["PS"]["template"]["spec"]["containers"]
    amounts = {"cpu": "2", "memory": "4Gi", "nvidia.com/gpu": "1"}
    assert {kind: spec["replicas"] for kind, spec in replicas.items()} == {"Chief": 1, "Worker": 2, "PS": 1}
    assert (container["resources"], "resources" in server) == ({"requests": amounts, "limits": amounts}, False)
    assert (container["image"], container["env"]) == (
        "tensorflow/tensorflow:2.19.0-gpu",
        [{"name": "A", "value": "$$x"}],
    )
    assert container["args"][0].startswith('def fit(parameters):\n    print("$$(HOME)"')
    assert validate.check(job, namespace="default").errors == ()


@pytest.mark.parametrize(
    ("function", "options", "rule"),
    [
        (fit, {}, r"called as fit\(\), but missing a required argument: 'parameters'"),
        (alone, {"parameters": {}}, r"called as alone\(parameters\), but too many positional arguments"),
        (fit, {"parameters": [1]}, "parameters is a dictionary"),
        (
            fit,
            {"parameters": {"a": object()}},
            r"parameters\['a'\] contains a value of type object, which cannot be sent",
        ),
        (fit, {"parameters": {"a": [float("nan")]}}, r"parameters\['a'\] contains a value of type list"),
        (fit, {"parameters": {"a": "ä" * 20_000}}, "the parameters and packages of fit have more than 100 kB"),
        (alone, {"pip_index_url": ["https://a"]}, r"pip_index_url is \['https://a'\], and has to be a text"),
        (alone, {"base_image": 1}, "base_image is 1, and has to be a text"),
        (alone, {"name": 1}, "name is 1, and has to be a text"),
        (alone, {"packages_to_install": "numpy"}, "packages_to_install is a list"),
        (alone, {"packages_to_install": ["--index-url=x"]}, "'--index-url=x', which is not the name of a package"),
        (alone, {"packages_to_install": [1]}, "has 1, which is not the name of a package"),
        (alone, {"num_workers": -1}, "num_workers is -1, and has to be a number, from 0"),
        (alone, {"num_ps": True}, "num_ps is True"),
        (alone, {"num_workers": 0}, "a job needs a worker or a chief"),
        (alone, {"resources_per_worker": 2}, "resources_per_worker is a dictionary"),
        (alone, {"env_vars": {"A": 1}}, "env_vars is a dictionary of strings"),
        (alone, {"env_vars": ["A"]}, "env_vars is a dictionary of strings"),
        (unnamed, {}, "no job can be called _, as the function is: pass its name"),
        (imports_launcher, {}, "imports tf_operator, which is .* does not go along: put it into an image"),
    ],
)
def test_what_cannot_run_is_a_sentence(function, options, rule):
    with pytest.raises(NotPossible, match=rule):
        function_job.make(function, options, is_here=False)


def test_a_function_without_a_name_for_a_job_runs_under_another():
    assert function_job.make(unnamed, {"name": "fit"}, is_here=True)["metadata"]["name"] == "fit"


def test_on_this_machine_packages_must_be_there_and_own_modules_may():
    options = {"packages_to_install": ["msgspec>=0.1", "tf-operator[cli]"]}
    assert function_job.make(imports_launcher, options, is_here=True)

    with pytest.raises(NotPossible, match="no-such-package is not installed, and nothing is installed on this machine"):
        function_job.make(alone, {"packages_to_install": ["no-such-package"]}, is_here=True)


def run(function, parameters, folder, **variables):
    """Run the job's program as a container would; its exit, what it has printed, and the message it has left."""
    job = function_job.make(function, {"parameters": parameters}, is_here=True)
    (container,) = job["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]["containers"]
    words = [word.replace("$$", "$") for word in (*container["command"][1:], *container["args"])]
    path = folder / "message"
    environment = os.environ | {launcher.HERE: str(path)} | variables
    process = subprocess.run([sys.executable, *words], env=environment, capture_output=True, text=True, check=False)
    return process, json.loads(path.read_text()) if path.exists() else None


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ({"loss": [0.5, None]}, {"returned": {"loss": [0.5, None]}}),
        ((1, "ä"), {"returned": [1, "ä"]}),
        ("x" * 5000, {"missing": "fit returned 5016 bytes of JSON; 4096 can be sent back: write it to a volume"}),
        (
            {1, 2},
            {
                "missing": "fit returned a set, which is not JSON:"
                " return numbers, strings, lists or dictionaries of them"
            },
        ),
    ],
    ids=["dictionary", "tuple", "large", "no JSON"],
)
def test_the_launcher_leaves_what_the_function_returns(tmp_path, result, message):
    process, left = run(fit, {"result": result}, tmp_path)

    assert (process.returncode, process.stderr, left) == (0, "", message)
    assert process.stdout == f"$(HOME) { ({'result': result}) }\n"


def test_an_exception_shows_the_lines_of_the_function_and_no_others(tmp_path):
    process, left = run(fit, {"other": 1}, tmp_path)

    assert (process.returncode, left) == (1, None)
    assert process.stderr.startswith(
        'Traceback (most recent call last):\n  File "<fit>", line 3, in fit\n    return parameters["result"]\n'
    )
    assert process.stderr.endswith("KeyError: 'result'\n")


def test_a_function_may_be_called_as_one_of_the_launcher(tmp_path):
    assert run(report, None, tmp_path)[1] == {"returned": "__main__"}


def test_numbers_of_arrays_come_back_as_numbers():
    class Number:
        def tolist(self):
            return 0.5

    assert launcher.message("fit", {"loss": Number()}) == '{"returned": {"loss": 0.5}}'


def test_a_message_that_cannot_be_left_ends_no_training(tmp_path):
    process, _ = run(fit, {"result": 1}, tmp_path, **{launcher.HERE: str(tmp_path / "none" / "message")})

    assert process.returncode == 0
    assert "the result of the function cannot be reported: " in process.stderr
