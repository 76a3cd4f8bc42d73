"""On a real GPU: the same numbers as on the CPU. Skipped where there is none."""

import numpy as np
import pytest

import goalward as gw
from goalward.core.kernels import gpu
from goalward.labels import BestCase, Expected, Spread, WorstCase
from goalward.scale import open_pool, rank
from tests.conftest import need
from tests.scale.setting import TURNS

need("torch")
import torch  # noqa: E402

if not torch.cuda.is_available():
    pytest.skip("no CUDA device", allow_module_level=True)

OPERATORS = {"mean": Expected(), "min": WorstCase(), "max": BestCase(), "spread": Spread()}


def setting(K, d, n=300, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(max(n, 2 * K), d))
    y = np.arange(len(X)) % K
    fitted = gw.Logistic(C=0.1, tol=1e-6).fit(X, y)
    return fitted, gw.goals.DevLoss(X[:100], y[:100])


@pytest.mark.parametrize("statistic", OPERATORS)
@pytest.mark.parametrize(("K", "d"), [(2, 5), (2, 768), (2, 1500), (3, 7), (26, 16), (1000, 64)])
def test_kernels_give_the_scores_of_the_cpu_in_double_precision(K, d, statistic):
    fitted, goal = setting(K, d)
    direction = gw.utility.FirstOrder().prepare(fitted, goal)
    pool = np.random.default_rng(1).normal(size=(1003, d)).astype(np.float32)
    exact = direction.motion.reduced(pool.astype(np.float64), statistic)

    rows = torch.as_tensor(pool, device="cuda")
    there = type(direction.motion)(
        torch.as_tensor(direction.motion.both, device="cuda"),
        torch.as_tensor(direction.motion.constant, device="cuda"),
        K,
    )
    assert gpu.usable(rows)
    got = there.reduced(rows, statistic).double().cpu().numpy()

    # Single precision: sums of d products, relative to the largest score.
    assert np.abs(got - exact).max() <= 2e-5 * np.abs(exact).max()


@pytest.mark.parametrize("library", ["torch", "cupy"])
@pytest.mark.parametrize("K", [2, 4])
@pytest.mark.parametrize("utility", [gw.utility.FirstOrder(), gw.utility.ImplicitStep()])
def test_a_whole_query_on_the_gpu_picks_the_rows_of_the_cpu(library, K, utility):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(80, 10)), np.arange(80) % K
    pool, dev = rng.normal(size=(500, 10)), rng.normal(size=(60, 10))
    if library == "torch":
        moved = lambda a: torch.as_tensor(a, device="cuda")
    else:
        moved = pytest.importorskip("cupy").asarray
    here = gw.GoalOriented(gw.goals.DevLoss(dev, y[:60]), operator=Spread(), utility=utility)
    there = gw.GoalOriented(
        gw.goals.DevLoss(moved(dev), y[:60]), operator=Spread(), utility=utility
    )

    a = here.suggest(gw.Logistic().fit(X, y), pool, batch=20)
    b = there.suggest(gw.Logistic().fit(moved(X), y), moved(pool), batch=20)

    np.testing.assert_allclose(b.utility, a.utility, rtol=1e-7, atol=1e-10)
    assert a.rows.tolist() == b.rows.tolist()


@pytest.mark.parametrize("K", [2, 5])
def test_a_file_streamed_through_the_gpu_gives_the_rows_of_the_cpu(K, tmp_path):
    fitted, goal = setting(K, 12)
    rows = np.random.default_rng(1).normal(size=(30_011, 12)).astype(np.float32)
    np.save(tmp_path / "pool.npy", rows)
    pool = open_pool(tmp_path / "pool.npy")
    for kind in (pool, rows, torch.as_tensor(rows, device="cuda")):
        options = {"operator": Spread(), "batch": 20, "exclude": range(100)}
        a = rank(pool, fitted, goal, **options)
        b = rank(kind, fitted, goal, device="cuda", block=1000, **options)
        assert a.rows.tolist() == b.rows.tolist()
        np.testing.assert_allclose(b.utility, a.utility, rtol=1e-4)


@pytest.mark.parametrize("text", TURNS)
@pytest.mark.parametrize("K", [2, 5])
def test_turns_over_a_pool_on_the_gpu_pick_the_rows_of_the_cpu(K, text, tmp_path):
    fitted, _ = setting(K, 12)
    rows = np.random.default_rng(1).normal(size=(30_011, 12)).astype(np.float32)
    np.save(tmp_path / "pool.npy", rows)
    strategy = gw.recipe(text).build(pool=rows)
    want = strategy.suggest(fitted, rows, 10, exclude=range(100))
    for kind in (open_pool(tmp_path / "pool.npy"), rows, torch.as_tensor(rows, device="cuda")):
        got = rank(kind, fitted, strategy=strategy, exclude=range(100), device="cuda", block=1000)
        assert got.rows.tolist() == want.rows.tolist()


@pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS")  # torch's own, of its first call
@pytest.mark.parametrize("layers", ["last", "all"])
def test_a_network_on_the_gpu_gives_the_utilities_of_the_cpu(layers):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 6)), np.arange(60) % 3
    pool, dev = rng.normal(size=(40, 6)), rng.normal(size=(30, 6))
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3)
    ).double()
    found = []
    for device in ("cpu", "cuda"):
        here = lambda a, device=device: torch.as_tensor(a, device=device)
        fitted = gw.adapters.from_torch(
            net.to(device), here(X), y, layers=layers, weight_decay=0.05, polish=True
        )
        goal = gw.goals.DevLoss(here(dev), y[:30])
        found.append(gw.utility.FirstOrder()(fitted, goal, here(pool)))
    np.testing.assert_allclose(found[1].cpu().numpy(), found[0].numpy(), rtol=1e-5, atol=1e-7)
