"""From the raw JSON of one object to what is kept of it; one that cannot be read costs only itself.

A tenant can store an object that no decoder reads: nested deeper than any of them goes, or with a text where a
number should be. It must not blind the operator to the objects of others, so every object is decoded on its own,
and a failure yields the metadata and no object. An index that raises on an object makes it as unreadable as a decoder
that does.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from tf_operator.machinery.cache.store import Item, Store
from tf_operator.machinery.log import Logger
from tf_operator.machinery.metrics_hooks import ReflectorInstruments
from tf_operator.machinery.transport import errors, responses
from tf_operator.machinery.transport.responses import ObjectMeta

_log = Logger(__name__)

T = TypeVar("T", bound=Item)
Decode = Callable[[msgspec.Raw], T]
"""From the JSON of an object to the frozen projection of it that is kept. May raise: only that object is lost."""


class ObjectDecoder(Generic[T]):
    """Reads objects of one resource for one store."""

    def __init__(
        self,
        decode: Decode[T],
        *,
        store: Store[T],
        instruments: ReflectorInstruments,
    ) -> None:
        self._decode = decode
        self._store = store
        self._instruments = instruments

    def read(self, raw: msgspec.Raw) -> tuple[ObjectMeta, T | None]:
        """The metadata, and the object or ``None``. No object makes it raise."""
        try:
            item = self._check(self._decode(raw))
        except MemoryError:
            raise  # nothing is wrong with the object, which must not seem to be gone
        except Exception as error:  # noqa: BLE001 (whatever a tenant stores, and whatever it does to the decoder)
            metadata = responses.read_metadata(raw)
            self._instruments.undecodable()
            reason = errors.excerpt(f"{type(error).__name__}: {error}".encode())
            _log.warning("an object cannot be decoded", key=str(metadata.key), uid=metadata.uid, error=reason)
            return metadata, None
        return item.metadata, item

    def _check(self, item: T) -> T:
        """The object, if it can be stored: it has an identity, and every index can place it."""
        metadata = item.metadata
        if not (metadata.name and metadata.uid and metadata.resource_version):
            raise ValueError("it has no name, no UID or no version")
        self._store.places_of(item)
        return item
