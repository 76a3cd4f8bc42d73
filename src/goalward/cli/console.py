"""How commands speak: texts as they are, so that no row, name or message steers the terminal."""

from __future__ import annotations

import json
import math
from typing import Any

from rich.console import Console
from rich.text import Text

__all__ = ["Terminal", "console", "in_json", "visible"]


class Terminal(Console):
    """A console for texts of others: no markup, no emoji codes, nothing that moves the cursor.

    What should look special says so: `style=`, or a `Text` of `visible` words.
    """

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, markup=False, emoji=False)

    def render_str(self, text: str, **look: Any) -> Text:
        """Return a text as it is printed; cells, titles and messages all come through here."""
        return super().render_str(visible(text), **look)


console = Terminal()


def visible(text: str, *, longest: int | None = None) -> str:
    """Return a text that cannot steer the terminal: controls and direction marks as escapes."""
    if longest is not None and len(text) > longest:
        text = f"{text[:longest]}... ({len(text):,} characters)"
    return "".join(
        c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text
    )


def in_json(data: Any) -> str:
    """Return data as JSON; NaN and infinite numbers, which it does not have, are null."""
    return json.dumps(_finite(data), allow_nan=False, default=str)


def _finite(data: Any) -> Any:
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    if isinstance(data, dict):
        return {name: _finite(value) for name, value in data.items()}
    return [_finite(value) for value in data] if isinstance(data, (list, tuple)) else data
