"""Kubeconfig files, read into settings.

Files are merged as ``kubectl`` merges them: the first that names a current context wins, and paths are relative to
their file. An invalid file is named together with its error, no message quotes an entry (it holds the token), and what
is given in base64 is not left behind in temporary files. ``exec_auth`` and ``oidc_auth`` run what has to be run.

Only a user with another auth-provider is left to the ``kubernetes`` package, whose import costs half a second and some
50 MB: a command that is over in less would feel slow with it.
"""

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from tf_operator.machinery.clock import Clock
from tf_operator.machinery.transport import exec_auth, oidc_auth, proxies
from tf_operator.machinery.transport.config import ConfigurationError, checked
from tf_operator.text import one_line

_SECTIONS = {"contexts": "context", "clusters": "cluster", "users": "user"}
_PATHS = ("certificate-authority", "client-certificate", "client-key", "tokenFile")
_LOGINS = ("token", "tokenFile", "username", "auth-provider")
_PLUGINS_OWN = "client.authentication.k8s.io/exec"
"""The extension of a cluster that is for its exec plugin."""
_IMPERSONATIONS = ("as", "as-uid", "as-groups", "as-user-extra")


@dataclass(frozen=True, slots=True)
class KubeConfigSettings:
    """What a kubeconfig says about one context. Certificates and keys are PEM, ``""`` when there are none."""

    host: str
    authorization: str = field(repr=False)
    authorities: str
    certificate: str
    key: str = field(repr=False)
    is_verified: bool
    server_name: str | None
    proxy: str | None = field(repr=False)
    namespace: str = ""
    context: str = ""


@dataclass(frozen=True, slots=True)
class _Entry:
    """A context, a cluster or a user, and the file that it stands in."""

    path: Path
    body: dict[str, Any] = field(repr=False)

    def pem(self, name: str) -> str:
        """A certificate or key, given as data or as a file."""
        data, file = self.body.get(f"{name}-data"), self.body.get(name)
        if data:
            # In lines it is base64 for kubectl, too; whatever else stands between is a mistake.
            return base64.b64decode(data.replace("\r", "").replace("\n", ""), validate=True).decode()
        return Path(file).read_text() if file else ""


class KubeConfigFiles:
    """One context in one or more files, to be read again and again.

    The first reading settles which context: who runs ``kubectl config use-context`` in another window does not mean
    to send this process to another cluster.
    """

    def __init__(self, paths: Sequence[Path], *, context: str | None, clock: Clock) -> None:
        self._paths = paths
        self._context = context
        self._plugin = exec_auth.ExecPlugin(clock)
        self._oidc = oidc_auth.OpenIdConnect(clock)

    async def read(self, *, refused: bool) -> KubeConfigSettings:
        """Read everything again; ``refused`` when the apiserver did not accept what was read last."""
        files = {path: content for path in self._paths if (content := _parse(path)) is not None}
        if not files:
            raise ConfigurationError(f"there is no kubeconfig at {' or '.join(map(str, self._paths))}")
        name = self._context or _current_context(files.values())
        if not name:
            raise ConfigurationError(f"{_names(files)}: there is no current-context, and none was asked for")
        context = _entry(files, "contexts", name)
        cluster = _entry(files, "clusters", context.body.get("cluster"))
        user = _entry(files, "users", context.body["user"]) if context.body.get("user") else _Entry(context.path, {})
        settings = await self._settings(cluster, user, refused=refused)
        self._context = str(name)
        return replace(settings, namespace=str(context.body.get("namespace") or ""), context=str(name))

    async def _settings(self, cluster: _Entry, user: _Entry, *, refused: bool) -> KubeConfigSettings:
        try:
            credentials = await self._log_in(user, cluster, refused=refused)
            authorization = await _authorization(user.body)
            return KubeConfigSettings(
                host=_host(cluster.body.get("server")),
                # Editors and shells leave a newline at the end of a token file.
                authorization=checked(authorization.strip(), "user"),
                authorities=cluster.pem("certificate-authority"),
                certificate=credentials.certificate or user.pem("client-certificate"),
                key=credentials.key or user.pem("client-key"),
                is_verified=not cluster.body.get("insecure-skip-tls-verify"),
                server_name=cluster.body.get("tls-server-name"),
                proxy=_proxy(cluster.body),
            )
        except (
            ConfigurationError,
            OSError,
            ValueError,
            TypeError,
            LookupError,
            AttributeError,
        ) as error:
            # Without the cause: a traceback would show what the message does not.
            raise ConfigurationError(f"kubeconfig {_names((cluster.path, user.path))}: {_problem(error)}") from None

    async def _log_in(self, user: _Entry, cluster: _Entry, *, refused: bool) -> exec_auth.Credentials:
        """Run what has to be run, and leave in ``user`` what the package is to read: a plain token."""
        if impersonation := next((name for name in _IMPERSONATIONS if user.body.get(name)), None):
            # To ignore it would mean to act with more rights than the file asks for.
            raise ConfigurationError(f"the user's {impersonation!r} asks for impersonation, which is not supported")
        folder = user.path.parent.absolute()
        provider = user.body.get("auth-provider") or {}
        if plugin := user.body.pop("exec", None):
            cluster_info = _cluster_info(cluster)
            credentials = await self._plugin.credentials(plugin, folder=folder, cluster=cluster_info, refused=refused)
        elif provider.get("name") == "oidc":
            config = provider.get("config") or {}
            credentials = exec_auth.Credentials(await self._oidc.token(config, folder=folder, refused=refused))
        elif provider and provider.get("name") != "gcp":
            raise ConfigurationError(f"there is no auth-provider {provider.get('name')!r} any more; use an exec plugin")
        else:
            return exec_auth.Credentials()
        for other in ("auth-provider", "tokenFile"):
            user.body.pop(other, None)
        user.body["token"] = credentials.token
        return credentials


def current_context(path: Path) -> str:
    """The context that a file means where none is named; empty when it does not say."""
    try:
        return str(_current_context([_parse(path) or {}]) or "")
    except ConfigurationError:
        return ""


def _current_context(files: Iterable[Mapping[str, Any]]) -> object:
    return next((name for file in files if (name := file.get("current-context"))), None)


async def _authorization(user: Mapping[str, Any]) -> str:
    """The header of one user, whose plugins were run; empty for one without a token or a password."""
    header = await _provider_header(user) if user.get("auth-provider") else _own_header(user)
    if not header and any(user.get(name) for name in _LOGINS):
        raise ConfigurationError("the user's token is empty")
    return header


def _own_header(user: Mapping[str, Any]) -> str:
    """The header that the entry itself has: a token wins over a password, and a file over a token that it renews."""
    if token := _renewed_token(user.get("tokenFile"), str(user.get("token") or "")).strip():
        return f"Bearer {token}"
    name, password = user.get("username"), user.get("password")
    return f"Basic {base64.b64encode(f'{name}:{password}'.encode()).decode()}" if name and password else ""


def _renewed_token(path: str | None, token: str) -> str:
    """The token of a file; where there is none, or nothing in it, the one that was given."""
    if not path:
        return token
    try:
        return Path(path).read_text().strip() or token
    except (OSError, ValueError):
        if not token:
            raise
        return token


def _cluster_info(cluster: _Entry) -> dict[str, Any]:
    """What a plugin may know of the cluster, in the words of an ExecCredential."""
    authorities = cluster.pem("certificate-authority").encode()
    fields = {
        "server": _host(cluster.body.get("server")),
        "tls-server-name": cluster.body.get("tls-server-name"),
        "insecure-skip-tls-verify": cluster.body.get("insecure-skip-tls-verify"),
        "certificate-authority-data": base64.b64encode(authorities).decode(),
        "proxy-url": _proxy(cluster.body),
        "disable-compression": cluster.body.get("disable-compression"),
    }
    extensions = {entry.get("name"): entry.get("extension") for entry in cluster.body.get("extensions") or ()}
    return {name: value for name, value in fields.items() if value} | {"config": extensions.get(_PLUGINS_OWN)}


async def _provider_header(user: Mapping[str, Any]) -> str:
    try:
        # Imported here: half a second, and 50 MB. The operator's image does without.
        from kubernetes.aio.client import Configuration  # noqa: PLC0415
        from kubernetes.aio.config import ConfigException, load_kube_config_from_dict  # noqa: PLC0415
    except ImportError:
        raise ConfigurationError(
            f"the auth-provider {user['auth-provider'].get('name')!r} needs the package kubernetes, which is not "
            "installed: install it (pip install kubernetes), or use an exec plugin"
        ) from None

    configuration = Configuration()
    try:
        await load_kube_config_from_dict(
            {
                "contexts": [{"name": "chosen", "context": {"cluster": "chosen", "user": "chosen"}}],
                "clusters": [{"name": "chosen", "cluster": {"server": "https://unused"}}],
                "users": [{"name": "chosen", "user": {"auth-provider": user["auth-provider"]}}],
            },
            context="chosen",
            client_configuration=configuration,
        )
    except ConfigException as error:
        raise ConfigurationError(str(error)) from None
    return str(configuration.api_key.get("BearerToken", ""))


def _parse(path: Path) -> dict[str, Any] | None:
    try:
        content = yaml.safe_load(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ConfigurationError(f"kubeconfig {path}: {error.strerror}") from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        # The mark says where; the rest of the message may quote a line.
        mark = getattr(error, "problem_mark", None)
        place = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise ConfigurationError(f"kubeconfig {path}: not YAML{place}") from None
    if not isinstance(content, dict):
        raise ConfigurationError(f"kubeconfig {path}: not a kubeconfig, but {type(content).__name__}")
    return content


def _entry(files: Mapping[Path, Mapping[str, Any]], section: str, name: object) -> _Entry:
    """The first entry of that name, with its paths made absolute."""
    for path, file in files.items():
        entries = file.get(section)
        for entry in entries if isinstance(entries, list) else ():
            if isinstance(entry, dict) and entry.get("name") == name:
                body = entry.get(_SECTIONS[section]) or {}
                if not isinstance(body, dict):
                    raise ConfigurationError(f"kubeconfig {path}: {_SECTIONS[section]} {name!r} is not a mapping")
                folder = path.parent.absolute()
                absolute = {field: str(folder / str(body[field])) for field in _PATHS if body.get(field)}
                return _Entry(path, {**body, **absolute})
    raise ConfigurationError(f"kubeconfig {_names(files)}: there is no {_SECTIONS[section]} {name!r}")


def _names(paths: Iterable[Path]) -> str:
    return ", ".join(dict.fromkeys(map(str, paths)))


def _host(server: object) -> str:
    """The address of the apiserver; a path below it is allowed, as Rancher has it, but no user and no password."""
    if not server:
        raise ConfigurationError("'server' is missing")
    address = urlsplit(str(server))
    if "@" in address.netloc:
        raise ConfigurationError("'server' must not hold a user or a password")
    if address.scheme not in {"http", "https"} or not address.hostname or address.port == 0:
        raise ConfigurationError(f"'server' has to be http(s)://host[:port][/path], not {str(server)[:80]!r}")
    return str(server).rstrip("/")


def _proxy(cluster: Mapping[str, Any]) -> str | None:
    url = cluster.get("proxy-url")
    return proxies.checked(url, "'proxy-url'") if url else None


def _problem(error: Exception) -> str:
    """What is wrong, in words that quote nothing of the user's entry."""
    match error:
        case ConfigurationError():
            return one_line(str(error), most=600)
        case OSError():
            return f"cannot read {error.filename}: {error.strerror}" if error.filename else error.strerror or str(error)
        case _:
            return f"malformed ({type(error).__name__})"
