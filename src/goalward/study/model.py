"""A study's model by itself: what makes numbers of rows, weights, and the names of the classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from goalward.core.rows import clean_rows
from goalward.errors import BadInput
from goalward.journal.events import Label
from goalward.models import Fitted
from goalward.models.linear import LinearModel
from goalward.models.softmax import Softmax
from goalward.pool import as_pool

__all__ = ["Predictions", "StudyModel"]

BLOCK = 2**20
"""Numbers of a block of rows: a few MB, which stay in the cache between two products."""


class Predictions(NamedTuple):
    """Labels, and the probability of every class, row by row.

    Parameters
    ----------
    labels
        The likeliest class of each row.
    probabilities
        (n, k), in the order of the classes.
    """

    labels: NDArray[Any]
    probabilities: NDArray[Any]


@dataclass(frozen=True, eq=False)
class StudyModel:
    """A study's model and what makes numbers of its rows; it needs nothing else.

    Parameters
    ----------
    params
        (p, k): weights, and the intercepts as a last row.
    classes
        In the order of the columns.
    encoder
        Makes numbers of texts or of the rows of a table; None where rows are numbers already.
    intercept
        Whether the last row of `params` is added to every row.
    """

    params: NDArray[Any] = field(repr=False)
    classes: tuple[Label, ...]
    encoder: Any = field(default=None, repr=False)
    intercept: bool = True

    @classmethod
    def of(cls, fitted: Fitted, classes: Sequence[Label], encoder: Any = None) -> StudyModel:
        """Return a fitted model without the rows that it was fitted on."""
        linear = fitted.model.linear("A study's model")
        return cls(np.asarray(fitted.params), tuple(classes), encoder, linear.intercept)

    def predict_proba(self, rows: Any) -> NDArray[Any]:
        """Return (n, k) probabilities of rows: numbers, or texts or a frame as the study's own."""
        X = self._numbers(rows)
        parts = [self._proba(X.part(at.start, at.stop)) for at in self._cuts(X)]
        return np.concatenate(parts) if parts else np.empty((0, len(self.classes)))

    def predict(self, rows: Any) -> NDArray[Any]:
        """Return the likeliest class of each row."""
        return self._named(self.predict_proba(rows).argmax(axis=1))

    def predictions(self, rows: Any) -> Predictions:
        """Return labels and probabilities."""
        proba = self.predict_proba(rows)
        return Predictions(self._named(proba.argmax(axis=1)), proba)

    def likeliest(self, rows: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the place of the likeliest class and its probability; a block at a time."""
        X = self._numbers(rows)
        codes = np.empty(len(X), dtype=np.int32)
        confidence = np.empty(len(X), dtype=np.float32)
        for at in self._cuts(X):
            proba = self._proba(X.part(at.start, at.stop))
            codes[at], confidence[at] = proba.argmax(axis=1), proba.max(axis=1)
        return codes, confidence

    def _cuts(self, X: Any) -> list[slice]:
        size = max(1, BLOCK // max(1, self.params.shape[0]))
        return [slice(at, min(at + size, len(X))) for at in range(0, len(X), size)]

    def _proba(self, rows: Any) -> NDArray[Any]:
        model = LinearModel(self.intercept)
        X = clean_rows(rows, "X", n_features=model.n_features(self.params))
        return np.asarray(Softmax().proba(model.logits(self.params.astype(X.dtype), X)))

    def _numbers(self, rows: Any) -> Any:
        if isinstance(rows, str):
            raise BadInput("One text came; a list of texts was expected. Write [text].")
        words = isinstance(rows, (pl.DataFrame, pl.Series)) or (
            len(rows) and isinstance(rows[0], str) if isinstance(rows, (list, tuple)) else False
        )
        if words and self.encoder is None:
            raise BadInput(
                f"Texts came, and the study has rows of {self.params.shape[0] - self.intercept} "
                "numbers; as many numbers for each row were expected. Compute them as for the study."
            )
        return as_pool(self.encoder.transform(rows) if words else rows)

    def _named(self, codes: NDArray[Any]) -> NDArray[Any]:
        kinds = {type(label) for label in self.classes}
        names = np.array(self.classes, dtype=None if len(kinds) == 1 else object)
        return np.asarray(names[codes])
