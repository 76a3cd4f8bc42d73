"""From a frame to a widget that labels it: one call in a notebook."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from goalward.core.rows import held
from goalward.errors import BadParameter
from goalward.studio.study.study import Study


def annotate(
    rows: Any,
    *,
    classes: Sequence[Any],
    text: str | None = None,
    study: str | Path = "annotations/study.db",
    by: str = "me",
    render: Callable[[Any], Any] | None = None,
    **options: Any,
) -> Any:
    """Return a widget that asks for labels; its study goes on where it was on the next call.

    Parameters
    ----------
    rows
        A frame (lazy too), a Hugging Face dataset, a list of texts, an array of features, or the path
        of a table.
    classes
        The answers.
    text
        The column to read, of a frame.
    study
        Where answers go. In a folder of its own: the file browser of JupyterLab complains where it
        watches a folder in which a database is written.
    by, render
        As in `Study.widget`. `render` is given `study.show(row)`, whose "row" is a position.
    options
        As in `Study.create`.

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
                f"text={text!r} is no column of what came ({', '.join(columns[:8]) or type(rows).__name__}); "
                "one was expected. Leave it out for a list of texts or an array."
            )
        # NaN, which no cell equals, is how pandas says that there is nothing.
        pool = ["" if cell is None or cell != cell else str(cell) for cell in rows[text]]  # noqa: PLR0124
    elif len(columns) > 1:
        raise BadParameter(
            f"A frame came with the columns {', '.join(columns[:8])} and no text=; the column to read "
            "was expected. For numbers pass frame[[...]].to_numpy()."
        )
    Path(study).parent.mkdir(parents=True, exist_ok=True)
    found = (
        Study.open(study)
        if Path(study).exists()
        else Study.create(study, pool=pool, classes=classes, **options)
    )
    if found.n_rows != len(pool):
        raise BadParameter(
            f"{study} is a study of {found.n_rows} rows, and {len(pool)} came; the same rows were "
            "expected. Name another file with study=, or pass the rows that it was made of."
        )
    return found.widget(by=by, render=render)
