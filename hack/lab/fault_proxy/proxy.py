"""A reverse proxy between a Kubernetes client and its apiserver that does to the traffic what a test says.

    with FaultProxy(plane.admin_kubeconfig) as proxy:
        kubeconfig = proxy.kubeconfig(tmp_path / "kubeconfig")       # give this to the client under test
        proxy.on(watch("pods", event="MODIFIED"), do=faults.duplicate())
        with proxy.on(create("pods"), do=faults.lose_reply(), nth=3) as rule:
            ...
            await proxy.until(rule.has_fired)
        with proxy.frozen():
            ...

It terminates TLS with an authority of its own, made for each proxy. What it does not change it passes on as it
comes: bodies piece by piece, watches line by line, protobuf and compressed bodies untouched, tokens verbatim.
The client speaks HTTP/1.1, because ALPN offers nothing else; kubectl and all Go clients are content with that.

It runs in a thread of its own, with its own event loop. So the client may be a process, a coroutine of the
test or blocking code; a product that blocks its event loop does not stop the proxy, and the times in the log
are those at which requests were read, not those at which the product had a moment to spare. All methods may be
called from any thread, and none waits for traffic except ``until`` (a coroutine) and ``wait_until`` (blocks).

A fault that never struck proves nothing: leaving the proxy, or a rule used as a context manager, raises
AssertionError then. It also raises what functions of the test raised in the proxy.
"""

import asyncio
import json
import ssl
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Self, TypeVar

import trustme

from lab.fault_proxy import engine as fault_engine
from lab.fault_proxy.engine import Engine, Predicate
from lab.fault_proxy.listener import Listener
from lab.fault_proxy.request import Call
from lab.fault_proxy.rule import Fault, LineFault, Rule
from lab.fault_proxy.trigger import Trigger
from lab.fault_proxy.upstream import Access, Upstream
from lab.fault_proxy.watch import Line

T = TypeVar("T")

_END_SECONDS = 10.0
_CALLS_SHOWN = 20


class FaultProxy:
    """One proxy in front of one or several apiservers; a context manager."""

    def __init__(self, *kubeconfigs: Path, seed: int = 0) -> None:
        """Each kubeconfig is one apiserver; *seed* is what all chance in this proxy comes from."""
        self._accesses = [Access.of(path) for path in kubeconfigs]
        self._random = Random(seed)
        self._authority = trustme.CA()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run_loop, name="fault-proxy", daemon=True)
        self._engine = Engine([Upstream(access) for access in self._accesses])
        self._rules: list[Rule] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        if error is None:
            self.assert_fired()

    def close(self) -> None:
        """End all connections and the thread, once. Late writes that have not been made never are."""
        if not self._thread.is_alive():
            return
        asyncio.run_coroutine_threadsafe(self._engine.close(), self._loop).result(_END_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    # Clients

    def kubeconfig(self, path: Path, *, client: str = "client", user_of: Path | None = None) -> Path:
        """Write a kubeconfig that leads here, for the user of *user_of* (the first apiserver's, without).

        Each *client* has a port of its own, and is known by this name to triggers, logs and ``frozen``.
        """
        access = Access.of(user_of) if user_of else self._accesses[0]
        listener = self._listener(client, access.certificate)
        cluster = {
            "server": f"https://127.0.0.1:{listener.port}",
            "certificate-authority-data": b64encode(self.authority).decode(),
        }
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "proxy", "cluster": cluster}],
            "users": [{"name": client, "user": access.user}],
            "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": client}}],
            "current-context": "proxy",
        }
        path.write_text(json.dumps(config))
        path.chmod(0o600)
        return path

    def url(self, client: str = "client") -> str:
        """Where *client* finds the proxy; for clients without a kubeconfig, which send their own token."""
        return f"https://127.0.0.1:{self._listener(client, self._accesses[0].certificate).port}"

    @property
    def authority(self) -> bytes:
        """The certificate that clients have to trust, as PEM."""
        return self._authority.cert_pem.bytes()

    def rotate_authority(self) -> bytes:
        """Change to a new authority, and hang up, as an apiserver does that is restarted for it."""
        self._authority = trustme.CA()
        for listener in self._engine.listeners.values():
            context = self._context()
            self._do(lambda listener=listener, context=context: listener.present(context))  # type: ignore[misc]
        return self.authority

    # Faults

    def on(
        self,
        trigger: Trigger,
        *,
        do: Fault,
        nth: int | None = None,
        at_most: int | None = None,
        chance: float = 1.0,
        at_least: int = 1,
    ) -> Rule:
        """Let a fault strike whenever the trigger fits, until the proxy ends or the rule is taken off.

        *nth* counts the requests or lines that fit, from 1: only that one is struck, or with *at_most* that
        many from there on. *chance* is the probability for each. *at_least* is how often it has to strike for
        the test to have meant anything; 0 for a guard that should never. Rules see a request or line in the
        order in which they were added; one that answers, or cuts, is the last to see it.
        """
        rule = Rule(
            trigger,
            do,
            nth=nth,
            at_most=at_most,
            at_least=at_least,
            chance=chance,
            random=Random(self._random.random()),
            on_change=self._engine.changed,
            on_off=self._take_off,
            loop=self._loop,
        )
        self._rules.append(rule)
        self._engine.rules = (*self._engine.rules, rule)
        return rule

    def now(self, trigger: Trigger, *, do: LineFault) -> int:
        """Let a fault strike the open watches that the trigger fits, at once; AssertionError if there is none."""
        struck = self._do(lambda: self._engine.strike(trigger, do))
        if not struck:
            raise AssertionError(f"{do}: no open watch fits {trigger}{self._story()}")
        return struck

    @contextmanager
    def frozen(self, client: str | None = None) -> Iterator[None]:
        """Stop everything, both ways, as if the server had SIGSTOP, and let it go on afterwards.

        New connections are accepted and not shaken hands with. Of one client, or of all.
        """
        with self._struck(client, Listener.freeze, Listener.thaw):
            yield

    @contextmanager
    def half_open(self, client: str | None = None, *, new: bool = False) -> Iterator[None]:
        """Let all open connections be silent for ever, and with *new* also those made within the context."""
        with self._struck(client, lambda listener: self._engine.swallow(listener, new=new), Listener.swallow_no_more):
            yield

    @contextmanager
    def refusing(self, client: str | None = None, *, keep_open: bool = False) -> Iterator[None]:
        """Refuse new connections, and unless *keep_open* reset those that are open."""
        with self._struck(client, lambda listener: listener.refuse(keep_open=keep_open), Listener.listen):
            yield

    def route(self, *, reads: int = 0, writes: int = 0) -> None:
        """Send reads (get, list, watch) and everything else to these apiservers, counted from 0."""
        self._engine.route = fault_engine.reads_and_writes(reads, writes)

    def alternate(self) -> None:
        """Send each request to the next apiserver."""
        self._engine.route = fault_engine.in_turn(len(self._accesses))

    def end(self) -> None:
        """Take all rules off; AssertionError when one did not strike as often as it has to."""
        for rule in self._rules:
            rule.off()
        self.assert_fired()

    def begin(self) -> None:
        """Forget rules and calls: one proxy may serve one test after the other."""
        self._rules, self._engine.rules, self._engine.calls = [], (), []

    # Evidence

    def calls(self, trigger: Trigger | None = None) -> tuple[Call, ...]:
        """The requests so far, in the order in which they were read; those that the trigger fits."""
        return tuple(call for call in tuple(self._engine.calls) if trigger is None or trigger.fits(call))

    def count(self, trigger: Trigger | None = None) -> int:
        """How many requests there were."""
        return len(self.calls(trigger))

    def open_watches(self, trigger: Trigger) -> int:
        """How many watches are open; those that are half-open do not count."""
        return self._do(lambda: self._engine.open_watches(trigger))

    def events(self, resource: str) -> tuple[Line, ...]:
        """The events of a resource that the apiserver sent on any watch, each once, by resourceVersion."""
        return self._do(lambda: self._engine.events(resource))

    async def until(self, predicate: Predicate, within: float = 10) -> None:
        """Return as soon as the predicate is true; it is asked, in the proxy's thread, whenever something happens."""
        try:
            await asyncio.wait_for(asyncio.wrap_future(self._waiting(predicate)), within)
        except TimeoutError:
            raise AssertionError(f"not within {within} s{self._story()}") from None

    def wait_until(self, predicate: Predicate, within: float = 10) -> None:
        """Do as ``until``, blocking: for tests without an event loop."""
        done = self._waiting(predicate)
        try:
            done.result(within)
        except TimeoutError:
            done.cancel()
            raise AssertionError(f"not within {within} s{self._story()}") from None

    def assert_fired(self) -> None:
        """Fail when a rule did not strike as often as it has to, or when something broke in the proxy."""
        if self._engine.tasks.errors:
            raise ExceptionGroup("in the fault proxy", self._engine.tasks.errors)
        for rule in self._rules:
            rule.assert_fired()

    # Inside

    def _listener(self, client: str, certificate: bytes) -> Listener:
        if client not in self._engine.listeners:
            self._do(lambda: self._engine.open_listener(client, certificate, self._context()))
        return self._engine.listeners[client]

    def _context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.set_alpn_protocols(["http/1.1"])
        self._authority.issue_cert("127.0.0.1", "localhost").configure_cert(context)
        return context

    @contextmanager
    def _struck(
        self, client: str | None, strike: Callable[[Listener], object], undo: Callable[[Listener], object]
    ) -> Iterator[None]:
        listeners = [listener for name, listener in self._engine.listeners.items() if client in {None, name}]
        self._do(lambda: [(listener.struck(), strike(listener)) for listener in listeners])
        try:
            yield
        finally:
            struck = self._do(lambda: [(undo(listener), listener.struck())[1] for listener in listeners])
        if not any(struck):
            raise AssertionError(f"no connection of {client or 'any client'} felt it{self._story()}")

    def _waiting(self, predicate: Predicate) -> Future[None]:
        done: Future[None] = Future()
        self._loop.call_soon_threadsafe(self._engine.wait_for, predicate, done)
        return done

    def _take_off(self, rule: Rule) -> None:
        self._engine.rules = tuple(other for other in self._engine.rules if other is not rule)

    def _story(self) -> str:
        """The end of the log, for messages."""
        return "".join(f"\n  {call}" for call in self.calls()[-_CALLS_SHOWN:]) or " (no request at all)"

    def _do(self, function: Callable[[], T]) -> T:
        """Call a function in the proxy's thread, where a predicate of ``until`` already is."""
        if threading.current_thread() is self._thread or not self._thread.is_alive():
            return function()
        return asyncio.run_coroutine_threadsafe(_call(function), self._loop).result(_END_SECONDS)

    def _run_loop(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
        finally:
            self._loop.close()


async def _call(function: Callable[[], T]) -> T:
    return function()
