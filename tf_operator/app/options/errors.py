"""What is wrong with a command line."""


class OptionError(Exception):
    """The command line or the environment is invalid; the message is one line."""
