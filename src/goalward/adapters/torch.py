"""A trained torch classifier as a goalward model: its head alone, or all that may move."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from goalward.adapters.torch_rows import Features, Flat, evaluated
from goalward.adapters.torch_training import TorchTraining, WeightDecay
from goalward.core.extras import needing
from goalward.core.rows import clean_rows
from goalward.errors import BadParameter, LooseFit, NotConverged, Unsupported
from goalward.models import Fitted, Labelled, LinearModel, Network, inspected
from goalward.models.trust import LOOSE, TIGHT

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
    with needing("A torch module"):
        import torch
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
    training = TorchTraining(
        module,
        own.double() if double else own,
        X,
        y,
        sample_weight,
        classes,
        WeightDecay(weight_decay, optimizer, loss_reduction),
        inputs,
        block,
    )
    if isinstance(layers, str) and layers == "last":
        return _checked_head(_head(training), polish)
    names = _moving(module, layers)
    fitted = _network(training, names, damping=float(damping), exact=curvature == "exact")
    return inspected(fitted.polished() if polish else fitted)


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


def _network(training: TorchTraining, names: list[str], **options: Any) -> Fitted:
    import torch

    own = dict(training.own.named_parameters())
    flat = torch.cat([own[name].reshape(-1) for name in names])[:, None]
    transform = Flat(training.inputs, flat)
    example = transform.tensor(training.X)
    dtype = flat.dtype if example.is_floating_point() else example.dtype
    model = Network(
        training.own,
        tuple(names),
        tuple(tuple(own[name].shape) for name in names),
        tuple(example.shape[1:]),
        dtype,
        block=training.block,
        **options,
    )
    rows = clean_rows(transform(training.X), "X")
    classes, targets, weights = training.targets(model.logits(flat, rows))
    rho = training.penalties(names, weights)
    penalty = torch.cat([torch.full_like(own[name].reshape(-1), rho[name]) for name in names])
    labelled = Labelled(rows, flat.new_tensor(targets), flat.new_tensor(weights))
    return Fitted(flat, labelled, penalty, classes, model=model, transform=transform)


def _head(training: TorchTraining) -> Fitted:
    import torch

    own = training.own
    linear = [(n, m) for n, m in own.named_modules() if isinstance(m, torch.nn.Linear)]
    if not linear:
        raise Unsupported(
            "The module has no nn.Linear; one as its head was expected. Pass layers='all'."
        )
    name, head = linear[-1]
    transform = Features(own, head, training.inputs, training.block)
    features = transform(training.X)
    _refuse_other_heads(own, head, transform, training.X)
    classes, targets, weights = training.targets(head(features))
    prefix = f"{name}." if name else ""
    names = [f"{prefix}weight"] if head.bias is None else [f"{prefix}weight", f"{prefix}bias"]
    decay, *free = training.penalties(names, weights).values()
    # Labelled rows and the head are in double precision, whatever the module is in.
    rows = [head.weight.T] if head.bias is None else [head.weight.T, head.bias[None]]
    params = torch.cat(rows).double()
    penalty = params.new_tensor([decay] * head.in_features + free)
    return Fitted(
        params,
        Labelled(features.double(), params.new_tensor(targets), params.new_tensor(weights)),
        penalty,
        classes,
        model=LinearModel(intercept=head.bias is not None),
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
