"""Runs a function in a pod: ``python -c`` with this text, the function's source, and what else it has to know.

No image has tf_operator, so it imports nothing of it, and uses nothing that an old Python lacks.
"""

import ast
import importlib
import json
import linecache
import os
import subprocess
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

MESSAGE = "/dev/termination-log"
HERE = "TF_OPERATOR_TERMINATION_LOG"
"""The variable that names it instead where the node is the user's own machine."""
MOST_BYTES = 4096
"""Of a message, as kubelets keep it."""


def main(source: str, order: Any) -> None:  # noqa: ANN401 (JSON)
    """Call the function, and leave what it returns; an exception ends the program as if it were the user's own."""
    name, parameters = order["name"], order["parameters"]
    if order["packages"] and HERE not in os.environ:
        install(order["packages"], order["index"])
    place = f"<{name}>"
    linecache.cache[place] = (len(source), None, source.splitlines(keepends=True), place)
    # A module of its own: the function may be called as one of these here, and pickle finds it.
    sys.modules["__main__"] = ModuleType("__main__")
    around = vars(sys.modules["__main__"])
    try:
        exec(compile(source, place, "exec"), around)  # noqa: S102 (that is what it is for)
        returned = around[name](*([] if parameters is None else [ast.literal_eval(parameters)]))
    except Exception as error:  # noqa: BLE001 (shown without the frames of this program)
        traceback.print_exception(type(error), error, error.__traceback__ and error.__traceback__.tb_next)
        sys.exit(1)
    report(message(name, returned))


def install(packages: Any, index: str) -> None:  # noqa: ANN401 (JSON)
    """Install what the image lacks, or end."""
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
    options = ["--prefer-binary", "--no-warn-script-location", *(["--index-url", index] if index else [])]
    process = subprocess.run([*pip, *options, *packages], check=False)  # noqa: S603 (names that were checked)
    if process.returncode:
        sys.exit("the packages of the job cannot be installed: " + ", ".join(packages))
    importlib.invalidate_caches()


def message(name: str, returned: object) -> str:
    """What is left for whoever wants the result."""
    try:
        text = json.dumps({"returned": returned}, default=lambda value: value.tolist())
    except (AttributeError, TypeError, ValueError, RecursionError):
        kind = type(returned).__name__
        missing = f"{name} returned a {kind}, which is not JSON: return numbers, strings, lists or dictionaries of them"
        return json.dumps({"missing": missing})
    if len(text) > MOST_BYTES:
        missing = f"{name} returned {len(text)} bytes of JSON; {MOST_BYTES} can be sent back: write it to a volume"
        return json.dumps({"missing": missing})
    return text


def report(text: str) -> None:
    """Leave the message."""
    try:
        Path(os.environ.get(HERE, MESSAGE)).write_text(text, encoding="utf-8")
    except OSError as error:
        sys.stderr.write(f"the result of the function cannot be reported: {error}\n")


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
