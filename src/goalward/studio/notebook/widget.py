"""A study in a notebook: the row, answers by key, and everything on disk when the next row is there."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from typing import Any

from goalward.core.arguments import needing
from goalward.errors import DataMissing, GoalwardError

# A row as HTML: its text, picture or columns, or what the user's own function makes of it.


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


with needing("The notebook widget"):
    import anywidget
    import traitlets


HERE = Path(__file__).parent
HELD = 5
"""Rows in hand: the one shown and four behind it, so that a key never waits."""
ACTIONS = {"undo": "u", "skip": "s"}


class Widget(anywidget.AnyWidget):
    """What `study.widget()` shows: JupyterLab, VS Code, Colab and marimo know it.

    The journal stays the truth: the page and other widgets may work on the same study meanwhile. What
    was answered and not yet stored waits in the browser, and is sent again by the next widget.

    Parameters
    ----------
    study
        What is asked and told.
    refitter
        What fits and ranks behind the answers.
    by
        The annotator's name.
    render
        What a row is to be shown as: from what `study.show(row)` gives to a text of HTML, or to
        anything that a notebook can draw (a figure, a picture, a frame).

    Examples
    --------
    >>> import tempfile, goalward as gw
    >>> place = f"{tempfile.mkdtemp()}/films.db"
    >>> study = gw.Study.create(place, pool=["a fine film", "a bore"], classes=["good", "bad"])
    >>> widget = study.widget()
    >>> sorted(row["html"] for row in widget.queue)
    ['<p>a bore</p>', '<p>a fine film</p>']
    """

    _esm = HERE / "widget.js"
    _css = HERE / "widget.css"
    identity = traitlets.Unicode().tag(sync=True)
    by = traitlets.Unicode().tag(sync=True)
    kind = traitlets.Unicode().tag(sync=True)
    classes: Any = traitlets.List().tag(sync=True)
    queue: Any = traitlets.List().tag(sync=True)
    summary: Any = traitlets.Dict().tag(sync=True)

    def __init__(
        self,
        study: Any,
        refitter: Any,
        *,
        by: str = "me",
        render: Callable[[Any], Any] | None = None,
    ) -> None:
        self._study, self._refitter, self._render = study, refitter, render
        rows = study.ask(HELD, by=by, resume=True, at_most=True, refresh=False)
        super().__init__(
            identity=study.identity,
            by=by,
            kind=study.state.settings.kind,
            classes=self._answers(),
            queue=self._shown(rows),
            summary=self._summary(),
        )
        self.on_msg(self._heard)
        refitter.start()

    def _heard(self, _: Any, message: dict[str, Any], buffers: Any) -> None:
        """Do what was asked for, and say so: what is told back was stored."""
        problem = None
        try:
            rows = self._done(message)
        except (GoalwardError, IndexError, KeyError, TypeError) as error:
            problem = str(error)
            rows = self._study.ask(HELD, by=self.by, resume=True, at_most=True, refresh=False)
        self._refitter.nudge()
        self.send(
            {
                "done": message.get("n"),
                "queue": self._shown(rows),
                "summary": self._summary(),
                "classes": self._answers(),
                "problem": problem,
            }
        )

    def _done(self, message: dict[str, Any]) -> list[int]:
        study, kind = self._study, message["kind"]
        if kind == "tell":
            label = study.state.settings.answer.pressed(message["label"], study.state.classes)
            return study.tell_and_ask(message["row"], label, HELD, by=self.by)[1]  # type: ignore[no-any-return]
        if kind == "skip":
            study.skip(message["row"], by=self.by)
        elif kind == "undo":
            study.undo(by=self.by)
        return study.ask(HELD, by=self.by, resume=True, at_most=True, refresh=False)  # type: ignore[no-any-return]

    def _answers(self) -> list[dict[str, str]]:
        labels = [str(label) for label in self._study.state.classes]
        return [{"label": a, "key": b} for a, b in zip(labels, keys_of(labels), strict=True)]

    def _shown(self, rows: Sequence[int]) -> list[dict[str, Any]]:
        show, table = self._study.show, self._study.pool.table
        picture = None if table is None else table.picture
        return [{"row": row, "html": as_html(show(row), self._render, picture)} for row in rows]

    def _summary(self) -> dict[str, Any]:
        status = self._study.status()
        return {name: status[name] for name in ("labels", "rows", "headline")} | {
            "trouble": self._refitter.trouble
        }


def keys_of(labels: Sequence[str]) -> list[str]:
    """Return a key for each class: its own if it is one character, else a digit, else a letter."""
    own = [label.lower() if len(label) == 1 else "" for label in labels]
    taken = {*own, *ACTIONS.values()}
    free = iter([key for key in "1234567890abcdefghijklmnopqrstvwxyz" if key not in taken])
    seen: set[str] = set()
    keys = []
    for key in own:
        chosen = key if key and key not in seen else next(free, "")
        seen.add(chosen)
        keys.append(chosen)
    return keys
