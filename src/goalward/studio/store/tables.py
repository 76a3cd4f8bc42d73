"""The tables of a study: its events, which are the truth, and what they add up to.

Every table but `BLOBS` follows from the events. Answers and questions are lines that are never
rewritten: a line stands until the event `ended` (or `released`), so that any moment can be read later.
"""

from __future__ import annotations

import sqlalchemy as sa

METADATA = sa.MetaData()


# SQLite finds a line by its key at once where that is an INTEGER, and keeps no index beside it.
_KEY = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def _whole(name: str, *, key: bool = False) -> sa.Column[int]:
    kind = _KEY if key else sa.BigInteger()
    return sa.Column(name, kind, nullable=False, autoincrement=False, primary_key=key)


def _row() -> sa.Column[int]:
    return sa.Column("row", sa.Integer, nullable=False, quote=True)


def _by() -> sa.Column[str]:
    return sa.Column("by", sa.Text, nullable=False, quote=True)


STUDY = sa.Table(
    "goalward_study",
    METADATA,
    sa.Column("version", sa.Integer, nullable=False),
    _whole("head_seq"),
    sa.Column("head_digest", sa.String(64), nullable=False),
    # What is small and changes often: classes, counts, the newest ranking's number.
    sa.Column("header", sa.Text, nullable=False),
)
EVENTS = sa.Table(
    "goalward_events",
    METADATA,
    _whole("seq", key=True),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("digest", sa.String(64), nullable=False),
)
BLOBS = sa.Table(
    "goalward_blobs",
    METADATA,
    sa.Column("digest", sa.String(64), primary_key=True),
    sa.Column("content", sa.LargeBinary, nullable=False),
)
# What an annotator says of a row from the event `id` on: an answer as text, a skip, or nothing more.
# `seq` and `at` are those of the answer: earlier than `id` where an undo brought it back. `before` is
# the line that it replaced, `prior` the annotator's line that an undo takes back after this one, and
# `undoes` the line that it took back.
ANSWERS = sa.Table(
    "goalward_answers",
    METADATA,
    _whole("id", key=True),
    _row(),
    _by(),
    sa.Column("label", sa.Text, nullable=False),
    _whole("seq"),
    sa.Column("at", sa.Float(53), nullable=False),
    _whole("prior"),
    _whole("before"),
    _whole("undoes"),
    sa.Column("ended", sa.BigInteger),
)
# A row handed to an annotator: by which ranking, with what utility, and until when.
QUESTIONS = sa.Table(
    "goalward_questions",
    METADATA,
    _whole("id", key=True),
    _row(),
    _by(),
    _whole("place"),
    sa.Column("at", sa.Float(53), nullable=False),
    sa.Column("until", sa.Float(53), nullable=False),
    sa.Column("utility", sa.Float(53)),
    sa.Column("ranking", sa.BigInteger),
    sa.Column("released", sa.BigInteger),
)
# A row that somebody answered or skipped, now: the label used, how many answers, the number of the
# first and of the newest, whether they differ, and whether the row measures the model.
ROWS = sa.Table(
    "goalward_rows",
    METADATA,
    sa.Column("row", sa.Integer, primary_key=True, autoincrement=False, quote=True),
    sa.Column("label", sa.Text),
    sa.Column("n", sa.Integer, nullable=False),
    _whole("first"),
    _whole("newest"),
    sa.Column("mixed", sa.Boolean, nullable=False),
    sa.Column("dev", sa.Boolean, nullable=False),
)
NOTES = sa.Table(
    "goalward_notes",
    METADATA,
    _whole("seq", key=True),
    _row(),
    _by(),
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("at", sa.Float(53), nullable=False),
)
# Of a ranking, what curves show, with its stop set while stopping rules compare it; and of the newest
# the `view`: what pages look up, as JSON behind its digest.
RANKINGS = sa.Table(
    "goalward_rankings",
    METADATA,
    _whole("seq", key=True),
    sa.Column("labels", sa.Integer, nullable=False),
    sa.Column("compared", sa.Boolean, nullable=False),
    sa.Column("summary", sa.Text, nullable=False),
    sa.Column("view", sa.LargeBinary),
)
FOLDED = (ANSWERS, QUESTIONS, ROWS, NOTES, RANKINGS)
"""The tables that follow from the events."""


def _index(name: str, *columns: sa.Column[object], where: sa.ColumnElement[bool] | None) -> None:
    sa.Index(f"goalward_{name}", *columns, sqlite_where=where, postgresql_where=where)


_index("answers_row", ANSWERS.c.row, where=None)
_index("answers_by", ANSWERS.c.by, ANSWERS.c.row, where=ANSWERS.c.ended.is_(None))
_index("questions_row", QUESTIONS.c.row, where=None)
_index("questions_released", QUESTIONS.c.released, where=None)
_index("rows_newest", ROWS.c.newest, ROWS.c.row, where=None)
_index("rows_label", ROWS.c.label, ROWS.c.newest, where=None)
_index("rows_n", ROWS.c.n, ROWS.c.first, where=None)
_index("rows_mixed", ROWS.c.newest, where=ROWS.c.mixed)
_index("rows_dev", ROWS.c.newest, ROWS.c.label, where=ROWS.c.dev)
_index("notes_row", NOTES.c.row, where=None)
