"""Effect of changing or dropping known labels on the goal."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from scipy.special import softmax

from goalward.core.arguments import in_place
from goalward.core.arrays import to_numpy
from goalward.core.card import card
from goalward.errors import BadInput, BadParameter
from goalward.goals import Goal
from goalward.models import as_fitted
from goalward.models.fitted import left_out
from goalward.utility.ladder import as_utility
from goalward.utility.utility import Utility

if TYPE_CHECKING:
    from goalward.utility.ladder import UtilityWord as Word
else:
    Word = str  # other words are refused with a list of the words

TEMPERATURES = np.geomspace(0.2, 1.0, 7)
SHARES = np.linspace(0.01, 0.49, 13)


class Todo(NamedTuple):
    """An action for the goal: "label" a row of the pool, "look" again at a label or "drop" it."""

    what: str
    row: int
    gain: float


@dataclass(frozen=True, eq=False)
class Relabelled:
    """Effect of changing or dropping the label of each labelled row.

    Parameters
    ----------
    proba, label
        (n, K) probabilities and (n,) labels predicted by a model without the row.
    doubt
        (n,) doubt of the label: the goal's gain by dropping it; without a goal 1 - p of the label.
    drop, change
        (n,), (n, K) change of the goal without the row (-inf: last of a class), with other labels.
    look, mistaken
        (n,) expected gain from correcting the label, and the probability that it is wrong.
    temperature
        Of the model's logits, fitted to the labels and their mistakes.

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
    look: Float[NDArray[Any], " n"] | None = field(repr=False)
    label: NDArray[Any] = field(repr=False)
    mistaken: Float[NDArray[Any], " n"] = field(repr=False)
    temperature: float = field(repr=False)

    @property
    def rows(self) -> NDArray[Any]:
        """Labelled rows by their positions, the most doubtful first."""
        return np.argsort(-self.doubt, kind="stable")

    def queue(self, suggestion: Any) -> list[Todo]:
        """Return what raises the goal, best first; `suggestion` is of the same goal and utility."""
        if self.drop is None or self.look is None:
            raise BadParameter(
                "queue() needs gains, and gw.relabel(fitted) without a goal has probabilities. Use "
                "gw.relabel(fitted, goal)."
            )
        new = zip(suggestion.rows.tolist(), suggestion.values.tolist(), strict=True)
        steps = [Todo("label", row, float(gain)) for row, gain in new]
        steps += [Todo("look", i, gain) for i, gain in enumerate(self.look.tolist())]
        steps += [Todo("drop", i, gain) for i, gain in enumerate(self.drop.tolist())]
        return sorted((s for s in steps if s.gain > 0.0), key=lambda step: -step.gain)

    def __repr__(self) -> str:
        worst = ", ".join(map(str, self.rows[:5]))
        return f"Relabelled({len(self.doubt)} labels, most doubtful {worst})"

    def _repr_html_(self) -> str:
        order = self.rows
        columns = {"row": order, "doubt": self.doubt[order], "the model says": self.label[order]}
        title = f"{len(order):,} labels, the most doubtful first"
        return card(title, columns, bar="doubt", most=1 if self.drop is None else None)


def relabel(
    fitted: Any, goal: Goal | None = None, utility: Word | Utility = "first-order"
) -> Relabelled:
    """Return which labels to look at again, by what changing or dropping each would do.

    Without row i the parameters move by 𝓗⁻¹Jᵀ(I - wΛM)⁻¹w(p - y), with label k instead by
    𝓗⁻¹Jᵀw(e_k - y).

    Parameters
    ----------
    fitted
        A linear model: of `gw.Logistic` or `gw.adapters.from_sklearn`.
    goal
        What should get better; None to use the model alone.
    utility
        "first-order", "corrected", "corrected-3", "retrain" or a utility.

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
        raise BadInput(f"gw.relabel needs at least 2 labelled rows, got {len(known)}. Label more.")
    logits = np.asarray(left_out(model), dtype=np.float64)
    proba = np.asarray(model.loss.proba(logits))
    targets = np.asarray(to_numpy(known.targets), dtype=np.float64)
    label = model.classes[proba.argmax(axis=1)]
    true, T = _true_labels(logits, targets)
    mistaken = 1.0 - np.sum(true * targets, axis=1)
    if goal is None:
        doubt = 1.0 - np.sum(proba * targets, axis=1)
        return Relabelled(proba, doubt, None, None, None, label, mistaken, T)
    in_place(goal, "goal", "gw.goals.DevLoss(X_dev, y_dev)", "for_round")
    changes = as_utility(utility).known(model, goal.for_round(model))
    weighed = targets * to_numpy(known.weights)[:, None]
    # The last label of a class cannot be dropped: its intercept would be undefined.
    last = ((targets > 0.0) & (weighed.sum(axis=0) - weighed <= 0.0)).any(axis=1)
    own = targets > 1.0 - 1e-12
    change = np.where(own, 0.0, np.where(last[:, None], -np.inf, changes[:, :-1]))
    drop = np.where(last, -np.inf, changes[:, -1])
    look = np.where(last, 0.0, np.sum(true * np.where(np.isfinite(change), change, 0.0), axis=1))
    return Relabelled(proba, drop, drop, change, look, label, mistaken, T)


def _true_labels(
    logits: Float[NDArray[Any], "n k"], targets: Float[NDArray[Any], "n k"]
) -> tuple[Float[NDArray[Any], "n k"], float]:
    """Return P(true label | given label, model without the row), and the model's temperature T.

    A share ε of labels is wrong, and p = softmax(f / T), T ≤ 1; both are averaged over by
    likelihood, with a prior for small shares.
    """
    others = max(logits.shape[1] - 1, 1)
    total, weight, mean_T, best = np.zeros_like(logits), 0.0, 0.0, -np.inf
    for T in TEMPERATURES:
        proba = softmax(logits / T, axis=1)
        for share in SHARES:
            true = proba * (targets * (1.0 - share) + (1.0 - targets) * share / others)
            each = np.maximum(true.sum(axis=1, keepdims=True), 1e-300)
            likely = float(np.log(each).sum()) + 9.0 * np.log(1.0 - share)
            faded = np.exp(min(best - likely, 0.0))  # of what came before
            new = np.exp(min(likely - best, 0.0))
            best = max(best, likely)
            total, weight = faded * total + new * true / each, faded * weight + new
            mean_T = faded * mean_T + new * T
    return total / weight, mean_T / weight
