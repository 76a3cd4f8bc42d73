"""Shared fixtures; shapes in signatures are checked while testing."""

import os
from importlib import import_module
from importlib.util import find_spec

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from jaxtyping import install_import_hook

KERNELS = ["models", "goals", "solvers", "labels", "utility"]
with install_import_hook([f"goalward.{room}" for room in KERNELS], "beartype.beartype"):
    for room in KERNELS:
        import_module(f"goalward.{room}")

# How long an example takes says how busy the machine is, and nothing about the code.
settings.register_profile("steady", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("steady")

REQUIRED = os.environ.get("GOALWARD_REQUIRE_ALL") == "1"
"""Set in CI: an optional part that is missing is then a failure, not a skip."""


def need(module: str) -> None:
    """Skip where an optional library is missing, unless everything is required."""
    if find_spec(module) is not None:
        return
    if REQUIRED:
        pytest.fail(f"{module} is required here and not installed")
    pytest.skip(f"{module} is not installed", allow_module_level=True)


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


@pytest.fixture(params=["numpy", "torch", "array_api_strict"])
def to_xp(request):
    """Arrays of NumPy, PyTorch and array-api-strict, one after another."""
    need(request.param)
    return {"numpy": _numpy, "torch": _torch, "array_api_strict": _strict}[request.param]
