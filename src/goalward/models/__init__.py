"""How parameters move logits."""

from goalward.models.linear import Linear

__all__ = ["Linear"]
