"""A row as HTML: its text, picture or columns, or what the user's own function makes of it."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from html import escape
from mimetypes import guess_type
from pathlib import Path
from typing import Any

__all__ = ["as_html"]

LONGEST = 20_000
"""Characters of a text that are shown."""
LARGEST = 20_000_000
"""Bytes of a picture that are shown."""


def as_html(content: dict[str, Any], render: Callable[[Any], Any] | None = None) -> str:
    """Return what is shown of a row.

    Parameters
    ----------
    content
        What `study.show(row)` gives.
    render
        From that to HTML, or to anything that a notebook can draw.

    Examples
    --------
    >>> as_html({"row": 3, "text": "1 < 2", "columns": {"from": "ann"}})
    '<p>1 &lt; 2</p><dl><dt>from</dt><dd>ann</dd></dl>'
    """
    if render is not None:
        return _drawn(render(content))
    parts = []
    if content.get("text") is not None:
        parts.append(f"<p>{escape(str(content['text'])[:LONGEST])}</p>")
    if content.get("image") is not None:
        parts.append(_picture(Path(content["image"])))
    cells = [(k, v) for k, v in content.get("columns", {}).items() if v not in (None, "")]
    if cells:
        told = "".join(
            f"<dt>{escape(str(k))}</dt><dd>{escape(str(v)[:500])}</dd>" for k, v in cells
        )
        parts.append(f"<dl>{told}</dl>")
    return "".join(parts)


def _drawn(made: Any) -> str:
    """Return what a notebook would draw of an object, as HTML; a text is HTML as it is."""
    if isinstance(made, str):
        return made
    for name, kind in (("_repr_html_", ""), ("_repr_svg_", ""), ("_repr_png_", "image/png")):
        drawn = getattr(made, name, lambda: None)()
        if drawn is not None:
            return _data(drawn, kind) if kind else str(drawn)
    if hasattr(made, "savefig"):  # a figure of matplotlib
        from io import BytesIO

        into = BytesIO()
        made.savefig(into, format="png", bbox_inches="tight")
        return _data(into.getvalue(), "image/png")
    return f"<pre>{escape(repr(made))}</pre>"


def _picture(path: Path) -> str:
    try:
        if path.stat().st_size > LARGEST:
            return f"<p>{escape(path.name)} is larger than {LARGEST // 10**6} MB.</p>"
        return _data(path.read_bytes(), guess_type(path.name)[0] or "image/png")
    except OSError as error:
        return f"<p>{escape(path.name)} could not be opened ({escape(str(error.strerror))}).</p>"


def _data(content: bytes, kind: str) -> str:
    return f'<img alt="" src="data:{kind};base64,{b64encode(content).decode()}">'
