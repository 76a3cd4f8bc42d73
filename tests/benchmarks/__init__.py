"""What `python benchmarks/NAME.py` does, at tiny sizes."""

import typer
from typer.testing import CliRunner


def invoke(main, words):
    """Return what a benchmark prints for a line of arguments."""
    app = typer.Typer(add_completion=False)
    app.command()(main)
    done = CliRunner().invoke(app, words.split(), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout
