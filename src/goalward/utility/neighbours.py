"""Models that differ from one model by a few rows.

In the coordinates of 𝓗₀⁻¹ a model is Ψ (q, c), c = K-1 contrasts, and a (b, c) along the own
directions of added rows. These have the logits z̃Ψ + S a, S their Gram matrix outside.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from jaxtyping import Float
from numpy.typing import NDArray

from goalward.core.arrays import Array, Rows, like, namespace, rows_at
from goalward.errors import Unsupported
from goalward.goals.goal import Goal, Term
from goalward.models.fitted import Fitted
from goalward.models.linear import LinearModel
from goalward.models.loss import Loss
from goalward.solvers.inverse import Coordinates, Inverse, shrunk
from goalward.utility.implicit_slopes import Equations, block_diagonal, implicit_slopes

CHUNK = 2**18
"""Numbers in one array of a chunk of models: 2 MB, so that a sweep stays in the cache."""


def times(A: Float[Array, "r s"], x: Float[Array, "s c m"]) -> Float[Array, "r c m"]:
    """Return A x along the first axis, for every class and model."""
    xp = namespace(x)
    return xp.reshape(A @ xp.reshape(x, (x.shape[0], -1)), (A.shape[0], *x.shape[1:]))


def each(A: Float[Array, "g r s"], x: Float[Array, "_ c m"]) -> Float[Array, "_ c m"]:
    """Return each group's matrix times the vectors (first axis, or first two) of its models."""
    xp, (G, r, s), (c, m) = namespace(x), A.shape, x.shape[1:]
    if G == 1:
        return xp.reshape(A[0, ...] @ xp.reshape(x, (s, -1)), (-1, c, m))
    x = xp.permute_dims(xp.reshape(x, (s, -1, G, m // G)), (2, 0, 1, 3))
    x = xp.reshape(x, (G, s, -1))
    product = xp.reshape(A * x if s == 1 else xp.matmul(A, x), (G, r, -1, m // G))
    return xp.reshape(xp.permute_dims(product, (1, 2, 0, 3)), (-1, c, m))


@dataclass(frozen=True)
class Base:
    """Shared by all models near one: labelled rows, inverse 𝓗₀⁻¹, optimum, contrasts Q.

    `columns` maps contrasts to the loss's columns; `answered` marks outcomes with a target.
    """

    inverse: Inverse
    B: Float[Array, "n q"]
    targets: Float[Array, "n l"]
    weights: Float[Array, " n"]
    rho: float
    start: Float[Array, "q c"]
    Q: Float[Array, "k c"]
    columns: Float[Array, "l c"]
    loss: Loss
    answered: Float[Array, "n l 1"] | None

    @classmethod
    def of(cls, fitted: Fitted) -> Base:
        """Return the base in the span of the labelled rows, or in the features if fewer."""
        weights = fitted.penalty[: fitted.n_features]
        xp = namespace(weights)
        rho, most = float(xp.min(weights)), float(xp.max(weights))
        if rho != most:
            raise Unsupported(
                f"All weights must have one penalty, got {rho:.3g} to {most:.3g}. Scale the features "
                "instead, or use FirstOrder()."
            )
        labelled, hessian, loss = fitted.labelled, fitted.hessian, fitted.loss
        inverse = Inverse.of(hessian, Coordinates.spanned(hessian))
        coordinates, Q = inverse.coordinates, hessian.basis
        columns, start = loss.columns(Q), fitted.params @ Q
        if coordinates.basis is not None:
            inside = coordinates.basis.T @ (labelled.X @ start[: fitted.n_features, :])
            start = xp.concat([inside, start[-1:, :]]) if coordinates.intercept else inside
        targets, answered = labelled.targets, loss.answered(labelled.targets)
        if answered is not None:
            targets = xp.where(answered > 0.0, targets, xp.zeros_like(targets))
            answered = answered[:, :, None]
        B, targets = coordinates(labelled.X), (targets @ Q) @ columns.T
        return cls(inverse, B, targets, labelled.weights, rho, start, Q, columns, loss, answered)

    def law(self, f: Float[Array, "n l m"]) -> Float[Array, "n l m"]:
        """Return the labelled rows' law at some logits; zero where there is no target."""
        law = self.loss.law(f)
        return law if self.answered is None else law * self.answered

    def lifted(self, x: Float[Array, "s c m"]) -> Float[Array, "s l m"]:
        """Return x in the loss's columns."""
        return x if self.columns.shape[0] == 1 else namespace(x).matmul(self.columns, x)

    def lowered(self, x: Float[Array, "s l m"]) -> Float[Array, "s c m"]:
        """Return x, of the loss's columns, in contrasts."""
        return x if self.columns.shape[0] == 1 else namespace(x).matmul(self.columns.T, x)


@dataclass(frozen=True)
class AddedRows:
    """The rows that models add: G groups of b rows, each under L labelings; the model axis is last.

    `Z`, `S` are z̃ and the Gram matrix outside, `U` is 𝓗₀⁻¹z̃ᵀ, `leverage` z̃𝓗₀⁻¹z̃ᵀ.
    `known` rows are labelled already: `targets` are pulls, `weights` changes of curvature.
    """

    base: Base
    X: Rows
    Z: Float[Array, "g b q"]
    S: Float[Array, "g b b"]
    U: Float[Array, "g qc bc"] = field(repr=False)
    leverage: Float[Array, "g bc bc"]
    targets: Float[Array, "b c m"]
    weights: Float[Array, "b 1 m"]
    pulls: Float[Array, "b c m"]
    known: bool = False

    @classmethod
    def of(
        cls,
        base: Base,
        X: Rows,
        Z: Float[Array, "_ q"],
        targets: Array,
        weights: Array,
        known: bool = False,
    ) -> AddedRows:
        coordinates, (b, c, _) = base.inverse.coordinates, targets.shape
        xp, (n, q) = namespace(Z), Z.shape
        U = xp.reshape(base.inverse.pulled(Z), (n // b, b * c, q * c))
        U = xp.permute_dims(U, (0, 2, 1))
        if b == 1:
            S = coordinates.squared_outside(X, Z)[:, None, None]
        else:
            gram = coordinates.outside(X, Z, X, Z)
            S = (0.0 * Z @ Z.T if gram is None else gram)[None, :, :]
        Z = xp.reshape(Z, (n // b, b, q))
        inside = xp.matmul(Z, xp.reshape(U, (n // b, q, -1)))
        eye = xp.eye(c, dtype=Z.dtype, device=Z.device)[None, None, :, None, :]
        M = xp.reshape(inside, (n // b, b, c, b, c)) + (S / base.rho)[:, :, None, :, None] * eye
        leverage = xp.reshape(M, (n // b, b * c, b * c))
        pulls = targets if known else weights * targets
        return cls(base, X, Z, S, U, leverage, targets, weights, pulls, known)

    def logits(self, psi: Float[Array, "q c m"], a: Float[Array, "b c m"]) -> Array:
        """Return z̃Ψ + S a."""
        return each(self.Z, psi) + each(self.S, a)

    def logits_before(self) -> Float[Array, "b c m"]:
        xp = namespace(self.Z)
        f = xp.permute_dims(xp.matmul(self.Z, self.base.start), (1, 2, 0))
        return xp.repeat(f, self.targets.shape[2] // f.shape[2], axis=2)

    def pull(self, alpha: Float[Array, "b c m"]) -> Float[Array, "q c m"]:
        """Return z̃ᵀα."""
        return each(namespace(alpha).permute_dims(self.Z, (0, 2, 1)), alpha)

    def unmoved(self) -> tuple[Array, Array]:
        """Return Ψ and a of the optimum before, for every model."""
        xp, start = namespace(self.targets), self.base.start[:, :, None]
        shape = (*start.shape[:2], self.targets.shape[2])
        return xp.broadcast_to(start, shape) + 0.0, xp.zeros_like(self.targets)

    def pulled_by(self, r: Float[Array, "b c m"]) -> tuple[Array, Array]:
        """Return Ψ and a where the rows pull with slopes r, the rest of the objective quadratic."""
        return self.base.start[:, :, None] - each(self.U, r), -r / self.base.rho

    def implicit(self) -> tuple[Array, Array]:
        """Return Ψ and a by the implicit step; of known rows the optimum before."""
        return self.unmoved() if self.known else self.pulled_by(self.slopes())

    def slopes(self) -> Float[Array, "b c m"]:
        """Return the slopes of the rows' losses where each model will be, F kept quadratic."""
        xp, base, shape = namespace(self.Z), self.base, self.targets.shape
        G, s = self.leverage.shape[:2]
        f = xp.reshape(xp.matmul(self.Z, base.start), (G, s))
        labels = []
        for x in (self.targets, self.weights):
            by_group = xp.reshape(xp.broadcast_to(x, shape), (*shape[:2], G, -1))
            labels.append(xp.reshape(xp.permute_dims(by_group, (2, 0, 1, 3)), (G, s, -1)))
        targets, weights = labels
        equations = Equations(f, self.leverage, targets, weights, base.Q, base.loss)
        r = implicit_slopes(equations)
        r = xp.reshape(r, (G, *shape[:2], -1))
        return xp.reshape(xp.permute_dims(r, (1, 2, 0, 3)), shape)

    def bend(self, law: Float[Array, "b l m"]) -> Float[Array, "m s s"]:
        """Return (I + DM)⁻¹D of every model; known rows take D from 𝓗₀: the rest is positive."""
        xp, base = namespace(law), self.base
        if self.known:
            law = base.loss.law(base.lifted(self.logits_before()))
        D = base.loss.law_blocks(law) * xp.permute_dims(self.weights, (0, 2, 1))[..., None]
        D = block_diagonal(xp.permute_dims(D, (1, 0, 2, 3)))
        return shrunk(D, xp.repeat(self.leverage, D.shape[0] // self.Z.shape[0], axis=0))

    def only(self, index: NDArray[Any]) -> AddedRows:
        """Return the models at `index`; of several groups, all models of some."""
        xp, groups, at = namespace(self.Z), self.Z.shape[0], like(index, self.Z)
        targets, weights, pulls = (
            xp.take(x, at, axis=2) for x in (self.targets, self.weights, self.pulls)
        )
        if groups == 1:
            return replace(self, targets=targets, weights=weights, pulls=pulls)
        L = self.targets.shape[2] // groups
        at = like(index[::L] // L, self.Z)
        Z, S, U, M = (xp.take(x, at, axis=0) for x in (self.Z, self.S, self.U, self.leverage))
        X = rows_at(self.X, index[::L] // L)
        return AddedRows(self.base, X, Z, S, U, M, targets, weights, pulls, self.known)


@dataclass(frozen=True)
class Neighbours:
    """A model with its goal: coordinates of the goal's rows by term, and the goal `before`."""

    fitted: Fitted
    model: LinearModel
    base: Base
    terms: list[Term]
    goal_coordinates: list[Float[Array, "_ q"]]
    before: float

    @classmethod
    def of(cls, fitted: Fitted, goal: Goal) -> Neighbours:
        """Return the neighbours of a model, moved to its optimum: the move is no gain."""
        model = fitted.model.linear("ImplicitStep")
        goal.check_loss(fitted)
        fitted = model.polished(fitted, tol=1e-10, max_iter=None, solver=None)
        base, params = Base.of(fitted), fitted.params
        terms = [
            term._replace(X=like(term.X, params, dtype=params.dtype)) for term in goal.terms(fitted)
        ]
        coordinates = [base.inverse.coordinates(term.X) for term in terms]
        before = sum(
            term.weight * float(term.kernel.value(Z @ base.start @ base.Q.T))
            for term, Z in zip(terms, coordinates, strict=True)
        )
        return cls(fitted, model, base, terms, coordinates, before)

    def answers(self, rows: Rows) -> Float[Array, "_ c l"]:
        """Return the targets under each answer, in contrasts; shared, or for each row."""
        targets = self.fitted.loss.answers(self.fitted.proba_of(rows))
        return namespace(targets).permute_dims(targets @ self.base.Q, (0, 2, 1))

    def at_once(self, models: int) -> int:
        """Return how many groups of `models` models fit the cache."""
        q, c = self.base.start.shape
        # Logits of goal rows are used once, so they may take more memory.
        rows = max(int(Z.shape[0]) for Z in self.goal_coordinates)
        return max(1, CHUNK // (max(int(q * c), rows * int(c + 1) // 4) * models))

    def chunks(self, rows: Rows) -> Iterator[Rows]:
        """Return rows in the model's precision, in chunks that fit the cache."""
        rows = like(rows, self.base.Q, dtype=self.base.Q.dtype)
        step = self.at_once(self.fitted.n_answers)
        for first in range(0, rows.shape[0], step):
            yield rows_at(rows, slice(first, first + step))

    def singles(self, rows: Rows) -> AddedRows:
        """Return the models that add one of the rows under each label."""
        Z = self.base.inverse.coordinates(rows)
        xp, n, L = namespace(Z), rows.shape[0], self.fitted.n_answers
        inside = xp.permute_dims(self.answers(rows), (1, 0, 2))
        targets = xp.broadcast_to(inside[None, :, :, :], (1, inside.shape[0], n, L))
        weights = xp.broadcast_to(self.fitted.label_weights, (1, 1, n, L))
        labels = (xp.reshape(x, (1, -1, n * L)) for x in (targets, weights))
        return AddedRows.of(self.base, rows, Z, *labels)

    def windows(self, rows: Rows, codes: NDArray[Any]) -> Iterator[tuple[AddedRows, NDArray[Any]]]:
        """Return the models that add all rows under each of `codes` (L, b), in chunks of these."""
        Q = self.base.Q
        rows = like(rows, Q, dtype=Q.dtype)
        Z = self.base.inverse.coordinates(rows)
        xp, step = namespace(Z), self.at_once(1)
        for first in range(0, codes.shape[0], step):
            part = codes[first : first + step]
            shape, index = (rows.shape[0], part.shape[0], -1), like(part.T.reshape(-1), Z)
            labels = (
                xp.permute_dims(xp.reshape(xp.take(x, index, axis=0), shape), (0, 2, 1)) + 0.0
                for x in (Q, self.fitted.label_weights[:, None])
            )
            yield AddedRows.of(self.base, rows, Z, *labels), part

    def changed(self) -> Iterator[tuple[slice, AddedRows]]:
        """Return the labelled rows in parts, under each of K labels and without a label.

        Label k adds w_k ℓ(f, k) - w ℓ(f, y): a constant pull w(e_k - y), and w_k - w of the
        curvature. The column of the row's own label is used for dropping it.
        """
        base, fitted = self.base, self.fitted
        xp, ratios = namespace(base.B), relative_weights(fitted)
        targets = base.targets @ base.columns
        step = self.at_once(fitted.n_classes + 1)
        for first in range(0, len(fitted.labelled), step):
            part = slice(first, first + step)
            X, Z, y, w, ratio = (
                rows_at(x, part)
                for x in (fitted.labelled.X, base.B, targets, base.weights[:, None], ratios)
            )
            heavy, own_pull = w * ratio, (w * y)[:, None, :]
            pulls = heavy[:, :, None] * base.Q[None, :, :] - own_pull
            own = xp.max(xp.abs(pulls), axis=2) <= 1e-12 * w
            pulls = xp.where(own[:, :, None], -own_pull, pulls)
            bends = xp.where(own, -w, heavy - w)
            pulls, bends = xp.concat([pulls, -own_pull], axis=1), xp.concat([bends, -w], axis=1)
            pulls = xp.reshape(xp.permute_dims(pulls, (2, 0, 1)), (1, y.shape[1], -1))
            weights = xp.reshape(bends, (1, 1, -1))
            yield part, AddedRows.of(base, X, Z, pulls, weights, known=True)

    def change(
        self, added: AddedRows, psi: Float[Array, "q c m"], a: Float[Array, "b c m"]
    ) -> Float[Array, " m"]:
        total: Any = -self.before
        for term, _, logits, _ in self.goal_logits(added, psi, a):
            total = total + term.weight * term.kernel.value(logits)
        return total

    def goal_logits(
        self, added: AddedRows, psi: Float[Array, "q c m"], a: Float[Array, "b c m"]
    ) -> Iterator[tuple[Term, Array, Float[Array, "m p k"], Array | None]]:
        """Return each term, its coordinates, logits, and products with added rows outside."""
        xp, (G, b, q) = namespace(psi), added.Z.shape
        Z = xp.reshape(added.Z, (G * b, q))
        for term, Z_goal in zip(self.terms, self.goal_coordinates, strict=True):
            f = times(Z_goal, psi)
            E = self.base.inverse.coordinates.outside(term.X, Z_goal, added.X, Z)
            if E is not None:
                E = xp.permute_dims(xp.reshape(E, (-1, G, b)), (1, 0, 2))
                f = f + each(E, a)
            # Classes first in memory, last in the view: reductions run over whole slabs.
            logits = xp.tensordot(self.base.Q, f, axes=([1], [1]))  # (K, rows, models)
            yield term, Z_goal, xp.permute_dims(logits, (2, 1, 0)), E


def relative_weights(fitted: Fitted) -> Float[Array, "n k"]:
    """Return the weight of each labelled row under each label, relative to its own."""
    fitted.check_kind("gw.relabel")
    if fitted.label_counts is not None:
        raise Unsupported(
            "gw.relabel with a goal does not support class_weight='balanced': a label that changes "
            "would change the weights of all rows. Pass class_weight as a dict."
        )
    by_class = fitted.label_weights
    return by_class[None, :] / (fitted.labelled.targets @ by_class)[:, None]
