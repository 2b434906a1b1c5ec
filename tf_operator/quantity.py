"""Kubernetes quantities, as far as adding and growing them needs: ``100m``, ``1.5Gi``, ``2e3``.

By hand, because ``kubernetes.utils.quantity`` accepts ``NaN``, ``1_0`` and exponents without a bound, and its import
loads the whole client into the pure core.
"""

import re
from decimal import Decimal
from typing import Final

_QUANTITY = re.compile(
    r"([+-]?[0-9]{1,30}(?:\.[0-9]{0,15})?|[+-]?\.[0-9]{1,15})([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?"
)
LONGEST: Final = 64
"""Characters; none is that long."""
_BINARY: Final = {f"{letter}i": Decimal(1024) ** power for power, letter in enumerate("KMGTPE", start=1)}
_DECIMAL: Final = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "": Decimal(1),
} | {letter: Decimal(1000) ** power for power, letter in enumerate("kMGTPE", start=1)}
_SUFFIXES: Final = _BINARY | _DECIMAL


def parse(value: object) -> Decimal | None:
    """The amount; ``None`` for what is no quantity."""
    match = _QUANTITY.fullmatch(str(value)) if isinstance(value, str | int | float) else None
    if match is None:
        return None
    number, suffix = match[1], match[2] or ""
    return Decimal(number) * _SUFFIXES[suffix] if suffix in _SUFFIXES else Decimal(number + suffix)


def text(amount: Decimal) -> str:
    """The amount as a quantity: whole, or in thousandths, rounded up."""
    if amount == amount.to_integral_value():
        return str(int(amount))
    return f"{int((amount * 1000).to_integral_value(rounding='ROUND_CEILING'))}m"


def memory(amount: Decimal) -> str:
    """The amount as people write memory: ``12Gi``, ``12288500Ki``; as it is, if it is not that round."""
    for suffix in ("Gi", "Mi", "Ki"):
        count, rest = divmod(int(amount), int(_BINARY[suffix]))
        if not rest and amount == int(amount):
            return f"{count}{suffix}"
    return text(amount)
