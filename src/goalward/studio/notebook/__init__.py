"""Labelling inside a notebook."""

from goalward.studio.notebook.widget import Widget

__all__ = ["Widget"]
