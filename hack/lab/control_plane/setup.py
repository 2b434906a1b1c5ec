"""The order in which a control plane comes up.

etcd; kube-apiserver; the manifests that the operator's installation would apply (this is where it gets its
rights) and the role of the test's kubelet; then the rest. The manifests come before the controller-manager
because its garbage collector learns of a new kind only every 30 seconds, but knows at once what was there.
"""

import functools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any, Final

import yaml

from lab import kubeconfig
from lab.control_plane import access as plane_access
from lab.control_plane import directory as plane_directory
from lab.control_plane import servers as plane_servers
from lab.control_plane.access import User
from lab.control_plane.api import BlockingApi
from lab.control_plane.directory import Layout
from lab.control_plane.launch import Launcher
from lab.control_plane.link import SupervisorLink
from lab.control_plane.servers import Reach
from lab.kubeconfig import Access

_MANIFESTS: Final = Path(__file__).resolve().parents[3] / "manifests"
# In the order in which `kubectl apply` gets them: folder by folder, by name.
_INSTALLED: Final = ("crd", "rbac")
_SETTLE_SECONDS: Final = 20.0
_MORE_SERVERS: Final = {"controller-manager": plane_servers.controller_manager, "scheduler": plane_servers.scheduler}


def binaries(features: AbstractSet[str]) -> list[str]:
    more = [f"kube-{name}" for name in _MORE_SERVERS if name in features]
    return [plane_servers.ETCD, plane_servers.APISERVER, *more]


def set_up(layout: Layout, link: SupervisorLink, features: AbstractSet[str]) -> None:
    """Start all servers of a fresh plane and return when they are ready and every user has its rights."""
    layout.pki.mkdir()
    start_servers(layout, link, features, install=_install)
    _wait_for_rights(layout)
    link.ask("publish", facts={"phase": "ready"})


def start_servers(
    layout: Layout,
    link: SupervisorLink,
    features: AbstractSet[str],
    *,
    install: Callable[[BlockingApi], None],
    users: Iterable[User] = plane_access.USERS,
    reach: Reach = plane_servers.ON_LOOPBACK,
) -> None:
    """Start the servers of a plane, with *install* between kube-apiserver and the rest; return when they are ready."""
    launcher, users = Launcher(layout, link), tuple(users)
    _write_inputs(layout, features, users)
    link.ask("publish", facts={"features": sorted(features)})
    launcher.start(plane_servers.etcd(layout))
    etcd_url = _url(layout, plane_servers.ETCD)
    launcher.start(plane_servers.kube_apiserver(layout, etcd_url=etcd_url, features=features, reach=reach))
    _write_kubeconfigs(layout, plane_servers.APISERVER, users)
    install(_api(layout, plane_access.ADMIN))
    launcher.start(*(spec(layout, reach, features) for name, spec in _MORE_SERVERS.items() if name in features))


def add_apiserver(layout: Layout, launcher: Launcher, features: Iterable[str], *, name: str, etcd_url: str) -> None:
    """Start one more API server under *name* and write the users' kubeconfigs for it."""
    launcher.start(plane_servers.kube_apiserver(layout, etcd_url=etcd_url, features=features, name=name))
    _write_kubeconfigs(layout, name, plane_access.USERS)


def _write_inputs(layout: Layout, features: AbstractSet[str], users: Iterable[User]) -> None:
    plane_access.write_tokens(layout.tokens, users)
    if "audit" in features:
        layout.audit_policy.parent.mkdir()
        layout.audit_policy.write_text(plane_servers.audit_policy())
    if plane_servers.SERVICES in features:
        layout.egress.parent.mkdir()
        layout.egress.write_text(plane_servers.egress(layout))


def _write_kubeconfigs(layout: Layout, server: str, users: Iterable[User]) -> None:
    """Named after the user for the first API server, user@server for any other."""
    suffix = "" if server == plane_servers.APISERVER else f"@{server}"
    tokens = plane_access.read_tokens(layout.tokens)
    for user in users:
        access = Access(_url(layout, server), tokens[user.name], layout.serving_cert.read_text())
        kubeconfig.write(layout.kubeconfig(f"{user.name}{suffix}"), access, user=user.name)


def _install(admin: BlockingApi) -> None:
    kubelet_role = plane_access.role_of(plane_access.KUBELET, plane_access.KUBELET_RULES)
    manifests = [admin.apply(manifest) for manifest in (*_read_manifests(), *kubelet_role)]
    for manifest in manifests:
        if manifest["kind"] == "CustomResourceDefinition":
            _wait_until(f"{manifest['metadata']['name']} is served", functools.partial(_is_served, admin, manifest))


def _is_served(admin: BlockingApi, crd: Mapping[str, Any]) -> bool:
    now = admin.get(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{crd['metadata']['name']}")
    conditions = now.get("status", {}).get("conditions") or ()
    return any(item["type"] == "Established" and item["status"] == "True" for item in conditions)


def _read_manifests() -> Iterator[dict[str, Any]]:
    for folder in _INSTALLED:
        for path in sorted((_MANIFESTS / folder).glob("*.yaml")):
            # The CRD has 240 kB: the loader in C takes a tenth of the time.
            yield from yaml.load_all(path.read_text(), Loader=yaml.CSafeLoader)


def _wait_for_rights(layout: Layout) -> None:
    """The server learns of new roles through a watch of its own: a first request could come too early."""
    permissions = (
        (plane_access.OPERATOR, {"group": "kubeflow.org", "resource": "tfjobs", "verb": "list"}),
        (plane_access.KUBELET, {"resource": "pods", "subresource": "status", "verb": "patch"}),
    )
    for user, attributes in permissions:
        api = _api(layout, user)
        _wait_until(f"{user.login} has its rights", functools.partial(api.is_allowed, **attributes))


def _wait_until(condition: str, is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _SETTLE_SECONDS
    while not is_so():
        if time.monotonic() > deadline:
            raise TimeoutError(f"after {_SETTLE_SECONDS:.0f} s it is not so that {condition}")
        time.sleep(0.02)


def _api(layout: Layout, user: plane_access.User) -> BlockingApi:
    token = plane_access.read_tokens(layout.tokens)[user.name]
    return BlockingApi(_url(layout, plane_servers.APISERVER), token=token, authority=layout.serving_cert)


def _url(layout: Layout, server: str) -> str:
    state = plane_directory.read_state(layout.root)
    assert state is not None, "the supervisor writes it before anything else"
    return str(state["servers"][server]["url"])
