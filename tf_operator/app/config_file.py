"""What plans depend on, with what the file of ``--controller-config-file`` says now.

A file that cannot be used stops the start. Later the last good one stays in force, and the error is logged and counted
once. Pods that are there stay as they are: only new ones are made by what a changed file says.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from tf_operator.app import controller_config
from tf_operator.app.controller_config import ConfigFileError, ControllerConfig
from tf_operator.machinery.clock import Clock
from tf_operator.machinery.log import Logger
from tf_operator.planning.snapshot import Settings

READ_EVERY: Final = 5.0
"""Seconds; a kubelet takes up to two minutes to replace what is mounted."""

_log = Logger(__name__)


class ConfigFile:
    """Such a file, as it is at the moment."""

    def __init__(self, path: str, settings: Settings, on_error: Callable[[], object]) -> None:
        """Read it now; ``ConfigFileError`` when it cannot be used."""
        self._path = Path(path)
        self._on_error = on_error
        self._last_read: ControllerConfig | str = ""
        """What was read last, or why it could not be used."""
        self._settings = settings
        self._use(controller_config.read(self._path))

    def settings(self) -> Settings:
        return self._settings

    async def follow(self, clock: Clock) -> None:
        """Read it again and again, until cancelled: a mounted file is replaced behind a link."""
        while True:
            await clock.sleep(READ_EVERY)
            self._follow()

    def _follow(self) -> None:
        try:
            config = controller_config.read(self._path)
        except ConfigFileError as error:
            if self._last_read != str(error):
                self._last_read = str(error)
                self._on_error()
                _log.error("the changed controller config cannot be used; keeping the last one", error=str(error))
            return
        if self._last_read != config:
            self._use(config)
            _log.info("the controller config has changed", file=str(self._path))

    def _use(self, config: ControllerConfig) -> None:
        self._last_read = config
        self._settings = config.added_to(self._settings)
