"""Figures: one look for all of them."""

from goalward.core.extras import needing

with needing("A figure"):
    from goalward.plots.style import colour, figure, quiet, save

__all__ = ["colour", "figure", "quiet", "save"]
