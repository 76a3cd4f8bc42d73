"""What the package promises by its names."""

import importlib
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import goalward
from goalward.errors import MissingExtra
from tests.conftest import need

MODULES = sorted(
    name
    for _, name, _ in pkgutil.walk_packages(goalward.__path__, "goalward.")
    if not name.endswith("__main__")
)


def loaded(name):
    """Return a module; skip one whose optional package is missing, unless all are required."""
    try:
        return importlib.import_module(name)
    except MissingExtra as error:
        need(str(error).split()[0].replace("scikit-activeml", "skactiveml"))
        raise


@pytest.mark.parametrize("name", MODULES)
def test_all_is_complete(name):
    """Packages list what is public; the linter checks the order."""
    module = loaded(name)
    assert hasattr(module, "__all__") or not hasattr(module, "__path__")
    for word in getattr(module, "__all__", ()):
        assert hasattr(module, word), f"{name}.{word} is listed and missing"


@pytest.mark.parametrize("name", MODULES)
def test_every_module_says_what_it_is(name):
    assert (loaded(name).__doc__ or "").strip()


@pytest.mark.parametrize(
    "room", ["goals", "labels", "strategies.selectors", "solvers", "strategies", "utility"]
)
def test_every_public_class_has_an_example(room):
    module = importlib.import_module(f"goalward.{room}")
    for word in module.__all__:
        thing = getattr(module, word)
        configured = isinstance(thing, type) and hasattr(thing, "__dataclass_fields__")
        if configured and not word.startswith("_") and thing.__module__.startswith("goalward"):
            if word in {"Fidelity", "Solution", "Suggestion", "Scored", "Weighted"}:
                continue
            assert ">>>" in (thing.__doc__ or ""), f"{room}.{word} has no example"


def test_no_file_is_a_drawer():
    root = Path(goalward.__file__).parent
    for path in root.rglob("*.py"):
        assert path.stem not in {"utils", "helpers", "common", "misc"}
        lines = len(path.read_text(encoding="utf-8").splitlines())
        assert lines <= 600, f"{path.name} has {lines} lines: usually two ideas"


def test_experiments_are_there_without_being_paid_for():
    """`gw.lab` loads tables and figures only when it is used."""
    code = (
        "import sys, goalward as gw; assert not {'polars', 'sqlalchemy'} & set(sys.modules); "
        "assert gw.Study.open; assert 'Study' in dir(gw); "
        "assert callable(gw.lab.simulate); assert 'lab' in dir(gw)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError, match="no attribute 'labb'"):
        goalward.labb  # noqa: B018


def test_the_version_is_the_packages():
    assert re.match(r"\d+\.\d+\.\d+", goalward.__version__)
