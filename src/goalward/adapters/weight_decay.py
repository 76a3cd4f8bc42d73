"""The penalty a torch optimiser trained with, as the ρ of our objective."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from goalward.errors import BadParameter, Unsupported

__all__ = ["penalties"]


def penalties(
    module: Any,
    names: list[str],
    *,
    weight_decay: float | Mapping[str, float] | None,
    optimizer: Any,
    loss_reduction: str,
    total_weight: float,
) -> dict[str, float]:
    """Return ρ for each named parameter, in sum form.

    torch minimises loss + (decay/2)‖θ‖². With the mean of the rows' losses that is 1/n of
    our F with ρ = n · decay; with their sum, ρ = decay. n is what it is now: a row labelled
    later is added at this ρ, as it is at fixed C.
    """
    if loss_reduction not in ("mean", "sum"):
        raise BadParameter(
            f"loss_reduction={loss_reduction!r}; 'mean' or 'sum' was expected, as in the loss the "
            "module was trained with (CrossEntropyLoss has 'mean')."
        )
    if (weight_decay is None) == (optimizer is None):
        raise BadParameter(
            f"weight_decay={weight_decay!r} and optimizer={type(optimizer).__name__} came; exactly "
            "one of them was expected. Pass the optimizer the module was trained with, or the "
            "weight decay as a number."
        )
    if optimizer is not None:
        found = _of_optimizer(module, names, optimizer)
    elif isinstance(weight_decay, Mapping):
        found = {name: float(weight_decay.get(name, 0.0)) for name in names}
    else:
        found = dict.fromkeys(names, float(weight_decay))  # type: ignore[arg-type]
    if any(not 0.0 <= decay < float("inf") for decay in found.values()):
        raise BadParameter(
            f"weight decays {sorted(set(found.values()))} came; finite numbers of 0 or more were "
            "expected. Use 1e-3, say."
        )
    factor = total_weight if loss_reduction == "mean" else 1.0
    return {name: factor * decay for name, decay in found.items()}


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
