"""Getting the pinned programs that this project runs: what ``hack/tool`` is made of.

Start at ``obtain.py``: it is the list of places a tool can come from, in order. ``catalogue.py`` is the
reading of ``hack/tools/versions.toml``; ``locate``, ``download`` and ``build`` are one place each; ``cache``,
``locks`` and ``leash`` see to it that nothing half-made is ever found there; ``progress`` talks to whoever waits.
``pins`` and ``tidy`` stand apart: they keep the go.mod files in step with the catalogue.

Standard library only: these modules run before anything has been installed.
"""

import sys

if sys.version_info < (3, 11):  # noqa: UP036 - this is what tells the people whose python3 is older
    sys.exit("hack/tool: error: this needs Python 3.11 or newer, and python3 here is " + sys.version.split()[0])
