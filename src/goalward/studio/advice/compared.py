"""Two models on the same rows, by what they predict: classes, several labels, or numbers.

How much of a change becomes a gain was measured on simulated studies (`benchmarks/trust.py`,
and the same with `--task labels` and `--task numbers`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr
from sklearn.metrics import cohen_kappa_score


class Compared:
    """Classes; labels and numbers differ in what is written here.

    A row whose predicted class stays is as right or wrong as before, so accuracy moves by no more
    than the share of rows that changed.
    """

    kind: ClassVar[str] = "class"
    highest: ClassVar[float] = 0.45
    """The gain at its highest: nine in ten gains of the next 100 labels were below that share of the
    rows that changed in the last 50, where these were 2 to 5 %, and further below where they were
    more. What to expect in the middle cannot be told: see docs/trust.md."""
    without: ClassVar[Mapping[str, str]] = {}
    """Rules that have no meaning here, and why."""

    def seen(
        self, said: NDArray[Any], batch: NDArray[Any], scale: float | None = None
    ) -> dict[str, Any]:
        """Return what a snapshot keeps of (n, k) probabilities on the stop set and on a batch."""
        return {
            "predicted": tuple(said.argmax(axis=1).tolist()),
            "uncertainty": float(np.mean(entr(said).sum(axis=1))),
            "variance": float(np.var(said.max(axis=1))),
            "doubt": float(np.max(entr(batch).sum(axis=1))) if len(batch) else None,
        }

    def changed(self, before: NDArray[Any], after: NDArray[Any], scale: float | None) -> float:
        """Return the share of rows that are predicted otherwise."""
        return float(np.mean(before != after))

    def bound(self, before: NDArray[Any], after: NDArray[Any], scale: float | None) -> float:
        """Return the most that accuracy can have moved on these rows, whatever is true."""
        return float(np.mean(before != after))

    def kappa(self, before: NDArray[Any], after: NDArray[Any]) -> float:
        """Return how far two models agree beyond chance."""
        # Where both predict one class, the same, there is no chance to correct for: they agree.
        return 1.0 if np.array_equal(before, after) else float(cohen_kappa_score(before, after))

    def says(self, changed: float) -> str:
        """Return what changed, in words."""
        return f"changed {_points(changed)} of 100 predictions"

    def amount(self, gain: float) -> str:
        """Return a gain without its unit."""
        return _points(gain)

    def unit(self, gain: float) -> str:
        """Return a gain with its unit."""
        return f"{_points(gain)} points of accuracy"

    def short(self, gain: float) -> str:
        """Return a gain as the one sentence of a page has it."""
        points = round(100 * gain)
        return f"{points} point{'s' * (points > 1)}"


class _OfMeasure(Compared):
    measure: ClassVar[str]

    def amount(self, gain: float) -> str:
        """Return a gain without its unit."""
        return f"{gain:.3f}".rstrip("0").rstrip(".") or "0"

    def unit(self, gain: float) -> str:
        """Return a gain with its unit."""
        return f"{self.amount(gain)} of {self.measure}"

    def short(self, gain: float) -> str:
        """Return the same."""
        return self.unit(gain)


class ComparedLabels(_OfMeasure):
    """Yes or no to each of K labels: (K, n)."""

    kind = "labels"
    measure = "macro-F1"
    highest = 0.6

    def seen(
        self, said: NDArray[Any], batch: NDArray[Any], scale: float | None = None
    ) -> dict[str, Any]:
        """Return the same, where every label of a row is a question by itself."""
        each = entr(said) + entr(1.0 - said)
        doubt = entr(batch) + entr(1.0 - batch)
        return {
            "predicted": tuple(map(tuple, (said > 0.5).astype(int).T.tolist())),
            "uncertainty": float(np.mean(each)),
            "variance": float(np.var(np.maximum(said, 1.0 - said))),
            "doubt": float(np.max(doubt)) if len(batch) else None,
        }

    def changed(self, before: NDArray[Any], after: NDArray[Any], scale: float | None) -> float:
        """Return the mean over labels of 1 - F1 between what both say: what F1 itself can notice.

        Of a label that is said of few rows little is known. So one more counts as changed, of two.
        """
        other, named = (before != after).sum(axis=1), before.sum(axis=1) + after.sum(axis=1)
        return float(np.mean((other + 1) / (named + 2)))

    def kappa(self, before: NDArray[Any], after: NDArray[Any]) -> float:
        """Return the mean over labels."""
        return float(
            np.mean(
                [
                    super(ComparedLabels, self).kappa(*pair)
                    for pair in zip(before, after, strict=True)
                ]
            )
        )

    def says(self, changed: float) -> str:
        """Return what changed, in words."""
        return f"changed {_points(changed)} of 100 labels that are said to hold"


class ComparedNumbers(_OfMeasure):
    """Numbers: (n,), in units of their standard deviation, the root of `scale`."""

    kind = "numbers"
    measure = "R²"
    highest = 0.3
    without = {
        "stabilizing predictions": "it counts classes on which two models agree",
        "classification change": "it counts classes that change",
        "confidence variance": "it looks at probabilities of classes",
        "overall uncertainty": "it looks at probabilities of classes",
        "max confidence": "it looks at probabilities of classes",
    }

    def seen(
        self, said: NDArray[Any], batch: NDArray[Any], scale: float | None = None
    ) -> dict[str, Any]:
        """Return predictions, to six digits, and the variance of the numbers themselves."""
        return {"predicted": tuple(float(f"{x:.6g}") for x in said.ravel()), "scale": scale}

    def changed(self, before: NDArray[Any], after: NDArray[Any], scale: float | None) -> float:
        """Return by how many standard deviations predictions moved, the root of the mean square."""
        moved = float(np.mean((before - after) ** 2))
        return (moved / scale) ** 0.5 if scale and moved else 0.0

    def bound(self, before: NDArray[Any], after: NDArray[Any], scale: float | None) -> float:
        """Return the most that the root mean squared error can have moved: a triangle has no longer side."""
        return self.changed(before, after, scale)

    def says(self, changed: float) -> str:
        """Return what changed, in words."""
        return f"moved predictions by {changed:.2g} standard deviations"


def _points(share: float) -> str:
    return f"{100 * share:.1f}".removesuffix(".0")


COMPARED: dict[str, Compared] = {
    one.kind: one for one in (Compared(), ComparedLabels(), ComparedNumbers())
}
