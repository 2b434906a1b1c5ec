"""``tf-operator crd``: prints the CustomResourceDefinition of TFJob or of another kind, or applies it to a cluster.

So a wheel or an image alone is enough to prepare a cluster. ``dialects.served`` has the definition, ``crd_apply`` the
way to the apiserver; that one is imported only when it is needed, because it takes longer than printing.
"""

import argparse
import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tf_operator.app.version import Commands
    from tf_operator.dialects.served import ServedAPI


def add_command(commands: "Commands") -> None:
    parser = commands.add_parser(
        "crd",
        help="print the CustomResourceDefinition of a kind, or apply it",
        description="Prints a CustomResourceDefinition as JSON, fit for: kubectl apply -f -",
        allow_abbrev=False,
    )
    parser.add_argument(
        "words",
        metavar="[migrate] KIND",
        nargs="*",
        help="KIND as for --enable-scheme of run (default: TFJob); migrate stores all its objects in the version that "
        "is reconciled, so that older versions can be switched off",
    )
    parser.add_argument("--apply", action="store_true", help="apply it and wait until its objects are served")
    parser.add_argument(
        "--older-versions",
        type=lambda text: tuple(text.split(",")),
        default=(),
        metavar="VERSIONS",
        help="also serve these versions, such as v1beta2,v1beta1,v1alpha2,v1alpha1; needs --webhook",
    )
    parser.add_argument(
        "--webhook",
        default="",
        metavar="WHERE",
        help="what converts them: NAMESPACE/SERVICE, or the address of an operator outside the cluster, https://...",
    )
    parser.add_argument(
        "--last",
        action="store_true",
        help="after migrate: serve the stored version alone, without the webhook, so that the operator can be removed",
    )
    parser.add_argument("--kubeconfig", metavar="FILE", help="kubeconfig of the cluster (default: as for kubectl)")
    parser.set_defaults(run=run, fail=parser.error)


def run(arguments: argparse.Namespace) -> int:
    from tf_operator.dialects import registry  # noqa: PLC0415 (``run`` sets its signal handlers sooner without)
    from tf_operator.dialects.tensorboard import v1beta1 as tensorboard  # noqa: PLC0415

    is_migration = arguments.words[:1] == ["migrate"]
    kind = " ".join(arguments.words[is_migration:])
    if kind.lower() == "tensorboard" and not (is_migration or arguments.older_versions or arguments.webhook):
        return _put(tensorboard.CRD.load(), arguments)
    api = registry.find(kind) if kind else registry.DEFAULT
    if api is None:
        sys.stderr.write(f"tf-operator crd: KIND must be {registry.kinds()} or TensorBoard, is {kind!r}\n")
        return 2
    _check(arguments, api, is_migration=is_migration)
    if is_migration:
        return _migrate(str(api.resource), arguments.kubeconfig, is_last=arguments.last)
    body = api.crd.load(*arguments.older_versions)
    if arguments.webhook:
        body["spec"]["conversion"] = _conversion(arguments.webhook, f"/convert/{api.resource}")
    return _put(body, arguments)


def _check(arguments: argparse.Namespace, api: "ServedAPI", *, is_migration: bool) -> None:
    """End with a message about flags that do not fit together."""
    if is_migration and (arguments.apply or arguments.older_versions or arguments.webhook):
        arguments.fail("migrate goes with --last and --kubeconfig alone")
    if arguments.last and not is_migration:
        arguments.fail("--last goes with migrate")
    if wrong := sorted(set(arguments.older_versions) - set(api.conversion.versions)):
        arguments.fail(f"--older-versions: there is {', '.join(api.conversion.versions)}, and no {', '.join(wrong)}")
    if bool(arguments.older_versions) != bool(arguments.webhook):
        arguments.fail("--older-versions and --webhook need each other")


def _put(body: Mapping[str, Any], arguments: argparse.Namespace) -> int:
    if arguments.apply:
        return _apply(body, arguments.kubeconfig)
    sys.stdout.write(f"{json.dumps(body, separators=(',', ':'), ensure_ascii=False)}\n")
    return 0


def _conversion(webhook: str, path: str) -> dict[str, Any]:
    """How the API server finds the webhook. The authority of its certificate comes from whoever keeps that."""
    if webhook.startswith("https://"):
        client: dict[str, Any] = {"url": f"{webhook.rstrip('/')}{path}"}
    else:
        namespace, _, name = webhook.rpartition("/")
        client = {"service": {"namespace": namespace or "default", "name": name, "path": path, "port": 443}}
    return {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": client}}


def _migrate(crd: str, kubeconfig: str | None, *, is_last: bool) -> int:
    import asyncio  # noqa: PLC0415 (see above)

    from tf_operator.app import crd_apply, crd_migrate  # noqa: PLC0415
    from tf_operator.machinery.clock import SystemClock  # noqa: PLC0415
    from tf_operator.machinery.transport.config import ConfigurationError  # noqa: PLC0415
    from tf_operator.machinery.transport.errors import ApiError  # noqa: PLC0415

    try:
        written = asyncio.run(crd_migrate.migrate(crd, crd_apply.source_of(kubeconfig), SystemClock(), is_last=is_last))
    except crd_migrate.NoDefinition:  # whoever removes the operator may have deleted it first
        sys.stdout.write(f"{crd}: the cluster has no such CustomResourceDefinition, so there is nothing to migrate\n")
        return 0
    except (ApiError, ConfigurationError, crd_migrate.NotMigrated) as error:
        sys.stderr.write(f"tf-operator crd: {crd} was not migrated: {error}\n")
        return 1
    served = ", and none is served" if is_last else ""
    sys.stdout.write(f"{crd}: {written} objects written, no older version is stored any more{served}\n")
    return 0


def _apply(body: Mapping[str, Any], kubeconfig: str | None) -> int:
    import asyncio  # noqa: PLC0415 (see above)

    from tf_operator.app import crd_apply  # noqa: PLC0415
    from tf_operator.machinery.clock import SystemClock  # noqa: PLC0415
    from tf_operator.machinery.transport.config import ConfigurationError  # noqa: PLC0415
    from tf_operator.machinery.transport.errors import ApiError  # noqa: PLC0415

    name = f"customresourcedefinition.apiextensions.k8s.io/{body['metadata']['name']}"
    try:
        waiting = asyncio.run(crd_apply.apply(body, crd_apply.source_of(kubeconfig), SystemClock()))
    except crd_apply.NotServed as error:
        sys.stderr.write(f"tf-operator crd: {name} was applied, but {error}\n")
        return 1
    except (ApiError, ConfigurationError, crd_apply.StillStored) as error:
        sys.stderr.write(f"tf-operator crd: {name} was not applied: {error}\n")
        return 1
    are = "is" if len(waiting) == 1 else "are"
    more = f"; {', '.join(waiting)} {are} served once the webhook answers" if waiting else ""
    sys.stdout.write(f"{name} applied{more}\n")
    return 0
