"""What a flag of ``tf-operator run`` is; ``flags`` has all of them."""

from collections.abc import Callable
from dataclasses import dataclass

from tf_operator.app.options import flag_types


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag. ``read`` turns the text of a value into what it means, or raises ``ValueError`` with the rule."""

    name: str
    group: str
    read: Callable[[str], object]
    default: str
    """As it would be written on the command line."""
    metavar: str
    help: str
    is_repeatable: bool = False
    variable: str = ""
    """The environment variable that takes the place of the default."""
    old_name: str = ""
    """An older name, which is still accepted."""

    @property
    def is_switch(self) -> bool:
        """Whether the flag alone means ``true``, so that a value has to follow after ``=``."""
        return self.read is flag_types.switch
