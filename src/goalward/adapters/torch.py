"""A trained torch classifier as a goalward model: its head alone, or all that may move."""

from __future__ import annotations

import copy
import warnings
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalward.core.arguments import needing
from goalward.core.arrays import to_numpy
from goalward.core.draws import reference_rows
from goalward.core.labels import as_classes, clean_weights, encode
from goalward.core.rows import Labelled, clean_rows
from goalward.errors import BadParameter, LooseFit, NotConverged, ShapeMismatch, Unsupported
from goalward.models.fitted import Fitted
from goalward.models.linear import LinearModel
from goalward.models.network import LOOSE, TIGHT, Network, inspected

# Raw rows on their way into a torch module: tensors, blocks, and features in front of its head.


CACHE = 512 * 2**20  # bytes of features kept from round to round


def one_tensor(inputs: Callable[[Any], Any] | None, reference: Any, X: Any) -> Any:
    """Return raw rows as the tensor that a module takes, on the device of `reference`."""
    given = X if inputs is None else inputs(X)
    if isinstance(given, (Mapping, tuple)):
        raise Unsupported(
            f"Rows must be one tensor where layers below the head may move, got a {type(given).__name__} "
            "of tensors. Use layers='last', which takes any input."
        )
    return _tensor(given, reference.device)


def flat_rows(inputs: Callable[[Any], Any] | None, reference: Any, X: Any) -> Any:
    """Return rows as flat numbers, (n, numbers), which a network gives their shape back."""
    rows = one_tensor(inputs, reference, X)
    return rows.reshape(rows.shape[0], prod(rows.shape[1:])).to(reference.dtype)


class Features:
    """The features before a head, computed in blocks without gradients; up to 512 MB are cached."""

    def __init__(
        self, module: Any, head: Any, inputs: Callable[[Any], Any] | None, block: int
    ) -> None:
        self._module, self._head, self._inputs, self._block = module, head, inputs, block
        self._kept: OrderedDict[bytes, Any] = OrderedDict()
        self.passes = 0

    def __call__(self, X: Any) -> Any:
        import torch

        rows = X if hasattr(X, "shape") or isinstance(X, list) else list(X)
        at = rows.iloc if hasattr(rows, "iloc") else rows
        starts = range(0, len(rows), self._block)
        return torch.cat([self._part(at[first : first + self._block]) for first in starts])

    def _part(self, rows: Any) -> Any:
        key = _digest(rows)
        if key is not None and key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        features, _ = evaluated(self._module, self._head, self.given(rows))
        self.passes += 1
        if key is not None:
            self._kept[key] = features
            while sum(f.nelement() * f.element_size() for f in self._kept.values()) > CACHE:
                self._kept.popitem(last=False)
        return features

    def given(self, rows: Any) -> Any:
        device, dtype = self._head.weight.device, self._head.weight.dtype
        given = rows if self._inputs is None else self._inputs(rows)
        if isinstance(given, Mapping):  # a dict, or what a tokenizer returns
            return {name: value.to(device) for name, value in given.items()}
        if isinstance(given, tuple):
            return tuple(value.to(device) for value in given)
        given = _tensor(given, device)
        return given.to(dtype) if given.is_floating_point() else given


def evaluated(module: Any, head: Any, given: Any) -> tuple[Any, Any]:
    """Return the input of the head, and the logits of the module."""
    import torch

    caught: list[Any] = []
    hook = head.register_forward_pre_hook(lambda _, inputs: caught.append(inputs[0].detach()))
    try:
        with torch.no_grad():
            if isinstance(given, dict):
                output = module(**given)
            else:
                output = module(*given) if isinstance(given, tuple) else module(given)
    finally:
        hook.remove()
    # What models of Hugging Face return holds more than logits.
    logits = getattr(output, "logits", output)
    if len(caught) == 1 and caught[0].ndim == 3 and logits.ndim == 2:
        # The features of the token whose logits are the row's: the last one, in decoders.
        (tokens,) = caught
        with torch.no_grad():
            gaps = (head(tokens) - logits[:, None]).abs().amax(dim=2)
        caught = [tokens[torch.arange(len(tokens), device=tokens.device), gaps.argmin(dim=1)]]
    if len(caught) != 1 or caught[0].ndim != 2:
        raise Unsupported(
            "The head must be used once in a pass, on (rows, features), got inputs of shape "
            f"{[tuple(c.shape) for c in caught]}. Pass layers='all', or a list of the modules that may move."
        )
    return caught[0], logits


def _tensor(given: Any, device: Any) -> Any:
    import torch

    if not isinstance(given, torch.Tensor):
        given = torch.as_tensor(np.ascontiguousarray(to_numpy(given)))
    return given.detach().to(device)


def _digest(rows: Any) -> bytes | None:
    """Return a digest of the rows' content; None for rows that are no plain numbers or texts."""
    plain = to_numpy(rows) if hasattr(rows, "shape") else np.asarray(rows)
    if plain.dtype.hasobject:
        return None
    digest = blake2b(np.ascontiguousarray(plain).tobytes(), digest_size=16)
    digest.update(repr((plain.shape, plain.dtype)).encode())
    return digest.digest()


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
    classes: Sequence[Hashable] | None = None,
    inputs: Callable[[Any], Any] | None = None,
    polish: bool = False,
    double: bool = True,
    block: int = 1024,
) -> Fitted:
    """Return a trained `nn.Module` that ends in logits as a `Fitted`, with the rows it was trained on.

    A copy in evaluation mode is used; it must be at a minimum of cross-entropy plus weight decay in that
    mode. Arrays are tensors on the module's device; suggestions are NumPy.

    Parameters
    ----------
    layers
        "last": the head, an `nn.Linear`, a linear model with every utility. "all", or a list of
        submodules: Gauss-Newton curvature, with `FirstOrder` and `Retrain` only.
    weight_decay, optimizer, loss_reduction
        The weight decay of training (a number, or name -> number), or the optimizer to read it from; "mean"
        (torch's default, ρ = n · decay) or "sum".
    damping, classes
        Added to the curvature of a network; the classes in the order of the logits, 0 to K - 1 by default.
    inputs
        Raw rows -> the module's input: a tensor, or with layers="last" a tuple or dict.
    polish, double, block
        Move the parameters to the minimum nearby first; compute in double precision, else solves stop at
        1e-4; rows in one pass through the module.

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
            f"module must be a torch.nn.Module, got {type(module).__name__}. Use from_sklearn or "
            "from_classifier for estimators of scikit-learn."
        )
    if not 0.0 <= damping < float("inf"):
        raise BadParameter(f"damping must be finite and at least 0, got {damping!r}. Use 0.0.")
    if loss_reduction not in ("mean", "sum"):
        raise BadParameter(
            f"loss_reduction must be 'mean' or 'sum', got {loss_reduction!r}. Use that of the training "
            "loss: CrossEntropyLoss has 'mean'."
        )
    own = copy.deepcopy(module).eval().requires_grad_(False)
    own = own.double() if double else own
    last = isinstance(layers, str) and layers == "last"
    if last:
        model, transform, params, sizes = _head(own, X, inputs, block)
    else:
        options = {"block": block, "damping": float(damping)}
        names = _moving(module, layers)
        model, transform, params, sizes = _network(own, names, X, inputs, options)
    decays = _decays(module, list(sizes), weight_decay, optimizer)
    rows = clean_rows(transform(X), "X").to(params.dtype)
    logits = model.logits(params, rows)
    labels, targets, weights = _labels(logits, y, classes, sample_weight)
    # torch minimises loss + (decay/2)‖θ‖²: with the mean loss, 1/n of our F with ρ = n · decay. A row
    # labelled later is added at this ρ.
    total = float(weights.sum()) if loss_reduction == "mean" else 1.0
    rho = total * decays
    fitted = Fitted(
        params,
        Labelled(rows, params.new_tensor(targets), params.new_tensor(weights)),
        params.new_tensor(np.repeat(rho, list(sizes.values()))),
        labels,
        model=model,
        C=1.0 / float(rho[0]) if last and rho[0] > 0.0 else None,
        transform=transform,
    )
    if last:
        return _checked_head(fitted, polish)
    return inspected(fitted.polished() if polish else fitted)


def _moving(module: Any, layers: Any) -> list[str]:
    if isinstance(layers, str):
        if layers != "all":
            raise BadParameter(
                f"layers must be 'last', 'all' or a list of submodules, got layers={layers!r}."
            )
        return [name for name, _ in module.named_parameters()]
    chosen = {id(p) for layer in layers for p in layer.parameters()}
    names = [name for name, p in module.named_parameters() if id(p) in chosen]
    if not names:
        raise BadParameter(
            "layers must be submodules of the module, got none of its parameters. Pass [net[2], net[4]], say."
        )
    return names


Parts = tuple[Any, Any, Any, dict[str, int]]  # model, transform, parameters, rows of each name


def _network(own: Any, names: list[str], X: Any, inputs: Any, options: dict[str, Any]) -> Parts:
    import torch

    moving = {name: p for name, p in own.named_parameters() if name in names}
    flat = torch.cat([p.reshape(-1) for p in moving.values()])[:, None]
    example = one_tensor(inputs, flat, X)
    dtype = flat.dtype if example.is_floating_point() else example.dtype
    shapes = tuple(tuple(p.shape) for p in moving.values())
    model = Network(own, tuple(moving), shapes, tuple(example.shape[1:]), dtype, **options)
    sizes = {name: p.numel() for name, p in moving.items()}
    return model, partial(flat_rows, inputs, flat), flat, sizes


def _head(own: Any, X: Any, inputs: Any, block: int) -> Parts:
    import torch

    linear = [(n, m) for n, m in own.named_modules() if isinstance(m, torch.nn.Linear)]
    if not linear:
        raise Unsupported("The module has no nn.Linear that could be its head. Pass layers='all'.")
    name, head = linear[-1]
    transform = Features(own, head, inputs, block)
    features, logits = evaluated(own, head, transform.given(X[:8]))
    gap = (head(features) - logits) if logits.shape == head(features).shape else None
    # A log-softmax behind the head takes a constant off each row: the same model.
    if gap is None or not bool((gap - gap[:, :1]).abs().max() <= 1e-4 * (1 + logits.abs().max())):
        raise Unsupported(
            "Logits must be the outputs of the last nn.Linear, got something else from the module. Pass "
            "layers='all', or a list of the modules that may move."
        )
    prefix = f"{name}." if name else ""
    params, sizes = head.weight.T, {f"{prefix}weight": head.in_features}
    if head.bias is not None:
        params, sizes[f"{prefix}bias"] = torch.cat([params, head.bias[None]]), 1
    # Labelled rows and the head are in double precision, whatever the module is in.
    model = LinearModel(intercept=head.bias is not None)
    return model, transform, params.double(), sizes


def _checked_head(fitted: Fitted, polish: bool) -> Fitted:
    if float(fitted.penalty[0]) <= 0.0:
        raise Unsupported(
            "The head must have positive weight decay, got 0, so that its curvature may vanish. Pass "
            "weight_decay=1e-4, say, and polish=True."
        )
    if polish:
        return fitted.polished()
    gradient = fitted.flatness()
    if not gradient <= LOOSE:
        raise NotConverged(
            f"The head must be at its optimum in evaluation mode, with a relative gradient of at most "
            f"{LOOSE:g}, got {gradient:.1e}. Train it longer, check weight_decay and loss_reduction, or pass "
            "polish=True to move the head to its optimum."
        )
    if gradient > TIGHT:
        warnings.warn(
            f"The head is not quite at its optimum: its relative gradient must be at most {TIGHT:g}, got "
            f"{gradient:.1e}. Utilities assume an optimum: pass polish=True.",
            LooseFit,
            stacklevel=3,
        )
    return replace(fitted, gradient=gradient)


def _labels(
    logits: Any, y: Any, classes: Sequence[Hashable] | None, sample_weight: Any
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    if logits.ndim != 2 or logits.shape[1] < 2:
        raise Unsupported(
            f"The module must return (rows, K) logits of K >= 2 classes, got {tuple(logits.shape)}. Give it "
            "one output for each class."
        )
    n, K = map(int, logits.shape)
    known = as_classes(range(K) if classes is None else classes)
    if len(known) != K:
        raise ShapeMismatch(
            f"classes must name the {K} logits of the module in their order, got {len(known)} names."
        )
    targets = encode(y, known)
    if len(targets) != n:
        raise ShapeMismatch(
            f"y must have {n} labels, one for each row of X, got {len(targets)}. Pass the rows and labels "
            "the module was trained on."
        )
    return known, targets, clean_weights(sample_weight, n)


def _decays(
    module: Any, names: list[str], decay: float | Mapping[str, float] | None, optimizer: Any
) -> NDArray[Any]:
    if (decay is None) == (optimizer is None):
        raise BadParameter(
            "Pass exactly one of optimizer, the one the module was trained with, and weight_decay, a "
            f"number, got weight_decay={decay!r} and optimizer={type(optimizer).__name__}."
        )
    if optimizer is not None:
        decay = _of_optimizer(module, names, optimizer)
    named = decay if isinstance(decay, Mapping) else dict.fromkeys(names, decay)
    decays = np.array([named.get(name, 0.0) for name in names], dtype=np.float64)
    if not np.all((decays >= 0.0) & np.isfinite(decays)):
        raise BadParameter(
            f"weight_decay must be 0 or more, got {sorted(set(decays.tolist()))}. Use 1e-3, say."
        )
    return decays


def _of_optimizer(module: Any, names: list[str], optimizer: Any) -> dict[str, float]:
    import torch

    name = type(optimizer).__name__
    by_id: dict[int, float] = {}
    for group in optimizer.param_groups:
        decoupled = isinstance(optimizer, torch.optim.AdamW) or group.get("decoupled_weight_decay")
        if decoupled and group.get("weight_decay"):
            raise Unsupported(
                f"optimizer must add weight decay to the loss, as Adam and SGD do, got {name}: its decoupled "
                "weight decay is the penalty of no objective. Pass weight_decay= as a number, and "
                "polish=True to move the module to the optimum it has with that penalty."
            )
        if "weight_decay" not in group:
            raise Unsupported(
                f"{name} has no weight_decay. Pass weight_decay= as a number: the penalty you added to the "
                "loss."
            )
        by_id |= {id(p): float(group["weight_decay"]) for p in group["params"]}
    parameters = dict(module.named_parameters())
    unknown = [name for name in names if id(parameters[name]) not in by_id]
    if unknown:
        raise BadParameter(
            f"The optimizer does not hold the parameter {unknown[0]!r} of the module. Pass the one that "
            "trained this module, or layers= with those that it trained."
        )
    return {name: by_id[id(parameters[name])] for name in names}


# Networks by their head: a logistic regression on the features below it.


def network_in(model: Any) -> Any:
    """Return a torch module, given alone or in a `pipeline` of transformers; None for others."""
    inner = getattr(model, "model", model)
    return inner if hasattr(inner, "named_modules") and hasattr(inner, "forward") else None


def from_head(
    model: Any, X: Any, y: list[Any], X_pool: Any, classes: Sequence[Hashable], weights: Any
) -> Fitted:
    """Return the head of a copied classifier or transformers pipeline, fitted to labels with C = 1."""
    network = network_in(model)
    names = _names(network, y, classes)
    given = (X, y, weights) if y else (reference_rows(X_pool)[:1], names[:1], None)
    options = {"classes": names, "inputs": _inputs(model), "polish": True, "double": False}
    fitted = from_torch(network, *given, weight_decay=1.0, loss_reduction="sum", **options)
    if y:
        return fitted
    # The row was there to look at its features; nothing is known.
    known = fitted.labelled
    nothing = Labelled(known.X[:0], known.targets[:0], known.weights[:0])
    return replace(fitted, params=0.0 * fitted.params, labelled=nothing)


def _names(network: Any, y: list[Any], classes: Sequence[Hashable]) -> list[Any]:
    """Return the classes in the order of the logits: as named, as in its configuration, or 0, 1, ..."""
    if len(classes) > 0:
        return list(classes)
    known = getattr(getattr(network, "config", None), "id2label", None) or {}
    named = [known[i] for i in sorted(known)]
    if named and all(label in named for label in y):
        return named
    whole = all(isinstance(label, (int, np.integer)) for label in y)
    if not whole or (named and max(y, default=0) >= len(named)):
        raise BadParameter(
            f"Labels must be classes of {type(network).__name__} ({', '.join(map(str, named[:5])) or 'unnamed'}), "
            f"got {sorted(set(map(str, y)))[:5]}. Pass classes=[...] in the order of the logits, or set "
            "config.id2label."
        )
    return list(range(len(named))) if named else list(range(int(max(y, default=1)) + 1))


def _inputs(model: Any) -> Any:
    tokenizer, images = (getattr(model, n, None) for n in ("tokenizer", "image_processor"))
    if tokenizer is not None:
        options = {"padding": True, "truncation": True, "return_tensors": "pt"}
        return lambda rows: tokenizer([str(text) for text in rows], **options)
    return None if images is None else lambda rows: images(list(rows), return_tensors="pt")
