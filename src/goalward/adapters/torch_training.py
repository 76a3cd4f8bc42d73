"""What a torch module was trained on, and with which weight decay: labels, weights and ρ."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from goalward.core.labels import as_classes, clean_weights, encode
from goalward.errors import BadParameter, ShapeMismatch, Unsupported

__all__ = ["TorchTraining", "WeightDecay"]


@dataclass(frozen=True)
class WeightDecay:
    """The penalty a torch optimiser trained with.

    torch minimises loss + (decay/2)‖θ‖². With the mean of the rows' losses that is 1/n of
    our F with ρ = n · decay; with their sum, ρ = decay. n is what it is now: a row labelled
    later is added at this ρ, as it is at fixed C.
    """

    decay: float | Mapping[str, float] | None
    optimizer: Any
    reduction: str

    def __post_init__(self) -> None:
        if self.reduction not in ("mean", "sum"):
            raise BadParameter(
                f"loss_reduction={self.reduction!r}; 'mean' or 'sum' was expected, as in the loss "
                "the module was trained with (CrossEntropyLoss has 'mean')."
            )
        if (self.decay is None) == (self.optimizer is None):
            raise BadParameter(
                f"weight_decay={self.decay!r} and optimizer={type(self.optimizer).__name__} came; "
                "exactly one of them was expected. Pass the optimizer the module was trained with, "
                "or the weight decay as a number."
            )

    def penalties(self, module: Any, names: list[str], total_weight: float) -> dict[str, float]:
        """Return ρ for each named parameter, in sum form."""
        if self.optimizer is not None:
            decays = _of_optimizer(module, names, self.optimizer)
        elif isinstance(self.decay, Mapping):
            decays = {name: float(self.decay.get(name, 0.0)) for name in names}
        else:
            decays = dict.fromkeys(names, float(self.decay))  # type: ignore[arg-type]
        if any(not 0.0 <= decay < float("inf") for decay in decays.values()):
            raise BadParameter(
                f"weight decays {sorted(set(decays.values()))} came; finite numbers of 0 or more were "
                "expected. Use 1e-3, say."
            )
        factor = total_weight if self.reduction == "mean" else 1.0
        return {name: factor * decay for name, decay in decays.items()}


@dataclass(frozen=True, eq=False)
class TorchTraining:
    """A trained module with its rows and labels, before it is known which layers move.

    Parameters
    ----------
    module, own
        The caller's, and a copy of it in evaluation mode.
    X, inputs
        Raw rows, and what makes of them what the module takes.
    block
        Rows in one pass.
    """

    module: Any
    own: Any
    X: Any
    y: Any
    sample_weight: Any
    classes: Sequence[Hashable] | None
    decay: WeightDecay
    inputs: Callable[[Any], Any] | None
    block: int

    def targets(self, logits: Any) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Return the classes, the labels as distributions, and the rows' weights."""
        if logits.ndim != 2 or logits.shape[1] < 2:
            raise Unsupported(
                f"The module returns {tuple(logits.shape)}; (rows, K) logits of K >= 2 classes were "
                "expected. Give it one output for each class."
            )
        K = int(logits.shape[1])
        classes = as_classes(range(K) if self.classes is None else self.classes)
        if len(classes) != K:
            raise ShapeMismatch(
                f"{len(classes)} classes came and the module has {K} logits; as many of one as of "
                "the other were expected. Name the classes in the order of the logits."
            )
        targets = encode(self.y, classes)
        if len(targets) != len(logits):
            raise ShapeMismatch(
                f"X has {len(logits)} rows and y has {len(targets)} labels; as many of one as of the "
                "other were expected. Pass the rows and labels the module was trained on."
            )
        return classes, targets, clean_weights(self.sample_weight, len(targets))

    def penalties(self, names: list[str], weights: NDArray[Any]) -> dict[str, float]:
        """Return ρ by the parameter's name."""
        return self.decay.penalties(self.module, names, float(weights.sum()))


def _of_optimizer(module: Any, names: list[str], optimizer: Any) -> dict[str, float]:
    import torch

    by_id: dict[int, float] = {}
    for group in optimizer.param_groups:
        decoupled = isinstance(optimizer, torch.optim.AdamW) or group.get("decoupled_weight_decay")
        if decoupled and group.get("weight_decay"):
            raise Unsupported(
                f"{type(optimizer).__name__} shrinks weights beside the loss (decoupled weight "
                "decay), which is the penalty of no objective; Adam or SGD with weight_decay was "
                "expected. Pass weight_decay= as a number, and polish=True to move the module to "
                "the optimum it has with that penalty."
            )
        if "weight_decay" not in group:
            raise Unsupported(
                f"{type(optimizer).__name__} has no weight_decay; an optimizer with one was "
                "expected. Pass weight_decay= as a number: the penalty you added to the loss."
            )
        by_id |= {id(p): float(group["weight_decay"]) for p in group["params"]}
    parameters = dict(module.named_parameters())
    unknown = [name for name in names if id(parameters[name]) not in by_id]
    if unknown:
        raise BadParameter(
            f"The optimizer does not hold the parameter {unknown[0]!r} of the module; all that may "
            "move were expected. Pass the optimizer that trained this module, or layers= with "
            "those that it trained."
        )
    return {name: by_id[id(parameters[name])] for name in names}
