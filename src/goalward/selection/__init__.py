"""Utilities -> b rows."""

from goalward.selection.top import Score, Selector, Top

__all__ = ["Score", "Selector", "Top"]
