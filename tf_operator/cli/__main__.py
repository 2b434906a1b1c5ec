"""``python -m tf_operator.cli``: how ``tfjob local up`` starts the server in the background."""

import sys

from tf_operator.cli.main import main

sys.exit(main())
