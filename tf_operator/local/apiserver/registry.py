"""Which resources the server knows: the built-in ones, and those that objects define."""

from collections.abc import Callable, Iterable, Iterator

from tf_operator.local.apiserver.kinds import Kind
from tf_operator.local.apiserver.storage.store import Commit
from tf_operator.machinery.log import Logger
from tf_operator.meta import Body, key_of

_log = Logger(__name__)


class Registry:
    """Kinds by the names that paths, bodies and owner references use."""

    def __init__(self, built_in: Iterable[Kind], *, on_removal: Callable[[Kind], object] = lambda _kind: None) -> None:
        """``on_removal`` gets each kind that is not served any more."""
        self._built_in = tuple(built_in)
        self._on_removal = on_removal
        self._definitions: dict[tuple[str, str], tuple[Kind, ...]] = {}
        self._index()

    def __iter__(self) -> Iterator[Kind]:
        return iter(self._by_path.values())

    def find(self, group: str, version: str, plural: str) -> Kind | None:
        return self._by_path.get((group, version, plural))

    def serves(self, kind: Kind) -> bool:
        """Whether paths still name this kind, and no other definition of it."""
        return self.find(kind.resource.group, kind.resource.version, kind.resource.plural) is kind

    def is_built_in(self, group: str) -> bool:
        return any(kind.resource.group == group for kind in self._built_in)

    def of_kind(self, api_version: str, kind: str) -> Kind | None:
        return self._by_name.get((api_version, kind))

    def stored_in(self, collection: str) -> Kind | None:
        return self._by_collection.get(collection)

    @property
    def stored(self) -> Iterable[Kind]:
        return self._by_collection.values()

    @property
    def namespaces(self) -> Kind | None:
        """The kind whose objects are namespaces; without one, each namespace exists."""
        return self._namespaces

    def on_change(self, change: Commit) -> None:
        kind = self._by_collection.get(change.collection)
        if kind is None or kind.defines is None:
            return
        source = change.collection, change.path
        was = self._definitions.get(source, ())
        if change.new is None:
            self._definitions.pop(source, None)
        elif change.old is None or change.old.body.get("spec") != change.new.body.get("spec"):
            self._definitions[source] = _defined(kind.defines, change.new.body)
        self._index()
        for defined in was:
            if not self.serves(defined):
                self._on_removal(defined)

    def defined_by(self, collection: str, path: str) -> tuple[Kind, ...]:
        return self._definitions.get((collection, path), ())

    def _index(self) -> None:
        kinds = [*self._built_in, *(kind for kinds in self._definitions.values() for kind in kinds)]
        self._by_path = {(kind.resource.group, kind.resource.version, kind.resource.plural): kind for kind in kinds}
        self._by_name = {(kind.resource.api_version, kind.resource.kind): kind for kind in kinds}
        self._by_collection = {}
        for kind in kinds:
            if kind.answer is None and kind.read is None and kind.storage.api_version == kind.resource.api_version:
                self._by_collection[str(kind.storage)] = kind
        self._namespaces = next((kind for kind in kinds if kind.is_namespace), None)


def _defined(defines: Callable[[Body], tuple[Kind, ...]], body: Body) -> tuple[Kind, ...]:
    """What an object defines; nothing if it cannot be read: it is stored already, and the server must start with it."""
    try:
        return defines(body)
    except Exception:  # noqa: BLE001 (a defect in the validation of definitions must not end the server)
        _log.exception("a definition is not served", definition=str(key_of(body)))
        return ()
