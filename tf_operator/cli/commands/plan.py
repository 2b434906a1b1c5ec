"""``tfjob plan``: what the operator would create for a manifest, without a cluster.

Reads, validates, plans, prints. What would be created goes to standard output; errors and warnings go to
standard error, one a line. Exit code 0: all is well; 1: a manifest is wrong (the others are shown all the same);
2: wrong usage, or a file that cannot be read.
"""

import argparse
import sys
from pathlib import Path
from typing import Final

from tf_operator.app import controller_config
from tf_operator.cli.grammar import Commands
from tf_operator.cli.manifests import bodies, named_files
from tf_operator.client.manifests import validate
from tf_operator.client.manifests.files import Manifest, ManifestError
from tf_operator.client.plan import dry_run
from tf_operator.client.plan.job_plan import JobPlan
from tf_operator.dialects import registry
from tf_operator.meta import key_of, text_of
from tf_operator.planning.bodies import gang
from tf_operator.planning.snapshot import Settings
from tf_operator.text import escaped

_DESCRIPTION: Final = """\
Shows what the operator would create for a TFJob (pods, Services, PodGroup and TF_CONFIG) and what ends the job. Needs
no cluster: the operator's own code decides. Errors and unknown fields go to standard error, one per line, as
'file: field: rule'."""
_EPILOG: Final = """\
exit codes: 0 no errors; 1 a manifest contains errors; 2 wrong usage or an unreadable file"""


def add_command(commands: Commands) -> None:
    parser = commands.add_parser(
        "plan",
        help="show what the operator would create for a manifest, and its errors",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        allow_abbrev=False,
    )
    named_files.add_argument(parser)
    parser.add_argument(
        "-o",
        "--output",
        choices=("wide", "yaml"),
        metavar="FORMAT",
        help="wide: every replica with its TF_CONFIG; yaml: all objects in full, as kubectl accepts them",
    )
    parser.add_argument("-n", "--namespace", default="", metavar="NAME", help="namespace for jobs without one")
    parser.add_argument("--cluster-domain", default="", metavar="DOMAIN", help="the operator's CUSTOM_CLUSTER_DOMAIN")
    parser.add_argument(
        "--gang-scheduler-name", default="", metavar="NAME", help="the operator's flag of this name, as in volcano"
    )
    parser.add_argument(
        "--controller-config-file",
        default="",
        metavar="FILE",
        help="the operator's file with accelerators and default servers",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    settings = _settings(arguments)
    read_manifests, is_valid = _read_all(arguments.filename)
    plans = [_plan(manifest, arguments.namespace, settings) for manifest in read_manifests]
    for number, planned in enumerate(filter(None, plans)):
        _print(planned, arguments.output, is_first=number == 0)
    return 0 if is_valid and plans and all(plans) else 1


def _settings(arguments: argparse.Namespace) -> Settings:
    """What the plans of that operator depend on; ``UnreadableFile`` when its file cannot be used."""
    gang_scheduler = gang.scheduler(arguments.gang_scheduler_name)
    settings = Settings(cluster_domain=arguments.cluster_domain.strip("."), gang_scheduler=gang_scheduler)
    if not arguments.controller_config_file:
        return settings
    try:
        return controller_config.read(Path(arguments.controller_config_file)).added_to(settings)
    except controller_config.ConfigFileError as error:
        raise named_files.UnreadableFile(str(error)) from None


def _plan(manifest: Manifest, namespace: str, settings: Settings) -> JobPlan | None:
    """Report all errors and warnings of a manifest; the dry run of its job unless there are errors."""
    validation = validate.check(manifest.body, namespace=namespace, domain=settings.cluster_domain)
    planned = None if validation.errors else dry_run.run(validation.job, settings)
    for error in validation.errors:
        _report(manifest.where, str(error))
    for warning in (*validation.warnings, *(planned.warnings if planned else ())):
        _report(manifest.where, f"warning: {warning}")
    return planned


def _read_all(names: list[str]) -> tuple[list[Manifest], bool]:
    """All jobs in the files, and whether every file is valid."""
    documents, is_valid = list[Manifest](), True
    for name in names:
        try:
            documents += named_files.read(name)
        except (ManifestError, UnicodeDecodeError) as error:
            is_valid = False
            _report(name, str(error))
    jobs = list[Manifest]()
    for manifest in documents:
        if validate.is_job(manifest.body):
            jobs.append(manifest)
        else:
            _report(manifest.where, f"skipped: {_description(manifest)} is not a {registry.kinds()}")
    if is_valid and not jobs:
        _report(", ".join(names), f"contains no {registry.kinds()}")
    return jobs, is_valid


def _print(planned: JobPlan, output: str | None, *, is_first: bool) -> None:
    if output == "yaml":
        sys.stdout.writelines(bodies.text(planned))
        return
    if not is_first:
        sys.stdout.write("\n")
    sys.stdout.writelines(planned.text(wide=output == "wide"))


def _description(manifest: Manifest) -> str:
    return f"{text_of(manifest.body, 'kind') or 'an object without a kind'} {key_of(manifest.body).name}".rstrip()


def _report(where: str, sentence: str) -> None:
    # Names and values of somebody's manifest: on a terminal, control characters could hide or rewrite what is reported.
    sys.stderr.write(f"{escaped(f'{where}: {sentence}')}\n")
