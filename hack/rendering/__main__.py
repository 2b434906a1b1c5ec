"""``python -m rendering``, as ``hack/render-dashboards`` calls it."""

import sys
from pathlib import Path

from rendering import command

sys.exit(command.main(Path(__file__).resolve().parents[2], sys.argv[1:]))
