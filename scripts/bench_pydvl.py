"""Scores of the same (row, label) pairs by goalward and by pyDVL's direct influence.

pyDVL needs an older NumPy, so each side runs in an environment of its own, in turns:
`make bench-pydvl` builds the second one and runs this file. Times are without imports.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from time import perf_counter

import numpy as np

# Labels, and rows of the pool that both score.
CASES = {"rt": (50, 9_586), "letter": (200, 14_948)}


def prepare(name: str, folder: Path) -> None:
    """Write the problem, with the model that both sides use: no intercept, penalty 1/C."""
    import goalward as gw
    from goalward.lab.speed.workloads import letter, rt

    n, rows = CASES[name]
    setting = (rt if name == "rt" else letter)(n, n_pool=rows)
    learner = gw.Logistic(C=setting.our_C, fit_intercept=False, tol=1e-12)
    fitted = learner.fit(setting.X, setting.y)
    np.savez(
        folder / f"{name}.npz",
        **{key: np.asarray(value) for key, value in setting._asdict().items() if key != "name"},
        params=fitted.params,
        our_C=setting.our_C,
    )


def ours(data, repeats: int):
    """Return seconds and utilities: one solve, one product."""
    from threadpoolctl import threadpool_limits

    import goalward as gw

    gw.scale.accelerate()
    with threadpool_limits(limits=1):
        fitted = gw.Logistic(C=float(data["our_C"]), fit_intercept=False, tol=1e-12).fit(
            data["X"], data["y"]
        )
        goal = gw.goals.DevLoss(data["X_dev"], data["y_dev"])
        solver = gw.solvers.Auto(tol=1e-12)
        return timed(
            lambda: gw.utility.FirstOrder(solver=solver)(fitted, goal, data["pool"]), repeats
        )


def theirs(data, repeats: int, *, summed: bool):
    """Return seconds and utilities: direct influence of every pair on the summed dev loss.

    As its documentation shows, `influences` of all dev rows on all pairs, added up; or `summed`, the
    dev rows' factors added up first, which is the least work it can be asked to do.
    """
    import logging
    import warnings

    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    import torch
    from pydvl.influence.torch import DirectInfluence

    torch.set_num_threads(1)
    n, K = len(data["y"]), data["params"].shape[1]
    model = torch.nn.Linear(data["X"].shape[1], K, bias=False, dtype=torch.float64)
    with torch.no_grad():
        model.weight.copy_(torch.as_tensor(data["params"].T))
    X, y = torch.as_tensor(data["X"]), torch.as_tensor(data["y"])
    X_dev, y_dev = torch.as_tensor(data["X_dev"]), torch.as_tensor(data["y_dev"])
    pairs = torch.as_tensor(np.repeat(data["pool"], K, axis=0))
    labels = torch.arange(K).repeat(len(data["pool"]))
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X, y), batch_size=n)

    def scores():
        # The mean loss with a penalty of 1/(nC); the dev gradients are summed before the pairs.
        influence = DirectInfluence(
            model,
            torch.nn.functional.cross_entropy,
            regularization=1.0 / (n * float(data["our_C"])),
        ).fit(loader)
        parts = [slice(i, i + 4096) for i in range(0, len(pairs), 4096)]
        if summed:
            factors = influence.influence_factors(X_dev, y_dev).sum(dim=0, keepdim=True)
            found = [
                influence.influences_from_factors(factors, pairs[at], labels[at]) for at in parts
            ]
        else:
            found = [
                influence.influences(X_dev, y_dev, pairs[at], labels[at]).sum(dim=0, keepdim=True)
                for at in parts
            ]
        return (torch.cat(found, dim=1)[0] / n).reshape(-1, K).numpy()

    return timed(scores, repeats)


def timed(call, repeats: int):
    call()
    seconds = []
    for _ in range(repeats):
        began = perf_counter()
        result = call()
        seconds.append(perf_counter() - began)
    return min(seconds), result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", help="Python of the environment that has pyDVL")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--side", choices=["ours", "plain", "summed"], help=argparse.SUPPRESS)
    parser.add_argument("--data", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        sides = {
            "ours": ours,
            "plain": partial(theirs, summed=False),
            "summed": partial(theirs, summed=True),
        }
        seconds, result = sides[options.side](
            np.load(options.data), 1 if options.side == "plain" else 3
        )
        np.save(options.data.with_suffix(f".{options.side}.npy"), result)
        print(json.dumps(seconds))
        return
    targets = {"rt": 25, "letter": 100}
    for name, target in targets.items():
        with tempfile.TemporaryDirectory() as folder:
            prepare(name, Path(folder))
            data = Path(folder) / f"{name}.npz"
            ratios: dict[str, list[float]] = {"plain": [], "summed": []}
            for _ in range(options.repeats):
                took = {}
                for side in ("ours", "plain", "summed"):
                    python = sys.executable if side == "ours" else options.peer
                    run = [python, __file__, "--side", side, "--data", str(data)]
                    done = subprocess.run(run, check=True, capture_output=True, text=True)
                    took[side] = json.loads(done.stdout.splitlines()[-1])
                for side, listed in ratios.items():
                    listed.append(took[side] / took["ours"])
            mine = np.load(data.with_suffix(".ours.npy"))
            for side, listed in ratios.items():
                other = np.load(data.with_suffix(f".{side}.npy"))
                # Their sign is that of the loss.
                off = (
                    min(np.abs(mine - other).max(), np.abs(mine + other).max()) / np.abs(mine).max()
                )
                how = "influences(...).sum()" if side == "plain" else "factors summed first"
                print(
                    f"{name}, {how}: {mine.size:,} pairs, {statistics.median(listed):.0f} times faster "
                    f"({min(listed):.0f} to {max(listed):.0f}; asked {target}), equal to {off:.0e}"
                )


if __name__ == "__main__":
    main()
