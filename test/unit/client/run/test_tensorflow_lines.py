"""Lines of TensorFlow about itself: recognized, and shown to those who ask for them."""

import pytest

from tf_operator.client.run import tensorflow_lines

ABSL = "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR"
ONEDNN = (
    "I0000 00:00:1795526778.588772    6582 port.cc:153] oneDNN custom operations are on. You may see slightly different"
    " numerical results due to floating-point round-off errors from different computation orders. To turn them off, set"
    " the environment variable `TF_ENABLE_ONEDNN_OPTS=0`."
)


@pytest.mark.parametrize(
    ("line", "is_one"),
    [
        (ABSL, True),
        (ONEDNN, True),
        (f"step 1 {ABSL}", False),
        ("W0000 00:00:1795526778.588772    6582 port.cc:153] oneDNN custom operations are on.", False),
        ("E0000 00:00:1795526778.588772    6582 cuda_dnn.cc:8310] Unable to register cuDNN factory", False),
        ("oneDNN custom operations are on. My program says so.", False),
    ],
)
def test_only_what_tensorflow_says_of_itself_is_left_out(line, is_one):
    assert tensorflow_lines.is_one(line) is is_one


def body(**variables):
    env = [{"name": name, "value": value} for name, value in variables.items()]
    return {"spec": {"tfReplicaSpecs": {"Worker": {"template": {"spec": {"containers": [{"env": env}]}}}}}}


@pytest.mark.parametrize(
    ("shell", "manifest", "level", "are_hidden"),
    [
        ({}, {}, "1", True),
        ({}, {"TF_CPP_MIN_LOG_LEVEL": "2"}, "1", True),
        ({}, {"TF_CPP_MIN_LOG_LEVEL": "0"}, "1", False),
        ({"TF_CPP_MIN_LOG_LEVEL": "0"}, {}, "0", False),
        ({"TF_CPP_MIN_LOG_LEVEL": "3"}, {"OTHER": "0"}, "3", True),
    ],
)
def test_who_asks_for_all_lines_gets_them(shell, manifest, level, are_hidden):
    assert tensorflow_lines.quieter(shell) == {"TF_CPP_MIN_LOG_LEVEL": level}
    assert tensorflow_lines.are_hidden(shell, [{"kind": "Secret"}, body(**manifest)]) is are_hidden
