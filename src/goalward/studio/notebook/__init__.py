"""Labelling inside a notebook."""

from goalward.studio.notebook.widget import Widget, annotate

__all__ = ["Widget", "annotate"]
