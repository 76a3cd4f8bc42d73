"""Scores of the same (row, label) pairs by goalward and by pyDVL's direct influence.

pyDVL needs an older NumPy, so each side runs in an environment of its own, in turns:
`make bench-pydvl` builds the second one and runs this file. Times are without imports.
"""

import argparse
import json
import logging
import statistics
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from time import perf_counter

import numpy as np

CASES = {"rt": (50, 9_586, 25), "letter": (200, 14_948, 100)}
"""Labels, rows of the pool that both score, and how many times faster we should be."""
PEERS = {"plain": "influences(...).sum()", "summed": "factors summed first"}
"""Ways of pyDVL: as its documentation shows, the influences of all dev rows on all pairs, added up;
or the dev rows' factors added up first, which is the least work it can be asked to do."""


def prepare(name: str, path: Path) -> None:
    """Write the problem, with the model that both sides use: no intercept, penalty 1/C."""
    import goalward as gw
    from race import letter, rt

    n, rows, _ = CASES[name]
    work = (rt if name == "rt" else letter)(n, n_pool=rows)
    fitted = gw.Logistic(C=work.our_C, fit_intercept=False, tol=1e-12).fit(work.X, work.y)
    arrays = {key: np.asarray(value) for key, value in work._asdict().items() if key != "name"}
    np.savez(path, **arrays, params=fitted.params, our_C=work.our_C)


def ours(data):
    """Return what scores all pairs: one solve, one product."""
    import goalward as gw

    gw.scale.accelerate()
    learner = gw.Logistic(C=float(data["our_C"]), fit_intercept=False, tol=1e-12)
    fitted = learner.fit(data["X"], data["y"])
    goal = gw.goals.DevLoss(data["X_dev"], data["y_dev"])
    utility = gw.utility.FirstOrder(solver=gw.solvers.Auto(tol=1e-12))
    return lambda: utility(fitted, goal, data["pool"])


def theirs(data, *, summed: bool):
    """Return what gives the direct influence of every pair on the summed dev loss."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    import torch
    from pydvl.influence.torch import DirectInfluence

    torch.set_num_threads(1)
    n, K = len(data["y"]), data["params"].shape[1]
    model = torch.nn.Linear(data["X"].shape[1], K, bias=False, dtype=torch.float64)
    with torch.no_grad():
        model.weight.copy_(torch.as_tensor(data["params"].T))
    X, y, X_dev, y_dev = (torch.as_tensor(data[key]) for key in ("X", "y", "X_dev", "y_dev"))
    pairs = torch.as_tensor(np.repeat(data["pool"], K, axis=0))
    labels = torch.arange(K).repeat(len(data["pool"]))
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X, y), batch_size=n)
    loss, penalty = torch.nn.functional.cross_entropy, 1.0 / (n * float(data["our_C"]))
    blocks = [slice(i, i + 4096) for i in range(0, len(pairs), 4096)]

    def scores():
        # The mean loss with a penalty of 1/(nC).
        influence = DirectInfluence(model, loss, regularization=penalty).fit(loader)
        if summed:
            factors = influence.influence_factors(X_dev, y_dev).sum(dim=0, keepdim=True)
            score = lambda *pair: influence.influences_from_factors(factors, *pair)
        else:
            score = lambda *pair: influence.influences(X_dev, y_dev, *pair).sum(0, keepdim=True)
        parts = [score(pairs[block], labels[block]) for block in blocks]
        return (torch.cat(parts, dim=1)[0] / n).reshape(-1, K).numpy()

    return scores


def run_side(side: str, path: Path) -> None:
    """Time one side after a warm-up, save its scores, and print the seconds of the best repeat."""
    from threadpoolctl import threadpool_limits

    data, seconds = np.load(path), []
    with threadpool_limits(limits=1):
        scores = ours(data) if side == "ours" else theirs(data, summed=side == "summed")
        scores()
        for _ in range(1 if side == "plain" else 3):
            began = perf_counter()
            result = scores()
            seconds.append(perf_counter() - began)
    np.save(path.with_suffix(f".{side}.npy"), result)
    print(json.dumps(min(seconds)))


def compare(name: str, peer: str, repeats: int) -> None:
    """Run both sides in turns, and print how many times faster ours is."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.npz"
        prepare(name, path)
        ratios: dict[str, list[float]] = {side: [] for side in PEERS}
        for _ in range(repeats):
            took = {}
            for side in ("ours", *PEERS):
                python = sys.executable if side == "ours" else peer
                command = [python, __file__, "--side", side, "--data", str(path)]
                done = subprocess.run(command, check=True, capture_output=True, text=True)
                took[side] = json.loads(done.stdout.splitlines()[-1])
            for side in PEERS:
                ratios[side].append(took[side] / took["ours"])
        mine = np.load(path.with_suffix(".ours.npy"))
        for side, how in PEERS.items():
            other, times = np.load(path.with_suffix(f".{side}.npy")), ratios[side]
            # Their sign is that of the loss.
            off = min(np.abs(mine - other).max(), np.abs(mine + other).max()) / np.abs(mine).max()
            print(
                f"{name}, {how}: {mine.size:,} pairs, {statistics.median(times):.0f} times faster "
                f"({min(times):.0f} to {max(times):.0f}; target {CASES[name][2]}), equal to {off:.0e}"
            )


def main() -> None:
    """Compare, or run one side in the environment that has it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", default=sys.executable, help="Python that has pyDVL")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--side", choices=["ours", *PEERS], help=argparse.SUPPRESS)
    parser.add_argument("--data", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        run_side(options.side, options.data)
        return
    for name in CASES:
        print(f"{name}: running {options.repeats} turns", file=sys.stderr)
        compare(name, options.peer, options.repeats)


if __name__ == "__main__":
    main()
