"""Loops that NumPy and torch have no call for."""

__all__: list[str] = []
