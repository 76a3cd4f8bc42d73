"""A trained torch classifier as a goalward model: its head alone, or all that may move."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import NDArray

from goalward.adapters.torch_rows import Features, Flat, evaluated
from goalward.adapters.weight_decay import penalties
from goalward.core.labels import as_classes, clean_weights, encode
from goalward.core.rows import clean_rows
from goalward.errors import (
    BadParameter,
    LooseFit,
    MissingExtra,
    NotConverged,
    ShapeMismatch,
    Unsupported,
)
from goalward.models import Fitted, Labelled, Linear, Network, inspected
from goalward.models.validity import LOOSE, TIGHT

__all__ = ["from_torch"]


def from_torch(
    module: Any,
    X: Any,
    y: Any,
    sample_weight: Any = None,
    *,
    layers: str | Sequence[Any] = "last",
    weight_decay: float | Mapping[str, float] | None = None,
    optimizer: Any = None,
    loss_reduction: str = "mean",
    damping: float = 0.0,
    curvature: str = "gauss-newton",
    classes: Sequence[Hashable] | None = None,
    inputs: Callable[[Any], Any] | None = None,
    polish: bool = False,
    double: bool = True,
    block: int = 1024,
) -> Fitted:
    """Return a trained `nn.Module` that ends in logits as a `Fitted`, with the rows it was trained on.

    The module is copied, put into evaluation mode (dropout off, batch norm with its running
    statistics) and checked to be at a minimum of cross-entropy plus weight decay *in that mode*.
    Arrays that come out are tensors on the module's device; suggestions are NumPy as always.

    Parameters
    ----------
    layers
        "last": the head, an `nn.Linear`, on the features in front of it. It is a linear model like
        any other here, with every utility. "all", or a list of submodules: these parameters
        move; utilities are `FirstOrder` and, as the truth, `Retrain` (Newton's method from the
        trained weights, one model after another).
    weight_decay, optimizer
        The weight decay the module was trained with (a number, or name -> number), or the
        optimizer to read it from, group by group.
    loss_reduction
        "mean" if the loss was the mean over rows (torch's default), so that ρ = n · decay; "sum".
    damping
        Added to the curvature of a network.
    curvature
        "gauss-newton", or "exact" for the Hessian itself: truer at a minimum, dearer by half.
    classes
        The classes in the order of the logits; by default 0 to K - 1.
    inputs
        Raw rows -> what the module takes: a tensor, or with layers="last" a tuple or dict.
    polish
        Move the parameters to the minimum nearby first.
    double
        Compute in double precision. False halves the memory; solves then stop at 1e-4.
    block
        Rows in one pass through the module.

    Examples
    --------
    >>> import goalward as gw, numpy as np, torch
    >>> _ = torch.manual_seed(0)
    >>> X, y = np.eye(4), np.array([0, 0, 1, 1])
    >>> net = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh(), torch.nn.Linear(3, 2))
    >>> fitted = gw.adapters.from_torch(net, X, y, layers="all", weight_decay=0.1, polish=True)
    >>> gw.utility.FirstOrder()(fitted, gw.goals.DevLoss(X, y), X).shape
    torch.Size([4, 2])
    """
    torch = _torch()
    if not isinstance(module, torch.nn.Module):
        raise Unsupported(
            f"{type(module).__name__} came; a torch.nn.Module was expected. Use from_sklearn or "
            "from_classifier for estimators of scikit-learn."
        )
    if curvature not in ("gauss-newton", "exact"):
        raise BadParameter(f"curvature={curvature!r}; 'gauss-newton' or 'exact' was expected.")
    if not 0.0 <= damping < float("inf"):
        raise BadParameter(f"damping={damping!r}; a finite number of 0 or more was expected.")
    own = copy.deepcopy(module).eval().requires_grad_(False)
    decay = {
        "weight_decay": weight_decay,
        "optimizer": optimizer,
        "loss_reduction": loss_reduction,
    }
    task = _Task(module, own.double() if double else own, y, sample_weight, classes, decay)
    if isinstance(layers, str) and layers == "last":
        fitted = _head(task, X, inputs, block)
        return _checked_head(fitted, polish)
    fitted = _network(
        task,
        X,
        inputs,
        _moving(module, layers),
        {"block": block, "damping": float(damping), "exact": curvature == "exact"},
    )
    return inspected(fitted.polished() if polish else fitted)


@dataclass(frozen=True)
class _Task:
    """What came, before it is known which layers move."""

    module: Any
    own: Any
    y: Any
    sample_weight: Any
    classes: Sequence[Hashable] | None
    decay: dict[str, Any]

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
        return penalties(self.module, names, **self.decay, total_weight=float(weights.sum()))


def _torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise MissingExtra(
            "torch is not installed, and a torch module came. Run `pip install goalward[torch]`."
        ) from error
    return torch


def _moving(module: Any, layers: Any) -> list[str]:
    """Return the names of the parameters that may move."""
    if isinstance(layers, str):
        if layers != "all":
            raise BadParameter(
                f"layers={layers!r}; 'last', 'all' or a list of submodules was expected."
            )
        return [name for name, _ in module.named_parameters()]
    chosen = {id(p) for layer in layers for p in layer.parameters()}
    names = [name for name, p in module.named_parameters() if id(p) in chosen]
    if not names:
        raise BadParameter(
            "layers names no parameter of the module; its submodules were expected. Pass "
            "[net[2], net[4]], say."
        )
    return names


def _network(
    task: _Task,
    X: Any,
    inputs: Callable[[Any], Any] | None,
    names: list[str],
    options: dict[str, Any],
) -> Fitted:
    import torch

    own = dict(task.own.named_parameters())
    flat = torch.cat([own[name].reshape(-1) for name in names])[:, None]
    transform = Flat(inputs, flat)
    example = transform.tensor(X)
    dtype = flat.dtype if example.is_floating_point() else example.dtype
    model = Network(
        task.own,
        tuple(names),
        tuple(tuple(own[name].shape) for name in names),
        tuple(example.shape[1:]),
        dtype,
        **options,
    )
    rows = clean_rows(transform(X), "X")
    classes, targets, weights = task.targets(model.logits(flat, rows))
    rho = task.penalties(names, weights)
    penalty = torch.cat([torch.full_like(own[name].reshape(-1), rho[name]) for name in names])
    labelled = Labelled(rows, flat.new_tensor(targets), flat.new_tensor(weights))
    return Fitted(flat, labelled, penalty, classes, model=model, transform=transform)


def _head(task: _Task, X: Any, inputs: Callable[[Any], Any] | None, block: int) -> Fitted:
    import torch

    linear = [(n, m) for n, m in task.own.named_modules() if isinstance(m, torch.nn.Linear)]
    if not linear:
        raise Unsupported(
            "The module has no nn.Linear; one as its head was expected. Pass layers='all'."
        )
    name, head = linear[-1]
    transform = Features(task.own, head, inputs, block)
    features = transform(X)
    _refuse_other_heads(task.own, head, transform, X)
    classes, targets, weights = task.targets(head(features))
    prefix = f"{name}." if name else ""
    biased = head.bias is not None
    rho = task.penalties([f"{prefix}weight"] + [f"{prefix}bias"] * biased, weights)
    params = torch.cat([head.weight.T, head.bias[None]]) if biased else head.weight.T.clone()
    penalty = params.new_full((params.shape[0],), rho[f"{prefix}weight"])
    if biased:
        penalty[-1] = rho[f"{prefix}bias"]
    decay = rho[f"{prefix}weight"]
    # Labelled rows are in double precision, whatever the module is in.
    wide = params.double()
    return Fitted(
        wide,
        Labelled(features.double(), wide.new_tensor(targets), wide.new_tensor(weights)),
        penalty.double(),
        classes,
        model=Linear(intercept=biased),
        C=1.0 / decay if decay > 0.0 else None,
        transform=transform,
    )


def _refuse_other_heads(own: Any, head: Any, transform: Features, X: Any) -> None:
    """Raise unless the module's logits are the head's, a constant per row apart."""
    some = X[:8]
    features, logits = evaluated(own, head, transform._given(some))
    gap = (head(features) - logits) if logits.shape == head(features).shape else None
    # A log-softmax behind the head takes a constant off each row: the same model.
    if gap is None or not bool((gap - gap[:, :1]).abs().max() <= 1e-4 * (1 + logits.abs().max())):
        raise Unsupported(
            "The module does something to the outputs of its last nn.Linear, or uses another "
            "head; logits straight from it were expected. Pass layers='all', or a list of the "
            "modules that may move."
        )


def _checked_head(fitted: Fitted, polish: bool) -> Fitted:
    if float(fitted.penalty[0]) <= 0.0:
        raise Unsupported(
            "The head was trained without weight decay, so its curvature may vanish; a positive one "
            "was expected. Pass weight_decay=1e-4, say, and polish=True."
        )
    if polish:
        return fitted.polished()
    gradient = fitted.flatness()
    if not gradient <= LOOSE:
        raise NotConverged(
            f"The head is not at its optimum: its relative gradient is {gradient:.1e} and {LOOSE:g} at "
            "most was expected, in evaluation mode. Train it longer, check weight_decay and "
            "loss_reduction, or pass polish=True to move the head to its optimum."
        )
    if gradient > TIGHT:
        warnings.warn(
            f"The head is not quite at its optimum: its relative gradient is {gradient:.1e} and "
            f"{TIGHT:g} was expected. Utilities assume an optimum: pass polish=True.",
            LooseFit,
            stacklevel=3,
        )
    return replace(fitted, gradient=gradient)
