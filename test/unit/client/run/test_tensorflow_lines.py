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


@pytest.mark.parametrize(
    ("line", "is_own"),
    [
        (ABSL, True),
        (ONEDNN, True),
        ("2026-01-01 10:00:00.123456: I tensorflow/core/platform/cpu_feature_guard.cc:210] This binary is fast.", True),
        ("2026-01-01 10:00:00.1: W external/local_xla/xla/service/gpu/nvptx_compiler.cc:930] An older ptxas.", True),
        (
            "To enable the following instructions: AVX2 FMA, rebuild TensorFlow with the appropriate compiler flags.",
            True,
        ),
        ("2026-01-01 10:00:00.1: E tensorflow/core/framework/op_kernel.cc:1] no memory", False),
        ("E0000 00:00:1795526778.588772    6582 cuda_dnn.cc:8310] Unable to register cuDNN factory", False),
        ("2026-01-01 10:00:00 INFO train.py: step 1", False),
        ("Traceback (most recent call last):", False),
    ],
)
def test_what_tensorflow_writes_besides_errors_is_told_from_what_programs_print(line, is_own):
    assert tensorflow_lines.is_own(line) is is_own


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
