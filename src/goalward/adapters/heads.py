"""Networks by their head: a logistic regression of what a torch module computes below it."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from goalward.errors import BadParameter
from goalward.models import Fitted, Labelled
from goalward.strategies.reference import reference_rows

__all__ = ["from_head", "network_in"]


def network_in(model: Any) -> Any:
    """Return the torch module that came, alone or in a `pipeline` of transformers; None of others."""
    inner = getattr(model, "model", model)
    return inner if hasattr(inner, "named_modules") and hasattr(inner, "forward") else None


def from_head(
    model: Any, X: Any, y: list[Any], X_pool: Any, classes: Sequence[Hashable], weights: Any
) -> Fitted:
    """Return the head of a classifier, fitted to labels on the features in front of it, with C = 1.

    The module is copied and stays as it is below the head. A pipeline of transformers brings its
    tokenizer or image processor along; rows of a bare module are what it takes.
    """
    from goalward.adapters.torch import from_torch

    network = network_in(model)
    names = _names(network, y, classes)
    given = (X, y, weights) if y else (reference_rows(X_pool)[:1], names[:1], None)
    fitted = from_torch(
        network,
        *given,
        weight_decay=1.0,
        loss_reduction="sum",
        classes=names,
        inputs=_inputs(model),
        polish=True,
        double=False,
    )
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
            f"The labels {sorted(set(map(str, y)))[:5]} came, and {type(network).__name__} says "
            f"{', '.join(map(str, named[:5])) or 'nothing'} of its logits; classes in their order were "
            "expected. Pass classes=[...], or set config.id2label."
        )
    return list(range(len(named))) if named else list(range(int(max(y, default=1)) + 1))


def _inputs(model: Any) -> Any:
    """Return how a pipeline of transformers makes inputs of raw rows."""
    tokenizer, images = (getattr(model, n, None) for n in ("tokenizer", "image_processor"))
    if tokenizer is not None:
        options = {"padding": True, "truncation": True, "return_tensors": "pt"}
        return lambda rows: tokenizer([str(text) for text in rows], **options)
    return None if images is None else lambda rows: images(list(rows), return_tensors="pt")
