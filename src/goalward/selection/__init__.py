"""Utilities -> b rows."""

from goalward.selection.score import Score, Selector
from goalward.selection.sequential import Sequential
from goalward.selection.stochastic import Stochastic
from goalward.selection.top import Top

__all__ = ["Score", "Selector", "Sequential", "Stochastic", "Top"]
