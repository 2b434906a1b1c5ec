"""``tfjob convert``: jobs of older versions, and of other APIs, as TFJobs of today, without a cluster.

Prints every object of the files, so that the output can take their place: jobs in the new version, everything else as
it is. Nothing is noted for a way back.
"""

import argparse
import sys
from typing import Any, Final

from tf_operator.cli.grammar import Commands
from tf_operator.cli.manifests import named_files
from tf_operator.client.manifests import kube_yaml, validate
from tf_operator.client.manifests.files import Manifest, ManifestError
from tf_operator.dialects import registry
from tf_operator.dialects.served import ConversionError

_OLDER: Final = ", ".join(
    f"{api.resource.group}/{version}" for api in registry.SERVED for version in api.conversion.versions
)
_OTHERS: Final = ", ".join(str(api.resource) for api in registry.SERVED if api.translate)
_DESCRIPTION: Final = f"""\
Rewrites manifests of {_OLDER},
{_OTHERS} as TFJobs
of {registry.DEFAULT.profile.api_version}, and prints all objects of the files as YAML. Needs no cluster. Reports
everything that cannot be converted, or works differently in a TFJob, on standard error, one per line."""
_EPILOG: Final = """\
exit codes: 0 success; 1 an object cannot be converted (the others are printed); 2 wrong usage or an unreadable file"""


def add_command(commands: Commands) -> None:
    parser = commands.add_parser(
        "convert",
        help="rewrite manifests of older versions and other APIs as TFJobs",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        allow_abbrev=False,
    )
    named_files.add_argument(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    outcomes = [_convert_file(name) for name in arguments.filename]
    return 0 if all(outcomes) else 1


def _convert_file(name: str) -> bool:
    try:
        documents = named_files.read(name)
    except (ManifestError, UnicodeDecodeError) as error:
        return _report_failure(name, str(error))
    outcomes = [_convert(manifest) for manifest in documents]
    return all(outcomes)


def _convert(manifest: Manifest) -> bool:
    try:
        body = _as_tfjob(manifest)
    except ConversionError as error:
        return _report_failure(manifest.where, str(error))
    sys.stdout.write(f"---\n{kube_yaml.write(body)}")
    return True


def _as_tfjob(manifest: Manifest) -> dict[str, Any]:
    api = registry.api_of(manifest.body)
    if api is None:
        return dict(manifest.body)
    if api.translate is None:
        return api.in_own_version(manifest.body)
    checked = validate.check(manifest.body)
    if checked.errors:
        raise ConversionError(str(checked.errors[0]))
    translation = api.translate(checked.job, manifest.body)
    for sentence in translation.changed:
        sys.stderr.write(f"{manifest.where}: warning: {sentence}\n")
    return registry.DEFAULT.in_own_version(translation.body)


def _report_failure(where: str, reason: str) -> bool:
    sys.stderr.write(f"{where}: {reason}\n")
    return False
