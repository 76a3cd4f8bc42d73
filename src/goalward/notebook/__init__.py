"""Labelling inside a notebook."""

from goalward.notebook.widget import Widget

__all__ = ["Widget"]
