"""Utilities -> b rows."""

from goalward.selection.certain import Certain
from goalward.selection.rule import Rule, Selector, Shortlist
from goalward.selection.sequential import Sequential
from goalward.selection.top import Stochastic, Top

__all__ = ["Certain", "Rule", "Selector", "Sequential", "Shortlist", "Stochastic", "Top"]
