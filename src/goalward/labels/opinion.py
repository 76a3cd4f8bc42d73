"""A second opinion: guesses for unlabelled rows, regressed on the features and added as columns z."""

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
from sklearn.preprocessing import StandardScaler

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
from goalward.core.pool import as_pool
from goalward.core.rows import Candidates, clean_rows, column_names
from goalward.errors import BadInput, BadParameter, NotConverged, Separable, ShapeMismatch
from goalward.labels.beliefs import Believe, labelled_rows
from goalward.models import Fitted
from goalward.models.features import Linear, is_plain
from goalward.models.fitted import left_out_likelihood
from goalward.models.logistic import Logistic

MOST, LEAST, NAMES = 4000, 5, 50  # most guesses, fewest of a name, most names
FEW = 10  # fewest labels for guesses to be used
TRUSTS = (1.0, 3.0)
MARGIN = 1.0  # least gain in leave-one-out log-likelihood
STEEP = 4.0  # slope of the logit at a probability of ½
OWN = 2.0  # labels that a guess with the name of a class counts for
PENALTIES = np.logspace(-2, 4, 13)  # over the rows' mean squared distance


@dataclass(frozen=True, eq=False)
class Opinion:
    """Guesses as a function of the features, weighted by how well they predict labels.

    Made by `Opinion.of`, for `gw.Logistic(opinion=...)`. It is also a belief.

    `params` are the weights and intercepts of the regression on guesses, whose names have frequencies
    `shares`. `size` and `trust` are factors of z; each fit chooses a trust of None, from 0, 1 and 3.

    Examples
    --------
    >>> import goalward as gw, numpy as np
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> y = np.where(X[:, 0] > 0, "yes", "no")
    >>> opinion = Opinion.of(X, np.where(np.arange(300) % 5 == 0, "no", y))
    >>> fitted = gw.Logistic(opinion=opinion).fit(X[:12], y[:12])
    >>> fitted.transform.trust > 0, bool(np.mean(fitted.predict(X) == y) > 0.9)
    (True, True)
    """

    params: NDArray[Any] = field(repr=False)
    names: tuple[Hashable, ...]
    shares: NDArray[Any] = field(repr=False)
    size: float = field(repr=False)
    trust: float | None = None
    features: Any = field(default=None, repr=False)

    @classmethod
    def of(
        cls, X: Any, guesses: Any, *, probabilities: Any = None, seed: int = 0, features: Any = None
    ) -> Opinion:
        """Return the opinion of guesses for rows of the pool.

        A guess is any label, None or NaN; or `guesses` is a function of X. `probabilities` say how sure
        each is, from 0 to 1; the rest is divided among the other guesses. `features` is the first of the
        model's feature maps, whose columns the others begin with.
        """
        labels = list(guesses(X) if callable(guesses) else guesses)
        pool = as_pool(X)
        sure = shares_of(probabilities, len(labels))
        if len(labels) != len(pool):
            raise ShapeMismatch(
                f"guesses must have one entry for each row of X, got {len(pool)} rows and {len(labels)} "
                "guesses. Pass None for a row without one."
            )
        rows = [row for row, guess in enumerate(labels) if not missing(guess)]
        drawn = np.random.default_rng(seed).permutation(rows)[:MOST].astype(np.int64)
        common = Counter(labels[row] for row in drawn.tolist()).most_common(NAMES)
        names = tuple(sorted((name for name, n in common if n >= LEAST), key=str))
        read = pool.take if features is None else lambda rows: features.transform(pool.take(rows))
        if len(names) < 2:
            width = int(read(np.arange(1)).shape[1])
            return cls(np.zeros((width + 1, 0)), (), np.ones(0), 0.0, features=features)
        kept = np.array(sorted(row for row in drawn.tolist() if labels[row] in names))
        codes = np.array([names.index(labels[row]) for row in kept.tolist()])
        right = sure[kept, None]
        others = (1.0 - right) / (len(names) - 1)
        targets = np.where(np.eye(len(names))[codes] > 0, right, others)
        given, shares = plain_rows(clean_rows(read(kept), "X")), targets.mean(axis=0)
        spread = float(StandardScaler(with_mean=False).fit(given).var_.sum()) or 1.0
        ridge = RidgeCV(spread * PENALTIES).fit(given, targets)
        params = np.vstack([ridge.coef_.T, ridge.intercept_ - shares])
        return cls(params, names, shares, STEEP * spread**0.5, features=features)

    def begins(self, other: Any) -> bool:
        """Return whether the columns of another map begin with those that guesses were regressed on."""
        first, longer = (getattr(each, "map", None) for each in (self.features, other))
        if type(first) is not Linear or longer is None:
            return self.features is other
        return longer.tame == first.tame and not longer.replaces

    def predict(self, X: Rows) -> Array:
        """Return (n, g) z of rows; columns after the features are ignored."""
        width = len(self.params) - 1
        rows = X if X.shape[1] == width else X[:, :width]
        reference = np.empty(0, dtype=rows.dtype) if is_sparse(rows) else rows
        own = like(self.params, reference, dtype=rows.dtype)
        return dense(rows @ own[:-1, :]) + own[-1, :][None, :]

    def __call__(self, X: Any) -> Rows:
        """Return rows with the columns z, times their weight, after their features."""
        if self.features is not None:
            rows = self.features.transform(X)
        else:
            rows = clean_rows(X, "X", n_features=len(self.params) - 1, finite=False, least=0)
        z = self.predict(rows) * ((self.trust or 0.0) * self.size)
        if is_sparse(rows):
            return scipy.sparse.csr_array(scipy.sparse.hstack([rows, z]))
        return namespace(rows).concat([rows, z], axis=1)

    def fitted(
        self, learner: Logistic, X: Any, y: Any, sample_weight: Any = None, pool: Any = None
    ) -> Fitted:
        """Return the model of labelled rows with the weight of z that predicts left-out labels best."""
        plain = learner.having(opinion=None)
        if self.features is None and not is_plain(learner.features):
            raise BadParameter(
                f"The opinion was made of rows as they come, and the model has features="
                f"{learner.features!r}. Pass the guesses themselves, or make it with Opinion.of(X, "
                "guesses, features=map) and the first of the model's maps."
            )
        if self.trust:
            linear = plain.having(features="linear")
            model = linear.fit(self(X), y, sample_weight=sample_weight)
            return replace(model, transform=self, columns=column_names(X))
        best = plain.fit(X, y, sample_weight=sample_weight, pool=pool)
        few = len(best.labelled) < FEW
        if self.trust is not None or few or not self.size or not self.begins(best.feature_map):
            return best
        most = float(left_out_likelihood(best)) + MARGIN
        for trust in TRUSTS:
            try:
                own = replace(self, trust=trust, features=best.feature_map)
                model = own.fitted(learner, X, y, sample_weight)
            except (Separable, NotConverged):
                continue
            value = float(left_out_likelihood(model))
            if value > most:
                best, most = model, value
        return best

    def prepare(self, fitted: Fitted, round: int = 0) -> Believe:
        """Return the belief P(y | x) = Σ_g P(g | x) P(y | g), the latter counted on the labels."""
        X, codes = labelled_rows(fitted)
        if not self.begins(fitted.feature_map):
            raise BadParameter(
                f"The opinion must be made on the features of the model ({fitted.says}). Make it with "
                "Opinion.of(X, guesses, features=map) and the model's feature_map."
            )
        answered = np.eye(fitted.n_classes)[codes]
        # Before any label every class is as likely as any.
        share = (answered.sum(axis=0) + 1.0) / (len(codes) + fitted.n_classes)
        if not self.names:
            return partial(self._believed, share[None, :])
        named = [[name == label for label in fitted.classes.tolist()] for name in self.names]
        table = self._probabilities(X).T @ answered + OWN * np.array(named, dtype=float) + share
        return partial(self._believed, table / table.sum(axis=1, keepdims=True))

    def _believed(self, table: NDArray[Any], candidates: Candidates) -> Array:
        p = candidates.proba
        guess = self._probabilities(candidates.X) if self.names else np.ones((p.shape[0], 1))
        return like(guess @ table, p, dtype=p.dtype)

    def _probabilities(self, X: Rows) -> NDArray[Any]:
        """Return P(g | x): z and the shares, which a linear model may send below 0."""
        p = np.maximum(to_numpy(self.predict(X)) + self.shares, 1e-3)
        return np.asarray(p / p.sum(axis=1, keepdims=True))


def feature_weights(fitted: Fitted, asker: str = "Weights") -> tuple[NDArray[Any], bool]:
    """Return the weights of the features themselves, and whether the last of them are intercepts."""
    params, opinion = to_numpy(fitted.params), fitted.opinion
    intercept = fitted.model.linear(asker).intercept
    if opinion is None:
        return params, intercept
    width, names = len(opinion.params) - 1, opinion.params.shape[1]
    features = len(params) - intercept - names
    own = np.zeros((features + 1, params.shape[1]))
    own[:features] = params[:features]
    if intercept:
        own[-1] = params[-1]
    scale = (opinion.trust or 0.0) * opinion.size
    own[[*range(width), -1]] += scale * (opinion.params @ params[features : features + names])
    return own, True


def missing(guess: Any) -> bool:
    """Return whether there is no guess: None, NaN or an empty text."""
    if not isinstance(guess, Hashable):
        raise BadInput(f"A guess must be a label or None, got {guess!r}. Pass one for each row.")
    empty = isinstance(guess, str) and not guess.strip()
    return guess is None or empty or (isinstance(guess, float) and math.isnan(guess))


def shares_of(probabilities: Any, n: int) -> NDArray[Any]:
    """Return how sure each of n guesses is, 1 by default."""
    if probabilities is None:
        return np.ones(n)
    try:
        shares = np.array([1.0 if missing(p) else float(p) for p in probabilities])
    except (TypeError, ValueError):
        shares = np.full(n, np.nan)
    if len(shares) != n or not np.all((shares >= 0.0) & (shares <= 1.0)):
        raise BadInput(
            f"probabilities must be {n} numbers from 0 to 1, one for each guess, got {len(shares)}, or one "
            "outside. Divide percentages by 100."
        )
    return shares
