"""A goal of the user's own: any function of the logits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalward.core.arrays import like, namespace, to_numpy
from goalward.errors import BadInput, BadParameter, NotFinite
from goalward.goals.goal import Goal, Term
from goalward.goals.kernels import Kernel, Logits, ManyLogits, ManyValues
from goalward.models import Fitted


@dataclass(frozen=True, eq=False)
class Custom(Goal):
    """τ = fn(logits of X), for a smooth function that depends on the probabilities only.

    Adding a constant to a row of the (m, K) logits must not change it. Derivatives are "differences" (2 m K
    calls of `fn`), "torch" (autograd), or "auto": torch if `fn` takes tensors.

    Examples
    --------
    >>> import goalward as gw, numpy as np
    >>> fitted = gw.Logistic().fit([[0.0], [1.0]], [0, 1])
    >>> margin = gw.goals.Custom([[2.0]], lambda f: np.tanh(f[0, 1] - f[0, 0]))
    >>> 0 < margin.value(fitted) < 1
    True
    """

    X: Any = field(repr=False)
    fn: Callable[[Any], Any]
    derivatives: str = field(default="auto", kw_only=True)

    def __post_init__(self) -> None:
        if self.derivatives not in ("auto", "differences", "torch"):
            raise BadParameter(
                "derivatives must be 'auto', 'differences' or 'torch', got "
                f"derivatives={self.derivatives!r}. Leave it at 'auto'."
            )

    def terms(self, fitted: Fitted) -> list[Term]:
        X = fitted.features(self.X, "X of Custom")
        logits = to_numpy(fitted.logits_of(X)).astype(np.float64)
        torch = self.derivatives == "torch" or (self.derivatives == "auto" and self._runs(logits))
        kernel: Kernel = Autograd(self.fn) if torch else Differences(self.fn)
        _check_invariant(kernel, logits)
        return [Term(1.0, X, kernel)]

    def _runs(self, logits: NDArray[Any]) -> bool:
        """Return whether `fn` takes a tensor and returns one that can be differentiated."""
        if find_spec("torch") is None:
            return False
        import torch

        probe = torch.tensor(logits, requires_grad=True)
        try:
            out = self.fn(probe)
        except (TypeError, AttributeError, RuntimeError, ValueError):
            return False
        return isinstance(out, torch.Tensor) and out.requires_grad


@dataclass(frozen=True)
class Differences:
    """Central differences of `fn`, exact to about 1e-9 of its scale."""

    fn: Callable[[Any], Any]
    step: float = 1e-5

    def value(self, logits: ManyLogits) -> ManyValues:
        return _each(logits, lambda model: self.fn(np.ascontiguousarray(model)))

    def cotangent(self, logits: Logits) -> Logits:
        return like(self._slope(to_numpy(logits), self.step), logits, dtype=logits.dtype)

    def curvature(self, logits: Logits, motion: Logits) -> Logits:
        f, s = to_numpy(logits), to_numpy(motion)
        size = float(np.max(np.abs(s), initial=0.0)) or 1.0
        # Wider than for slopes: the noise of a second difference grows like 1/h².
        h = 1e-3
        above, below = (self._slope(f + step / size * s, h) for step in (h, -h))
        return like((above - below) * (size / (2 * h)), logits, dtype=logits.dtype)

    def _slope(self, logits: NDArray[Any], h: float) -> NDArray[Any]:
        moved = logits.astype(np.float64, copy=True)
        slope = np.empty_like(moved)
        for index in np.ndindex(*moved.shape):
            centre = moved[index]
            moved[index] = centre + h
            above = float(self.fn(moved))
            moved[index] = centre - h
            slope[index] = (above - float(self.fn(moved))) / (2 * h)
            moved[index] = centre
        # Rows that sum to zero exactly.
        return np.asarray(slope - slope.mean(axis=1, keepdims=True))


@dataclass(frozen=True)
class Autograd:
    """Derivatives of `fn` by torch."""

    fn: Callable[[Any], Any]

    def value(self, logits: ManyLogits) -> ManyValues:
        import torch

        with torch.no_grad():
            return _each(logits, lambda model: self.fn(torch.tensor(model, dtype=torch.float64)))

    def cotangent(self, logits: Logits) -> Logits:
        import torch

        point = torch.tensor(to_numpy(logits), dtype=torch.float64)
        _, slope = torch.autograd.functional.vjp(self.fn, point)
        return like(slope - slope.mean(dim=1, keepdim=True), logits, dtype=logits.dtype)

    def curvature(self, logits: Logits, motion: Logits) -> Logits:
        import torch

        pair = [torch.tensor(to_numpy(a), dtype=torch.float64) for a in (logits, motion)]
        _, bent = torch.autograd.functional.hvp(self.fn, *pair)
        return like(bent, logits, dtype=logits.dtype)


def _each(logits: ManyLogits, fn: Callable[[NDArray[Any]], Any]) -> ManyValues:
    plain = to_numpy(logits)
    values = np.array([float(fn(model)) for model in plain.reshape(-1, *plain.shape[-2:])])
    return namespace(logits).reshape(like(values, logits, dtype=logits.dtype), logits.shape[:-2])


def _check_invariant(kernel: Kernel, logits: NDArray[Any]) -> None:
    """Raise unless fn is a finite number that ignores a constant added to a row."""
    shift = np.random.default_rng(0).normal(size=(len(logits), 1))
    noise = np.random.default_rng(1).normal(size=logits.shape)
    # How much a constant moves fn, against how much it moves when the logits really change.
    values = [float(kernel.value(logits + by)) for by in (0.0, shift, noise)]
    if not np.all(np.isfinite(values)):
        raise NotFinite(
            f"The custom goal must be finite at and near the model's logits, got {values}. Guard its "
            "logarithms and divisions."
        )
    value, moved, other = values
    if abs(moved - value) > 1e-6 * abs(other - value) + 1e-12 * (1.0 + abs(value)):
        raise BadInput(
            "The custom goal must be a function of the probabilities, got one that changes by "
            f"{moved - value:.3g} when a constant is added to all logits of a row. Apply softmax or "
            "log_softmax to the logits first."
        )
