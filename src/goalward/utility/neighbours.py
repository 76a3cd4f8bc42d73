"""One model, its goal, and all models that differ from it by a few added rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, cast

from jaxtyping import Float
from numpy.typing import NDArray

from goalward.core.arrays import Array, Rows, like, namespace, rows_at
from goalward.errors import Unsupported
from goalward.goals.goal import Goal, Term
from goalward.models.fitted import Fitted
from goalward.models.linear import LinearModel
from goalward.solvers.inverse import Coordinates, Inverse
from goalward.utility.added_rows import Added, Base, Singles, Window

CHUNK = 2**18
"""Numbers in one array of a chunk of models: 2 MB, so that a sweep stays in the cache."""


@dataclass(frozen=True)
class Neighbours:
    """A model with its goal, and what the models near it share: coordinates, inverse, goal rows.

    Parameters
    ----------
    goal_coordinates
        The rows of each term of the goal in the coordinates of the inverse.
    before
        The goal at the model itself.
    """

    fitted: Fitted
    model: LinearModel
    base: Base
    terms: list[Term]
    goal_coordinates: list[Float[Array, "_ q"]]
    before: float

    @classmethod
    def of(cls, fitted: Fitted, goal: Goal) -> Neighbours:
        """Return the neighbours of a model, moved to its optimum first.

        Its distance from the optimum would count as gain otherwise.
        """
        model = fitted.model.linear("ImplicitStep")
        goal.check_loss(fitted)
        fitted = fitted.polished(tol=1e-10)
        base = _base_of(fitted)
        dtype = fitted.params.dtype
        terms = [
            term._replace(X=like(term.X, fitted.params, dtype=dtype)) for term in goal.terms(fitted)
        ]
        coordinates = [base.coordinates(term.X) for term in terms]
        before = sum(
            term.weight * float(term.kernel.value(Z @ base.start @ base.Q.T))
            for term, Z in zip(terms, coordinates, strict=True)
        )
        return cls(fitted, model, base, terms, coordinates, before)

    def rows(self, rows: Rows) -> Rows:
        """Return rows in the precision of the model."""
        return like(rows, self.fitted.params, dtype=self.fitted.params.dtype)

    def chunks(self, rows: Rows) -> Iterator[Rows]:
        """Return rows in chunks whose models, one per label, fit the cache."""
        step = max(1, CHUNK // (self._largest() * self.fitted.n_answers))
        for first in range(0, rows.shape[0], step):
            yield rows_at(rows, slice(first, first + step))

    def singles(self, rows: Rows) -> tuple[Float[Array, "n q"], Singles]:
        """Return coordinates of rows, and the models that add one of them under each label."""
        Z = self.base.coordinates(rows)
        xp = namespace(Z)
        L, c = self.fitted.n_answers, self.base.Q.shape[1]
        inside = xp.permute_dims(self.answers(rows), (1, 0, 2))
        targets = xp.broadcast_to(inside[None, :, :, :], (1, c, rows.shape[0], L))
        weights = xp.broadcast_to(self.fitted.label_weights, (1, 1, rows.shape[0], L))
        added = Singles.of(
            self.base,
            rows,
            Z,
            xp.reshape(targets, (1, c, -1)),
            xp.reshape(weights, (1, 1, -1)),
        )
        return Z, added

    def answers(self, rows: Rows) -> Float[Array, "_ c l"]:
        """Return the targets of rows under each answer, in contrasts; one for all rows, or for each."""
        targets = self.fitted.loss.answers(self.fitted.proba_of(rows))
        return namespace(targets).permute_dims(targets @ self.base.Q, (0, 2, 1))

    def changed(self) -> Iterator[tuple[slice, Rows, ChangedRows]]:
        """Return the labelled rows in parts, with the models that change or drop one of them."""
        known = self.fitted.labelled
        ratios = relative_weights(self.fitted)
        step = max(1, CHUNK // (self._largest() * (self.fitted.n_classes + 1)))
        for first in range(0, len(known), step):
            part = slice(first, first + step)
            rows = rows_at(known.X, part)
            yield part, rows, ChangedRows.of_labelled(self.base, part, rows, rows_at(ratios, part))

    def windows(
        self, rows: Rows, codes: NDArray[Any], gain: Callable[..., Float[Array, " l"]]
    ) -> Float[Array, " l"]:
        """Return Δτ of the models that add all rows under each of `codes` (L, b).

        `gain` says it of a chunk of them: their window, the rows, their coordinates, and the codes.
        """
        rows = self.rows(rows)
        size = rows.shape[0]
        parts = []
        Z = self.base.coordinates(rows)
        xp = namespace(Z)
        step = max(1, CHUNK // self._largest())
        for first in range(0, codes.shape[0], step):
            part = codes[first : first + step]
            index = like(part.T.reshape(-1), Z)
            targets = xp.reshape(xp.take(self.base.Q, index, axis=0), (size, part.shape[0], -1))
            weights = xp.take(self.fitted.label_weights, index, axis=0)
            added = Window.of(
                self.base,
                rows,
                Z,
                xp.permute_dims(targets, (0, 2, 1)) + 0.0,
                xp.reshape(weights, (size, 1, part.shape[0])),
            )
            parts.append(gain(added, rows, Z, part))
        return xp.concat(parts)

    def pulled(
        self, added: Added, slopes: Float[Array, "b c m"], rows: Rows, Z: Array
    ) -> Float[Array, " m"]:
        """Return Δτ of every model where the added rows pull with these slopes."""
        psi = self.base.start[:, :, None] - added.inverse_pull(slopes)
        return self.change(psi, -slopes / self.base.rho, rows, Z)

    def change(
        self, psi: Float[Array, "q c m"], a: Float[Array, "b c m"], rows: Rows, Z: Array
    ) -> Float[Array, " m"]:
        """Return the goal of every model, less what it was before."""
        total: Any = -self.before
        for term, _, logits, _ in self.goal_logits(psi, a, rows, Z):
            total = total + term.weight * term.kernel.value(logits)
        return total

    def goal_logits(
        self, psi: Float[Array, "q c m"], a: Float[Array, "b c m"], rows: Rows, Z: Array
    ) -> Iterator[tuple[Term, Array, Float[Array, "m g k"], Array | None]]:
        """Return each term of the goal, its coordinates, its rows' logits in every model, and E.

        E are the products of its rows with the added ones outside the coordinates.
        """
        xp = namespace(psi)
        q, c, m = psi.shape
        for term, Z_goal in zip(self.terms, self.goal_coordinates, strict=True):
            f = xp.reshape(Z_goal @ xp.reshape(psi, (q, c * m)), (-1, c, m))
            E = self.base.coordinates.outside(term.X, Z_goal, rows, Z)
            if E is not None:
                f = f + _moved_outside(E, a)
            # Classes first in memory, last in the view: reductions run over whole slabs.
            logits = xp.tensordot(self.base.Q, f, axes=([1], [1]))  # (K, rows, models)
            yield term, Z_goal, xp.permute_dims(logits, (2, 1, 0)), E

    def _largest(self) -> int:
        """Return the numbers that one model takes in its largest array."""
        q, c = self.base.start.shape
        # Logits of goal rows pass once, so they may take more than what is swept over.
        rows = max(int(Z.shape[0]) for Z in self.goal_coordinates)
        return max(int(q * c), rows * int(c + 1) // 4)


def _base_of(fitted: Fitted) -> Base:
    """Return what all models near `fitted` share, in the span of the labelled rows or the features."""
    rho = fitted.weight_penalty  # refuses several before anything is made
    labelled, hessian = fitted.labelled, fitted.hessian
    inverse = Inverse.of(hessian, Coordinates.spanned(hessian))
    coordinates = inverse.coordinates
    Q = hessian.basis
    xp = namespace(Q)
    start = fitted.params @ Q
    if coordinates.basis is not None:
        inside = coordinates.basis.T @ (labelled.X @ start[: fitted.n_features, :])
        start = xp.concat([inside, start[-1:, :]]) if coordinates.intercept else inside
    targets, answered = labelled.targets, fitted.loss.answered(labelled.targets)
    if answered is not None:
        targets = xp.where(answered > 0.0, targets, xp.zeros_like(targets))
        answered = answered[:, :, None]
    return Base(
        inverse,
        coordinates(labelled.X),
        targets @ Q,
        labelled.weights,
        rho,
        start,
        Q,
        fitted.loss,
        answered,
    )


def _moved_outside(E: Float[Array, "m s"], a: Float[Array, "b c n"]) -> Float[Array, "m c n"]:
    """Return how directions outside the span move the goal's logits.

    With one added row per model, each model has its own column of E; else all share them.
    """
    xp = namespace(a)
    b, c, n_models = a.shape
    if b == 1:
        by_row = xp.reshape(a, (1, c, E.shape[1], -1))
        return xp.reshape(E[:, None, :, None] * by_row, (E.shape[0], c, n_models))
    return xp.reshape(E @ xp.reshape(a, (b, c * n_models)), (E.shape[0], c, n_models))


# The labelled rows themselves, with other labels and without one, as rows that moved models add.


@dataclass(frozen=True)
class ChangedRows(Singles):
    """Labelled rows under each of K labels instead of their own, and last without one.

    With label k instead of y, and w_k its weight, the objective gains w_k ℓ(f, k) and loses
    w ℓ(f, y): mostly a pull w(e_k - y) that is the same wherever the model is. Without the row it
    loses w ℓ(f, y). So `targets` hold the pulls, weight and all, and `weights` what becomes of the
    row's curvature, w_k - w or -w. A row's own label moves nothing; the row is dropped there once
    more.
    """

    @classmethod
    def of_labelled(
        cls, base: Base, part: slice, rows: Rows, ratios: Float[Array, "n k"]
    ) -> ChangedRows:
        """Return the models of some labelled rows, K + 1 of each; ratios are w_k / w."""
        Z, y, w = (rows_at(x, part) for x in (base.B, base.targets, base.weights))
        xp = namespace(Z)
        heavy = w[:, None] * ratios
        moved = heavy[:, :, None] * base.Q[None, :, :] - (w[:, None] * y)[:, None, :]
        own = xp.max(xp.abs(moved), axis=2) <= 1e-12 * w[:, None]
        dropped = xp.concat([own, own[:, :1] | True], axis=1)
        moved = xp.concat([moved, moved[:, :1, :]], axis=1)
        bends = xp.concat([heavy, heavy[:, :1]], axis=1) - w[:, None]
        pulls = xp.where(dropped[:, :, None], -(w[:, None] * y)[:, None, :], moved)
        bends = xp.where(dropped, -w[:, None], bends)
        pulls = xp.reshape(xp.permute_dims(pulls, (2, 0, 1)), (1, y.shape[1], -1))
        made = cls.of(base, rows, Z, pulls, xp.reshape(bends, (1, 1, -1)))
        return cast(ChangedRows, made)

    @property
    def pulls(self) -> Float[Array, "1 c m"]:
        """What the labels pull with."""
        return self.targets

    def bend(self, base: Base, law: Array) -> Float[Array, "m c c"]:
        """Return (I + DM)⁻¹D at the optimum before, wherever the model is by now.

        There a row's curvature is a part of 𝓗₀, and what is left without it is positive.
        """
        return super().bend(base, base.loss.law(base.lifted(self.logits(*self.unmoved(base)))))

    def implicit(self, base: Base) -> tuple[Array, Array]:
        """Return the optimum before: the step from there is Newton's, as far as the line search goes."""
        return self.unmoved(base)


def relative_weights(fitted: Fitted) -> Float[Array, "n k"]:
    """Return what each labelled row would weigh with each label, as a share of what it does."""
    fitted.check_kind("gw.relabel")
    if fitted.label_counts is not None:
        raise Unsupported(
            "gw.relabel came with a goal and class_weight='balanced': a label that changes changes the "
            "weights of all rows. Weights that stay were expected: pass class_weight as a dict."
        )
    by_class = fitted.label_weights
    return by_class[None, :] / (fitted.labelled.targets @ by_class)[:, None]
