"""The operator of this tree with two APIs more in its registry, as a fork has it that adds a folder: a program."""

import sys

from support.toys import toy_api
from tf_operator.app import command
from tf_operator.dialects import registry

if __name__ == "__main__":
    registry.SERVED = (*registry.SERVED, toy_api.API, toy_api.PLAY_API)  # type: ignore[misc]
    sys.exit(command.main())
