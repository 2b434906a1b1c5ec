"""``python -m tf_operator`` is ``tf-operator``."""

import sys

from tf_operator.app import command

sys.exit(command.main())
