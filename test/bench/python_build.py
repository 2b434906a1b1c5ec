"""Which Python runs, and whether it was built with profile-guided optimization, as the image's is.

    python test/bench/python_build.py    # fails unless it was

Without that the operator uses about a tenth more CPU, and the baseline too: such figures are not those of a cluster.
"""

import platform
import sys
import sysconfig


def is_optimized() -> bool:
    """Whether it says so; Debian and Ubuntu build theirs so, without a word in its configuration."""
    is_debians = sys.base_prefix == "/usr" and "deb_system" in sysconfig.get_scheme_names()
    return is_debians or "--enable-optimizations" in (sysconfig.get_config_var("CONFIG_ARGS") or "")


def in_words() -> str:
    """For the one who reads figures."""
    which = "with" if is_optimized() else "WITHOUT"
    return f"Python {platform.python_version()}, built {which} profile-guided optimization: {sys._base_executable}"


if __name__ == "__main__":
    sys.exit(not (is_optimized() and sys.version_info >= (3, 11)))
