"""Where tests get the configuration of a connection from."""

from typing import TYPE_CHECKING

from tf_operator.machinery.transport.config import ClientConfig

if TYPE_CHECKING:
    import asyncio


class ConfigSource:
    """Gives configurations one after the other, and the last one again; raises those that are errors.

    ``asked`` has an entry for each read: whether the configuration before was refused. A ``gate`` makes reads wait.
    """

    def __init__(self, *configs: ClientConfig | Exception) -> None:
        self.configs = list(configs)
        self.refusals: list[bool] = []
        self.gate: asyncio.Event | None = None

    async def read(self, *, refused: bool = False) -> ClientConfig:
        self.refusals.append(refused)
        if self.gate is not None:
            await self.gate.wait()
        config = self.configs.pop(0) if len(self.configs) > 1 else self.configs[0]
        if isinstance(config, Exception):
            raise config
        return config
