"""Retraining of models that share no structure: a network or a tree, one after another."""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track

from goalward.core.arrays import Array, Rows, astype, like, namespace, rows_at, stack_rows, to_numpy
from goalward.goals import Goal, Term
from goalward.models import Fitted, Labelled, Refitted
from goalward.utility.threads import one_blas_thread
from goalward.utility.utility import Scored

__all__ = ["OneByOne"]

PATIENCE = 2.0
"""Seconds from which an estimate of the time is printed."""


@dataclass(frozen=True)
class OneByOne:
    """Δτ by training from where the model is (networks), or by a refit (other classifiers).

    The first model is timed; where all of them take more than two seconds, the estimate is
    printed before the others are trained.
    """

    fitted: Fitted
    terms: list[Term]
    before: float
    report: None = None

    @classmethod
    def of(cls, fitted: Fitted, goal: Goal) -> OneByOne:
        """Return the model at its own optimum: its distance from there would count as gain."""
        with one_blas_thread():
            fitted = fitted.polished()
            terms = goal.terms(fitted)
            return cls(fitted, terms, _value(fitted, terms))

    def __call__(self, rows: Rows) -> Scored:
        """Return Δτ of every row under every label."""
        K = self.fitted.n_classes
        proba = self.fitted.loss.proba(self.fitted.logits_of(rows))
        jobs = [
            (rows_at(rows, slice(i, i + 1)), [k]) for i in range(rows.shape[0]) for k in range(K)
        ]
        values = self._all(jobs)
        return Scored(like(values.reshape(-1, K), proba, dtype=proba.dtype), proba)

    def window(self, rows: Rows, codes: NDArray[Any]) -> Float[Array, " l"]:
        """Return Δτ of one batch under each of the labelings `codes` (L, b)."""
        return like(self._all([(rows, labels.tolist()) for labels in codes]), self.fitted.params)

    def _all(self, jobs: list[tuple[Rows, list[int]]]) -> NDArray[Any]:
        with one_blas_thread():
            began = perf_counter()
            values = [self._change(*jobs[0])]
            each = perf_counter() - began
            rest: Any = jobs[1:]
            if each * len(rest) > PATIENCE:
                console = Console(stderr=True)
                console.print(
                    f"Retrain: {len(jobs)} models at {each:.2g} s each, about "
                    f"{each * len(rest) / 60:.1f} minutes. gw.strategies.Subsampled tries fewer."
                )
                rest = track(rest, "retraining", console=console, transient=True)
            values += [self._change(*job) for job in rest]
        return np.array(values)

    def _change(self, rows: Rows, codes: list[int]) -> float:
        fitted, old = self.fitted, self.fitted.labelled
        xp = namespace(old.targets)
        targets = like(np.eye(fitted.n_classes)[codes], old.targets, dtype=old.targets.dtype)
        weights = like(to_numpy(fitted.label_weights)[codes], old.weights, dtype=old.weights.dtype)
        labelled = Labelled(
            stack_rows(old.X, rows),
            xp.concat([old.targets, targets]),
            xp.concat([old.weights, weights]),
        )
        return _value(replace(fitted, labelled=labelled).polished(), self.terms) - self.before


def _value(fitted: Fitted, terms: list[Term]) -> float:
    """Return the goal; its rows are bound already and stay what they are."""
    dtype = fitted.params.dtype
    reference = None if isinstance(fitted.model, Refitted) else dtype
    total = 0.0
    for weight, X, kernel in terms:
        logits = fitted.logits_of(X)
        total += weight * float(kernel.value(astype(logits, reference) if reference else logits))
    return total
