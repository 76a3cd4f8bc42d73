"""Labels that are there already, in the unit of those that are not: what would change without them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from goalward.core.arrays import to_numpy
from goalward.errors import BadInput
from goalward.goals import Goal
from goalward.goals.leave_one_out import left_out, left_out_pull
from goalward.models import Fitted, as_fitted

__all__ = ["Relabelled", "relabel"]


@dataclass(frozen=True, eq=False)
class Relabelled:
    """What each labelled row would be, and do, without its label.

    Parameters
    ----------
    proba
        (n, K) probabilities of a model that did not know the row.
    doubt
        (n,) how much to doubt the label, higher is worse. Without a goal 1 - p of the label, by that
        model. With one what the goal would gain by dropping it: the unit of `Suggestion.utility`.
    drop
        (n,) change of the goal without the row; None without a goal.
    change
        (n, K) change of the goal with each label instead of its own, whose own is 0; None without.
    label
        (n,) what the model without the row says of it.

    Examples
    --------
    >>> import goalward as gw
    >>> gw.relabel(gw.Logistic().fit([[0.0], [1.0], [0.1]], ["a", "b", "b"]))
    Relabelled(3 labels, most doubtful 0, 2, 1)
    """

    proba: Float[NDArray[Any], "n k"] = field(repr=False)
    doubt: Float[NDArray[Any], " n"] = field(repr=False)
    drop: Float[NDArray[Any], " n"] | None = field(repr=False)
    change: Float[NDArray[Any], "n k"] | None = field(repr=False)
    label: NDArray[Any] = field(repr=False)

    @property
    def rows(self) -> NDArray[Any]:
        """Labelled rows by their positions, the most doubtful first."""
        return np.argsort(-self.doubt, kind="stable")

    def __repr__(self) -> str:
        worst = ", ".join(map(str, self.rows[:5]))
        return f"Relabelled({len(self.doubt)} labels, most doubtful {worst})"


def relabel(fitted: Any, goal: Goal | None = None) -> Relabelled:
    """Return which labels to look at again, by what changing or dropping each would do.

    In closed form, for all rows at once. Without row i the parameters move by
    𝓗⁻¹Jᵀ(I - wΛM)⁻¹w(p - y), one Newton step of leaving it out (M = J𝓗⁻¹Jᵀ its leverage); with
    label k instead of its own by 𝓗⁻¹Jᵀw(e_k - y). The goal follows to first order.

    Parameters
    ----------
    fitted
        A linear model: of `gw.Logistic` or `gw.adapters.from_sklearn`.
    goal
        What should get better; None to ask the model alone.

    Examples
    --------
    >>> import goalward as gw
    >>> X, y = [[0.0], [0.1], [0.2], [0.9], [1.0], [0.15]], ["a", "a", "a", "b", "b", "b"]
    >>> found = gw.relabel(gw.Logistic(C=10.0).fit(X, y))
    >>> int(found.rows[0]), str(found.label[5])
    (5, 'a')
    """
    model = as_fitted(fitted)
    known = model.labelled
    if len(known) < 2:
        raise BadInput(
            f"The model has {len(known)} labelled rows; at least 2 were expected. Label more."
        )
    proba = np.asarray(to_numpy(model.loss.proba(left_out(model))), dtype=np.float64)
    label = model.classes[proba.argmax(axis=1)]
    if goal is None:
        doubt = 1.0 - np.sum(proba * to_numpy(known.targets), axis=1)
        return Relabelled(proba, doubt, None, None, label)
    drop, change = _changes(model, goal.settled(model))
    return Relabelled(proba, drop, drop, change, label)


def _changes(fitted: Fitted, goal: Goal) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the change of a goal without each row, and with each label instead of its own."""
    known = fitted.labelled
    linear = fitted.model.linear("gw.relabel")
    motion = to_numpy(linear.jvp(known.X, fitted.solve(goal.gradient(fitted)).value))
    targets, w = to_numpy(known.targets), to_numpy(known.weights)[:, None]
    pull, _, Q = left_out_pull(fitted, known.X, targets, known.weights)
    drop = np.sum((motion @ Q) * pull, axis=1)
    change = w * (motion - np.sum(motion * targets, axis=1, keepdims=True))
    return drop, change
