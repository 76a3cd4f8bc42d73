"""Row numbers as tables write them."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["row_number", "short"]

# Digits as they are typed: no sign, space, _ or other script. A column with a gap says 3.0 for 3.
DIGITS = re.compile(r"[0-9]{1,100}(?:\.0+)?")
EXACT = 2.0**53
"""Up to here every whole number is a float of its own."""


def row_number(value: Any) -> int | None:
    """Return the row that a cell names, or None if it names none: 3.7, True, "1_0", "".

    Examples
    --------
    >>> [row_number(cell) for cell in (3, "3", 3.0, "3.0", 3.7, "+3", True, None)]
    [3, 3, 3, 3, None, None, None, None]
    """
    if isinstance(value, str):
        return int(value.partition(".")[0]) if DIGITS.fullmatch(value) else None
    if isinstance(value, float):
        return int(value) if value.is_integer() and 0 <= value <= EXACT else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def short(value: Any) -> str:
    """Return a cell as a message quotes it."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
