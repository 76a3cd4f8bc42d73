"""Anything with logits."""

from typing import TypeAlias

from goalward.models.linear import Linear
from goalward.models.network import Network
from goalward.models.refitted import Refitted

__all__ = ["Model"]

Model: TypeAlias = Linear | Network | Refitted
