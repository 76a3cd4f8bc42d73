"""Dev rows weighted to where the model will be used."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from goalward.core.arrays import plain_rows, stack_rows
from goalward.errors import BadInput, WeakGoal
from goalward.goals.dev_loss import DevLoss, check_in_memory, count_labels
from goalward.goals.goal import Unsettled
from goalward.models import Fitted

__all__ = ["TargetSet"]

APART = 0.3
"""Mean ratio below which dev and target rows hardly overlap: it is 1 where they do."""
LARGEST = 20.0
"""The largest ratio, before the mean is made one."""


@dataclass(frozen=True, eq=False)
class TargetSet(Unsettled):
    """τ = Σ w_r log p_y over dev rows, w = p_target(x) / p_dev(x): covariate shift undone.

    A logistic regression that tells target rows from dev rows knows the ratio: its odds, times the
    number of dev rows over that of target rows. Each dev row is judged by a copy that did not see it
    (5 folds), so that many features do not tell the two apart by heart. Weights are clipped and have
    mean one. `goal.settled(fitted)` is a `DevLoss` whose `weights` and `effective_rows` can be read.

    Parameters
    ----------
    X, y
        Dev rows with labels, as for `DevLoss`.
    X_target
        Unlabelled rows from where the model will be used; a sample is enough.

    Examples
    --------
    >>> import goalward as gw
    >>> import numpy as np
    >>> x = np.linspace(-2, 2, 40)[:, None]
    >>> fitted = gw.Logistic().fit(x, x[:, 0] > 0)
    >>> settled = gw.goals.TargetSet(x, x[:, 0] > 0, x[20:]).settled(fitted)
    >>> bool(settled.weights[-1] > 1 > settled.weights[0]), settled.effective_rows < 40
    (True, True)
    """

    kinds: ClassVar[tuple[str, ...]] = ("class", "labels", "numbers")

    X: Any = field(repr=False)
    y: Any = field(repr=False)
    X_target: Any = field(repr=False)

    @property
    def labels_held(self) -> int:
        return count_labels(self.y)

    def settled(self, fitted: Fitted, round: int = 0) -> DevLoss:
        check_in_memory(self.X, "TargetSet")
        check_in_memory(self.X_target, "TargetSet's target")
        dev = plain_rows(fitted.features(self.X, "X of TargetSet"))
        target = plain_rows(fitted.features(self.X_target, "X_target of TargetSet"))
        ratio = _ratio(dev, target)
        mean, m = float(ratio.mean()), len(ratio)
        goal = DevLoss(self.X, self.y, weights=ratio / mean)
        # A tenth of the rows, and 10 of them where there are so many.
        few = goal.effective_rows < max(m / 10.0, min(10.0, m / 2.0))
        if few or mean < APART:
            warnings.warn(
                f"The {m} dev rows of TargetSet count like {goal.effective_rows:.1f} rows, and their "
                f"ratios p_target/p_dev average {mean:.2g} (1 was expected): the target rows lie where "
                "few or no dev rows are, so the goal rests on little. Label some target rows as dev "
                "rows, or use SoftPool(X_target, belief), which needs no dev rows there.",
                WeakGoal,
                stacklevel=2,
            )
        return goal


def _ratio(dev: Any, target: Any) -> NDArray[Any]:
    """Return p_target/p_dev of every dev row, clipped."""
    m, n = dev.shape[0], target.shape[0]
    folds = min(5, m, n)
    if folds < 2:
        raise BadInput(
            f"TargetSet has {m} dev and {n} target rows; 2 of each were expected at least. Pass more."
        )
    # Scaled but not centred, so that sparse rows stay sparse.
    model = make_pipeline(StandardScaler(with_mean=False), LogisticRegression(max_iter=10_000))
    X, side = stack_rows(dev, target), np.repeat([0, 1], [m, n])
    ratio = np.empty(m)
    for rest, fold in StratifiedKFold(folds, shuffle=True, random_state=0).split(side, side):
        mine = fold[fold < m]
        p = clone(model).fit(X[rest], side[rest]).predict_proba(X[mine])
        with np.errstate(divide="ignore"):
            ratio[mine] = p[:, 1] / p[:, 0] * (m / n)
    return np.minimum(ratio, LARGEST)
