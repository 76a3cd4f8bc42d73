"""How parameters move logits."""

from typing import TypeAlias

from goalward.models.linear import Linear
from goalward.models.network import Network
from goalward.models.refitted import Refitted

__all__ = ["Linear", "Model", "Network", "Refitted"]

Model: TypeAlias = Linear | Network | Refitted
"""Anything with logits."""
