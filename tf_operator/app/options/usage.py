"""The help of ``tf-operator run``: the table of flags, in groups, as wide as the reader's terminal."""

import textwrap
from itertools import groupby

from tf_operator.app.options import flags
from tf_operator.app.options.flag import Flag

_INTRODUCTION = """
usage: tf-operator run [--FLAG=VALUE ...]

Runs the operator until SIGTERM: watches TFJobs, and creates and deletes what they need. Flags are those of
Kubeflow's training-operator in Go's grammar: one dash or two, --flag=value or --flag value, --switch=false.
A flag overrides its environment variable.
"""
_VARIABLES = """
MY_POD_NAME is this replica's name in the Lease and in events; MY_POD_IP is where other replicas send it reports
of progress; CUSTOM_CLUSTER_DOMAIN is appended to the host names in TF_CONFIG. Flags of the Go operator that have
no effect on TFJobs (--webhook-..., --pytorch-..., --mpi-..., --zap-...) are ignored with a warning.
"""


def text(width: int) -> str:
    """The whole page, no line longer than ``width`` where words allow."""
    width = max(60, min(width, 110))
    paragraphs = [_wrapped(_INTRODUCTION, width)]
    for group, members in groupby(flags.FLAGS, key=lambda flag: flag.group):
        paragraphs.append("\n".join([f"{group}:", *(_entry(flag, width) for flag in members)]))
    return "\n\n".join([*paragraphs, _wrapped(_VARIABLES, width)])


def _wrapped(page: str, width: int) -> str:
    return "\n\n".join(textwrap.fill(paragraph, width) for paragraph in page.strip().split("\n\n"))


def _entry(flag: Flag, width: int) -> str:
    head = f"  --{flag.name}" + (f" {flag.metavar}" if flag.metavar else "")
    default = f"${flag.variable}" if flag.variable else ""
    default = " or ".join(part for part in (default, flag.default) if part)
    note = f" (default: {default})" if default else ""
    return f"{head}\n{textwrap.fill(flag.help + note, width, initial_indent=' ' * 6, subsequent_indent=' ' * 6)}"
