"""Figures of experiments, in the look of all figures."""

from goalward.lab.plots.panels import approximation_panel, curve_figure, curve_panel

__all__ = ["approximation_panel", "curve_figure", "curve_panel"]
