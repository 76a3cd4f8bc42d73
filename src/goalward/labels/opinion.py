"""A second opinion: guesses for unlabelled rows, as what a model may start from.

A ridge regression learns to say what the guesses say: z(x), the probability of each guess less its
share of all, linear in x and near zero where guesses do not follow from x. It becomes columns beside
the features. That adds nothing a linear model of x could not be, but a fit finds it sooner: the penalty
holds weights near zero, and along z it takes small ones to say what the guesses say. Which class a
guess stands for is learned like any weight, so guesses may have names of their own, be biased or
turned round. How far to trust them is chosen by the labels, each left out: where guesses do not help,
the model is the one without them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.linear_model import RidgeCV

from goalward.core.arrays import (
    Array,
    Rows,
    dense,
    is_sparse,
    like,
    namespace,
    plain_rows,
    to_numpy,
)
from goalward.core.candidates import Candidates
from goalward.core.pool import as_pool
from goalward.core.rows import clean_rows, column_names
from goalward.errors import BadInput, NotConverged, Separable, ShapeMismatch
from goalward.labels.beliefs import Believe
from goalward.labels.learned import labelled_rows
from goalward.models import Fitted
from goalward.models.left_out import left_out_likelihood
from goalward.models.logistic import Logistic

__all__ = ["Opinion", "folded"]

MOST = 4000
"""Rows whose guesses are learned from; more say hardly more."""
FEW = 10
"""Labels below which guesses are not used: left out, fewer say too little of them."""
LEAST, NAMES = 5, 50
"""Guesses of one kind that are learned from, at least, and kinds, at most."""
TRUSTS = (1.0, 3.0)
MARGIN = 1.0
"""Log-likelihood of the labels, each left out, by which guesses must help to be used."""
STEEP = 4.0
"""A logit by its probability, where that is a half: on this scale a weight of 1 takes guesses at
their word."""
OWN = 2.0
"""Labels that it counts for, in a belief, that a guess has a class's name."""
PENALTIES = np.logspace(-2, 4, 13)
"""Of the regression, chosen row by row left out, over the rows' mean squared distance."""


@dataclass(frozen=True, eq=False)
class Opinion:
    """What guesses say of any row, to be trusted as far as labels bear it out.

    Made by `Opinion.of` and passed to a learner: `gw.Logistic(opinion=...)`. It is a belief too, for
    operators and `goals.SoftPool`: what the labels that there are make of a guess.

    Parameters
    ----------
    params
        (d + 1, g): weights and intercepts of the regression on guesses.
    names, shares
        What was guessed, one for each column, and how often.
    size
        What z is multiplied by for a trust of 1: logits, as long as rows are.
    trust
        How far it is trusted; None where each fit chooses from 0, 1 and 3.

    Examples
    --------
    >>> import goalward as gw
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> y = np.where(X[:, 0] > 0, "yes", "no")
    >>> said = np.where(np.arange(300) % 5 == 0, "no", y)
    >>> opinion = Opinion.of(X, said)
    >>> fitted = gw.Logistic(opinion=opinion).fit(X[:12], y[:12])
    >>> fitted.transform.trust > 0, bool(np.mean(fitted.predict(X) == y) > 0.9)
    (True, True)
    """

    params: NDArray[Any] = field(repr=False)
    names: tuple[Hashable, ...]
    shares: NDArray[Any] = field(repr=False)
    size: float = field(repr=False)
    trust: float | None = None

    @classmethod
    def of(cls, X: Any, guesses: Any, *, probabilities: Any = None, seed: int = 0) -> Opinion:
        """Return what guesses say of rows.

        Parameters
        ----------
        X
            Rows of the pool, those without a guess too.
        guesses
            One for each row: a label, or None or NaN where there is none. Or a function that makes
            them of X. They need not have the names of the classes.
        probabilities
            How sure each guess is, from 0 to 1; the rest goes to the other guesses evenly.
        """
        said = list(guesses(X) if callable(guesses) else guesses)
        rows = as_pool(X)
        sure = shares_of(probabilities, len(said))
        if len(said) != len(rows):
            raise ShapeMismatch(
                f"X has {len(rows)} rows and {len(said)} guesses came; as many were expected. Pass None "
                "for a row without one."
            )
        spoken = [at for at, guess in enumerate(said) if not missing(guess)]
        drawn = np.random.default_rng(seed).permutation(spoken)[:MOST].astype(np.int64)
        common = Counter(said[at] for at in drawn.tolist()).most_common(NAMES)
        names = tuple(sorted((name for name, n in common if n >= LEAST), key=str))
        kept = np.array(sorted(at for at in drawn.tolist() if said[at] in names), dtype=np.int64)
        if len(names) < 2:
            width = int(rows.take(np.arange(1)).shape[1])
            return cls(np.zeros((width + 1, 0)), (), np.ones(0), 0.0)
        codes = np.array([names.index(said[at]) for at in kept.tolist()])
        return cls._learned(clean_rows(rows.take(kept), "X"), codes, sure[kept], names)

    @classmethod
    def _learned(
        cls, X: Rows, codes: NDArray[Any], sure: NDArray[Any], names: tuple[Hashable, ...]
    ) -> Opinion:
        others = (1.0 - sure) / (len(names) - 1)
        targets = np.where(np.eye(len(names))[codes] > 0, sure[:, None], others[:, None])
        rows, shares = plain_rows(X), targets.mean(axis=0)
        spread = _spread(rows)
        ridge = RidgeCV(spread * PENALTIES).fit(rows, targets)
        params = np.vstack([ridge.coef_.T, ridge.intercept_ - shares])
        return cls(params, names, shares, STEEP * spread**0.5)

    def says(self, X: Rows) -> Array:
        """Return (n, g) z of rows, as they are or with more columns after them."""
        width = len(self.params) - 1
        rows = X if X.shape[1] == width else X[:, :width]
        reference = np.empty(0, dtype=rows.dtype) if is_sparse(rows) else rows
        own = like(self.params, reference, dtype=rows.dtype)
        return dense(rows @ own[:-1, :]) + own[-1, :][None, :]

    def __call__(self, X: Any) -> Rows:
        """Return rows with what the guesses say of them beside their features."""
        rows = clean_rows(X, "X", n_features=len(self.params) - 1, finite=False, least=0)
        said = self.says(rows) * ((self.trust or 0.0) * self.size)
        if is_sparse(rows):
            return scipy.sparse.csr_array(scipy.sparse.hstack([rows, said]))
        return namespace(rows).concat([rows, said], axis=1)

    def fitted(self, learner: Logistic, X: Any, y: Any, sample_weight: Any = None) -> Fitted:
        """Return the model of labelled rows that starts from the guesses as far as these help."""
        plain = learner.having(opinion=None)
        if self.trust:
            own = plain.fit(self(X), y, sample_weight=sample_weight)
            return replace(own, transform=self, columns=column_names(X))
        best = plain.fit(X, y, sample_weight=sample_weight)
        if self.trust is not None or len(best.labelled) < FEW or not self.size:
            return best
        most = float(left_out_likelihood(best)) + MARGIN
        for trust in TRUSTS:
            try:
                found = replace(self, trust=trust).fitted(learner, X, y, sample_weight)
            except (Separable, NotConverged):
                continue
            value = float(left_out_likelihood(found))
            if value > most:
                best, most = found, value
        return best

    def prepare(self, fitted: Fitted, round: int = 0) -> Believe:
        """Return the belief P(y | x) = Σ_g P(g | x) P(y | g), the latter counted on the labels.

        A guess that has the name of a class counts as if two labels had said so before.
        """
        X, codes = labelled_rows(fitted)
        own = [[name == label for label in fitted.classes.tolist()] for name in self.names]
        answered = np.eye(fitted.n_classes)[codes]
        # Before any label every class is as likely as any.
        share = (answered.sum(axis=0) + 1.0) / (len(codes) + fitted.n_classes)
        table = self._probabilities(X).T @ answered
        table = table + OWN * np.array(own, dtype=float).reshape(table.shape) + share
        meaning = table / table.sum(axis=1, keepdims=True)
        return partial(self._believed, meaning if self.names else share[None, :])

    def _believed(self, meaning: NDArray[Any], candidates: Candidates) -> Array:
        p = candidates.proba
        says = self._probabilities(candidates.X) if self.names else np.ones((p.shape[0], 1))
        return like(says @ meaning, p, dtype=p.dtype)

    def _probabilities(self, X: Rows) -> NDArray[Any]:
        """Return P(g | x): z and the shares, which a linear model may send below 0."""
        p = np.maximum(to_numpy(self.says(X)) + self.shares, 1e-3)
        return np.asarray(p / p.sum(axis=1, keepdims=True))


def folded(fitted: Fitted, asker: str = "Weights") -> tuple[NDArray[Any], bool]:
    """Return the weights of the rows themselves, and whether the last of them are intercepts."""
    params, opinion = to_numpy(fitted.params), fitted.transform
    intercept = fitted.model.linear(asker).intercept
    if not isinstance(opinion, Opinion):
        return params, intercept
    width = len(opinion.params) - 1
    meaning = params[width : width + opinion.params.shape[1]]
    own = np.zeros((width + 1, params.shape[1]))
    own[:width] = params[:width]
    if intercept:
        own[-1] = params[-1]
    return own + (opinion.trust or 0.0) * opinion.size * (opinion.params @ meaning), True


def missing(guess: Any) -> bool:
    """Return whether there is no guess: None, NaN or an empty text."""
    if not isinstance(guess, Hashable):
        raise BadInput(
            f"{guess!r} came as a guess; a label or None was expected, one for each row."
        )
    return (
        guess is None
        or (isinstance(guess, str) and not guess.strip())
        or (isinstance(guess, float) and math.isnan(guess))
    )


def shares_of(probabilities: Any, n: int) -> NDArray[Any]:
    """Return how sure each of n guesses is, 1 where that is not said."""
    if probabilities is None:
        return np.ones(n)
    try:
        shares = np.array([1.0 if missing(p) else float(p) for p in probabilities])
    except (TypeError, ValueError):
        shares = np.full(n, np.nan)
    if len(shares) != n or not np.all((shares >= 0.0) & (shares <= 1.0)):
        raise BadInput(
            f"{len(shares)} probabilities came for {n} guesses, or one is not from 0 to 1; how sure each "
            "guess is was expected. Divide percentages by 100."
        )
    return shares


def _spread(rows: Any) -> float:
    """Return the mean squared distance of rows from their mean; 1 where they are all the same."""
    squares = rows.multiply(rows).sum() if is_sparse(rows) else np.sum(rows * rows)
    mean = np.asarray(rows.mean(axis=0)).ravel()
    spread = float(squares) / rows.shape[0] - float(mean @ mean)
    return spread if spread > 0.0 else 1.0
