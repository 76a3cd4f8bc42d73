"""What the package promises by its names."""

import csv
import importlib
import pkgutil
import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import goalward
from goalward.errors import MissingExtra
from tests.conftest import need, some_heavy

ROOT = Path(__file__).parents[1]
MODULES = sorted(
    name
    for _, name, _ in pkgutil.walk_packages(goalward.__path__, "goalward.")
    if not name.endswith("__main__")
)
LARGE = [
    name for name in MODULES if name.endswith((".skactiveml", ".torch", ".notebook", ".widget"))
]
"""Modules that need a large package."""
EVERY = some_heavy(MODULES, LARGE)


def loaded(name):
    """Return a module; skip one whose optional package is missing, unless all are required."""
    try:
        return importlib.import_module(name)
    except MissingExtra as error:
        need(str(error).split()[0].replace("scikit-activeml", "skactiveml"))
        raise


@pytest.mark.parametrize("name", EVERY)
def test_all_is_complete(name):
    """Packages list what is public; the linter checks the order."""
    module = loaded(name)
    assert hasattr(module, "__all__") or not hasattr(module, "__path__")
    for word in getattr(module, "__all__", ()):
        assert hasattr(module, word), f"{name}.{word} is listed and missing"


@pytest.mark.parametrize("name", EVERY)
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


def test_what_versions_cover_is_listed():
    """A name that goes breaks a promise; a new one is promised: `python scripts/covered.py`."""
    script = runpy.run_path(str(ROOT / "scripts/covered.py"), run_name="read")
    with script["PAGE"].open(newline="", encoding="utf-8") as file:
        assert list(csv.reader(file)) == [["what", "covered"], *map(list, script["covered"]())]


def test_every_dependency_has_its_reasons():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = {"base": project["dependencies"], **project["optional-dependencies"]}
    needed = {}
    for extra, packages in extras.items():
        for package in packages:
            if (name := re.match(r"[\w-]+", package)[0]) != "goalward":
                needed.setdefault(name, set()).add(extra)
    with (ROOT / "docs/dependencies.csv").open(newline="", encoding="utf-8") as file:
        listed = {line["package"]: line for line in csv.DictReader(file)}
    assert {name: set(line["extra"].split(", ")) for name, line in listed.items()} == needed
    assert all(line["why"] and line["who keeps it"] for line in listed.values())
