"""Other libraries at the door."""

from goalward.adapters.sklearn import from_sklearn

__all__ = ["from_sklearn"]
