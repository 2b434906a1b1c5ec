"""What can go wrong on the way to a tool, as errors that a person can act on."""


class ToolError(Exception):
    """Something that stops us: ``message`` says what is so, ``advice`` what to install or set.

    Printed as it is, without a traceback, so both must make sense to somebody who has never read this code.
    """

    exit_status = 1

    def __init__(self, message: str, *, advice: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.advice = advice


class UsageError(ToolError):
    """The command line itself makes no sense."""

    exit_status = 2


class UnknownTool(ToolError):
    """A name that is not in the catalogue."""


class UnsupportedPlatform(ToolError):
    """An operating system or processor that we neither download nor build for."""


class BadCatalogue(ToolError):
    """``versions.toml`` or a variable that picks from it makes no sense."""


class BadChecksum(ToolError):
    """A download that is not what its publisher says it is. Never survived by trying something else."""


class MissingCompiler(ToolError):
    """There is no Go, and no way to get one."""


class MissingRegistry(ToolError):
    """The compiler is there, but the sources cannot be fetched."""


class BrokenBuild(ToolError):
    """The compiler said no, or what it made does not work."""


class Interrupted(BaseException):
    """A signal asked us to stop. Like KeyboardInterrupt, nothing but the outermost caller may catch it."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal_number)
        self.exit_status = 128 + signal_number
