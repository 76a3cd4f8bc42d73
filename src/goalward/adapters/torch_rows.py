"""Raw rows on their way into a torch module: tensors, blocks, and features in front of its head."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from hashlib import blake2b
from math import prod
from typing import Any

import numpy as np

from goalward.core.arrays import to_numpy
from goalward.errors import Unsupported

__all__ = ["Features", "evaluated", "flat_rows", "one_tensor"]

CACHE = 512 * 2**20
"""Bytes of features kept: goal rows and pools are asked for again in every round."""


def one_tensor(inputs: Callable[[Any], Any] | None, reference: Any, X: Any) -> Any:
    """Return raw rows as the tensor that a module takes, on the device of `reference`."""
    given = X if inputs is None else inputs(X)
    if isinstance(given, (Mapping, tuple)):
        raise Unsupported(
            f"A row is a {type(given).__name__} of tensors; one tensor was expected where layers "
            "below the head may move. Use layers='last', which takes any input."
        )
    return _tensor(given, reference.device)


def flat_rows(inputs: Callable[[Any], Any] | None, reference: Any, X: Any) -> Any:
    """Return rows as flat numbers, (n, numbers), which a network gives their shape back."""
    rows = one_tensor(inputs, reference, X)
    return rows.reshape(rows.shape[0], prod(rows.shape[1:])).to(reference.dtype)


class Features:
    """What stands in front of a head: computed in blocks, without gradients, and kept.

    Blocks are recognised by their content, so the same rows cost one pass however often they
    come; the least used are forgotten beyond 512 MB.
    """

    def __init__(
        self, module: Any, head: Any, inputs: Callable[[Any], Any] | None, block: int
    ) -> None:
        self._module, self._head, self._inputs, self._block = module, head, inputs, block
        self._kept: OrderedDict[bytes, Any] = OrderedDict()
        self.passes = 0

    def __call__(self, X: Any) -> Any:
        """Return (n, features)."""
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
        """Return raw rows as the module takes them."""
        device, dtype = self._head.weight.device, self._head.weight.dtype
        given = rows if self._inputs is None else self._inputs(rows)
        if isinstance(given, Mapping):  # a dict, or what a tokenizer returns
            return {name: value.to(device) for name, value in given.items()}
        if isinstance(given, tuple):
            return tuple(value.to(device) for value in given)
        given = _tensor(given, device)
        return given.to(dtype) if given.is_floating_point() else given


def evaluated(module: Any, head: Any, given: Any) -> tuple[Any, Any]:
    """Return what goes into the head, and the logits that come out of the module."""
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
        caught = [_at_one_token(head, caught[0], logits)]
    if len(caught) != 1 or caught[0].ndim != 2:
        raise Unsupported(
            f"The head was used {len(caught)} times in one pass, on "
            f"{[tuple(c.shape) for c in caught]}; once, on (rows, features), was expected. Pass "
            "layers='all', or a list of the modules that may move."
        )
    return caught[0], logits


def _at_one_token(head: Any, features: Any, logits: Any) -> Any:
    """Return the features of the token whose logits are the row's: the last one, in decoders."""
    import torch

    with torch.no_grad():
        gaps = (head(features) - logits[:, None]).abs().amax(dim=2)
    return features[torch.arange(len(features), device=features.device), gaps.argmin(dim=1)]


def _tensor(given: Any, device: Any) -> Any:
    """Return numbers of any library as a tensor on a device."""
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
