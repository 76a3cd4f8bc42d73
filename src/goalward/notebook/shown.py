"""A row as HTML: its text, picture or columns, or what the user's own function makes of it."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from html import escape
from typing import Any

from goalward.errors import DataMissing

__all__ = ["as_html"]

LONGEST = 20_000
"""Characters of a text that are shown."""


def as_html(
    content: dict[str, Any],
    render: Callable[[Any], Any] | None = None,
    picture: Callable[[int], tuple[bytes, str]] | None = None,
) -> str:
    """Return what is shown of a row.

    Parameters
    ----------
    content
        What `study.show(row)` gives.
    render
        From that to HTML, or to anything that a notebook can draw.
    picture
        From a row to its picture and the type of it.

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
    if picture is not None and content.get("image") is not None:
        try:
            parts.append(_data(*picture(content["row"])))
        except DataMissing as error:
            parts.append(f"<p>{escape(str(error))}</p>")
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


def _data(content: bytes, kind: str) -> str:
    return f'<img alt="" src="data:{kind};base64,{b64encode(content).decode()}">'
