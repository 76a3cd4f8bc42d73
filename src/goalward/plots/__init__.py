"""Figures: one look for all of them."""

from goalward.core.extras import needing

with needing("A figure"):
    from goalward.plots import paper
    from goalward.plots.figures import approximation_panel, curve_panel
    from goalward.plots.style import colour, figure, save

__all__ = [
    "approximation_panel",
    "colour",
    "curve_panel",
    "figure",
    "paper",
    "save",
]
