"""A study in a notebook: one row at a time, answered by key and stored at once."""

import os
from base64 import b64encode
from collections.abc import Callable, Sequence
from html import escape
from io import BytesIO
from pathlib import Path
from typing import Any

from goalward.core.arguments import needing
from goalward.core.rows import held
from goalward.errors import BadParameter, DataMissing, GoalwardError, NotAStudy
from goalward.studio.store.database import file_of, located
from goalward.studio.study.study import Place, Study, resumed

LONGEST = 20_000
"""Characters of a text that are shown."""


def as_html(
    content: dict[str, Any],
    render: Callable[[Any], Any] | None = None,
    picture: Callable[[int], tuple[bytes, str]] | None = None,
) -> str:
    """Return the result of `study.show(row)` as HTML; `render` may draw it otherwise."""
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
        shown = [f"<dt>{escape(str(k))}</dt><dd>{escape(str(v)[:500])}</dd>" for k, v in cells]
        parts.append(f"<dl>{''.join(shown)}</dl>")
    return "".join(parts)


def _drawn(made: Any) -> str:
    """Return the HTML that a notebook would draw for an object; a text is HTML already."""
    if isinstance(made, str):
        return made
    for name, kind in (("_repr_html_", ""), ("_repr_svg_", ""), ("_repr_png_", "image/png")):
        drawn = getattr(made, name, lambda: None)()
        if drawn is not None:
            return _data(drawn, kind) if kind else str(drawn)
    if hasattr(made, "savefig"):  # a figure of matplotlib
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
"""Rows held: the one shown and the next four, so that a key never waits."""
ACTIONS = {"undo": "u", "skip": "s"}


class Widget(anywidget.AnyWidget):
    """The widget of `study.widget()`; answers that are not stored yet wait in the browser."""

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
        super().__init__(
            identity=study.identity,
            by=by,
            kind=study.state.settings.kind,
            classes=self._answers(),
            queue=self._shown(self._held(by)),
            summary=self._summary(),
        )
        self.on_msg(self._heard)
        refitter.start()

    def _heard(self, _: Any, message: dict[str, Any], buffers: Any) -> None:
        """Handle a message of the browser, and reply when it is stored."""
        problem = None
        try:
            rows = self._done(message)
        except (GoalwardError, IndexError, KeyError, TypeError) as error:
            problem = str(error)
            rows = self._held(self.by)
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

    def _done(self, message: dict[str, Any]) -> Any:
        study, kind = self._study, message["kind"]
        if kind == "tell":
            label = study.state.settings.answer.pressed(message["label"], study.state.classes)
            return study.tell_and_ask(message["row"], label, HELD, by=self.by)[1]
        if kind == "skip":
            study.skip(message["row"], by=self.by)
        elif kind == "undo":
            study.undo(by=self.by)
        return self._held(self.by)

    def _held(self, by: str) -> Any:
        return self._study.ask(HELD, by=by, resume=True, at_most=True, refresh=False)

    def _answers(self) -> list[dict[str, str]]:
        labels = [str(label) for label in self._study.state.classes]
        return [
            {"label": label, "key": key} for label, key in zip(labels, keys_of(labels), strict=True)
        ]

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


def annotate(
    rows: Any,
    *,
    classes: Sequence[Any],
    text: str | None = None,
    study: Place = "annotations/study.db",
    by: str = "me",
    render: Callable[[Any], Any] | None = None,
    **options: Any,
) -> Any:
    """Return a widget that asks for labels; its study is created on first use, then resumed.

    Parameters
    ----------
    rows
        A frame, a Hugging Face dataset, a list of texts, an array, or the path of a table.
    text
        The column to read, of a frame.
    study
        Where answers go; in a folder that JupyterLab's file browser does not watch.
    by, render, options
        As in `Study.widget` and `Study.create`.

    Examples
    --------
    >>> import tempfile, goalward as gw
    >>> place = f"{tempfile.mkdtemp()}/films.db"
    >>> widget = gw.annotate(["a fine film", "a bore"], classes=["good", "bad"], study=place)
    >>> widget.summary["rows"]
    2
    """
    pool = rows = held(rows)
    columns = [str(name) for name in getattr(rows, "columns", ())]
    if text is not None:
        if text not in columns:
            raise BadParameter(
                f"text= must be a column ({', '.join(columns[:8]) or type(rows).__name__}), got {text!r}. "
                "Leave it out for a list of texts or an array."
            )
        # NaN, which no cell equals, is how pandas marks an empty cell.
        pool = ["" if cell is None or cell != cell else str(cell) for cell in rows[text]]  # noqa: PLR0124
    elif len(columns) > 1:
        raise BadParameter(
            f"text= must name the column to read, of {', '.join(columns[:8])}. For numbers pass "
            "frame[[...]].to_numpy()."
        )
    if (file := file_of(located(study))) is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
    path = isinstance(pool, (str, os.PathLike))
    try:
        opened = resumed(study, os.fspath(pool))[0] if path else Study.open(study)
    except NotAStudy:  # nothing is there yet, or `create` says what is
        opened = Study.create(study, pool=pool, classes=classes, **options)
    if not path and opened.n_rows != len(pool):
        raise BadParameter(
            f"{study} is a study of {opened.n_rows} rows, got {len(pool)} rows. Name another file with "
            "study=, or pass the rows that it was made of."
        )
    return opened.widget(by=by, render=render)
