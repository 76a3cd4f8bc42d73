"""`python -m goalward`."""

from goalward.cli import app

app()
