"""C by approximate leave-one-out: of a few models, the one that predicts left-out rows best."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from goalward.errors import NotConverged, Separable
from goalward.goals import LeaveOneOut

if TYPE_CHECKING:
    from goalward.learners.logistic import Logistic
    from goalward.models.fitted import Fitted

__all__ = ["best_left_out"]

PATH = (0.01, 0.1, 1.0, 10.0)
MIDDLE = 1.0
FEW = 10
"""Labels below which nothing is chosen, and C is the middle one."""


def best_left_out(learner: Logistic, X: Any, y: Any, n: int, **given: Any) -> Fitted:
    """Return the model, of those along the path, of the highest left-out log-likelihood.

    Each fit starts from the one before; the strongest penalty is the last to be given up.
    """
    start, most = given.pop("start", None), float("-inf")
    best: Fitted | None = None
    for C in PATH if n >= FEW else (MIDDLE,):
        try:
            fitted = learner.having(C=C).fit(X, y, start=start, **given)
            value = LeaveOneOut().value(fitted) if n >= FEW else 0.0
        except (Separable, NotConverged):
            if best is None:
                raise
            break
        start = fitted
        if value > most:
            best, most = fitted, value
    assert best is not None
    return best
