"""Utilities -> b rows."""

from goalward.selection.rule import Rule, Selector, Shortlist
from goalward.selection.sequential import Sequential
from goalward.selection.top import Stochastic, Top

__all__ = ["Rule", "Selector", "Sequential", "Shortlist", "Stochastic", "Top"]
