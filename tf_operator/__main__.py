"""``python -m tf_operator`` is ``tf-operator``."""

import sys

from tf_operator.app import cli

sys.exit(cli.main())
