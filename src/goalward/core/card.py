"""An object as a notebook shows it: a title, a sentence, and a small table with bars."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

import numpy as np

LINES = 10
LONGEST = 120
"""Lines of a table, and characters of a cell, that are shown."""
# Ink and ground are the notebook's own, light or dark; these are seen on both.
BAR, TRACK = "#4a86e8", "rgba(128,128,128,.18)"


def card(
    title: str,
    columns: Mapping[str, Any],
    *,
    bar: str,
    most: float | None = None,
    note: str = "",
    share: float | None = None,
) -> str:
    """Return an HTML table with column `bar` drawn as bars; all text is escaped."""
    cells = [[_words(value) for value in values[:LINES]] for values in columns.values()]
    if bar in columns:
        at = list(columns).index(bar)
        drawn = zip(_bars(columns[bar][:LINES], most), cells[at], strict=True)
        cells[at] = [" ".join(pair) for pair in drawn]
    left = 'style="text-align:left;padding:.2em 1.2em .2em 0"'
    head = "".join(f"<th {left}>{_words(name)}</th>" for name in columns)
    body = "".join(
        "<tr>" + "".join(f"<td {left}>{cell}</td>" for cell in line) + "</tr>"
        for line in zip(*cells, strict=True)
    )
    more = max(map(len, columns.values()), default=0) - LINES
    done = "" if share is None else f"<div>{_bar(share, width=20)}</div>"
    rest = f"<div>... and {more:,} more</div>" if more > 0 else ""
    said = f"<div>{escape(note)}</div>" if note else ""
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if cells else ""
    return f"<div><strong>{escape(title)}</strong>{said}{done}{table}{rest}</div>"


def _bars(values: Any, most: float | None) -> list[str]:
    sizes = np.nan_to_num(np.asarray(values, dtype=np.float64), posinf=0.0, neginf=0.0)
    low, high = sizes.min(initial=0.0), sizes.max(initial=0.0) if most is None else most
    return [_bar(share) for share in ((sizes - low) / ((high - low) or 1.0)).tolist()]


def _bar(share: float, width: float = 6.0) -> str:
    inner = f"display:inline-block;height:.7em;width:{width * share:.2f}em;background:{BAR}"
    outer = f"display:inline-block;width:{width}em;background:{TRACK};line-height:0"
    return f'<span style="{outer}"><span style="{inner}"></span></span>'


def _words(value: Any) -> str:
    if isinstance(value, float | np.floating):
        return f"{value:,.0f}" if float(value).is_integer() else f"{value:.3g}"
    text = str(value)
    return escape(text if len(text) <= LONGEST else text[:LONGEST] + "…")
