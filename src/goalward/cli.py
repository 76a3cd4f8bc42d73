"""The command line: `goalward` and `python -m goalward`."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

__all__ = ["app"]

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Goal-oriented active learning: the best model from the fewest labels.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
console = Console()

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")]


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the figure.")] = Path("out"),
    seeds: Annotated[int, typer.Option(min=1, help="Simulated sessions per strategy.")] = 3,
    budget: Annotated[int, typer.Option(min=10, help="Labels bought in each session.")] = 100,
    candidates: Annotated[int, typer.Option(min=10, help="Rows to retrain with.")] = 200,
    as_json: AsJson = False,
) -> None:
    """Compare cheap scores with retraining, and strategies with one another, on digits.

    Example: `goalward demo --out out`
    """
    from goalward.bench.demo import demo as run

    with _Spinner() as tick:
        result = run(out, seeds=seeds, budget=budget, n_candidates=candidates, tick=tick)
    if as_json:
        finals = {name: float(values[:, -1].mean()) for name, (_, values) in result.curves.items()}
        typer.echo(
            json.dumps(
                {
                    "seconds": result.seconds,
                    "rank_correlation": result.correlation,
                    "accuracy": finals,
                    "figures": [str(path) for path in result.paths],
                }
            )
        )
        return
    scores = Table(title=f"{result.n_candidates} candidates x 10 labels: first order vs retraining")
    scores.add_column("utility")
    scores.add_column("seconds", justify="right")
    for name, seconds in result.seconds.items():
        scores.add_row(name, f"{seconds:.4f}")
    console.print(scores)
    ranks = Table(title="rank correlation of the two")
    ranks.add_column("operator")
    ranks.add_column("Spearman", justify="right")
    for name, value in result.correlation.items():
        ranks.add_row(name, f"{value:.3f}")
    console.print(ranks)
    curves = Table(title=f"test accuracy on digits, mean of {seeds} sessions")
    curves.add_column("strategy")
    labels = next(iter(result.curves.values()))[0]
    shown = sorted({0, len(labels) // 4, len(labels) // 2, len(labels) - 1})
    for i in shown:
        curves.add_column(f"{labels[i]} labels", justify="right")
    for name, (_, values) in result.curves.items():
        curves.add_row(name, *(f"{values[:, i].mean():.3f}" for i in shown))
    console.print(curves)
    console.print(f"Figure: {result.paths[0]}  (and .svg)")


@app.command()
def bench(
    quick: Annotated[bool, typer.Option(help="Fewer repeats and smaller pools.")] = False,
    as_json: AsJson = False,
) -> None:
    """Measure speed against peers, side by side in one run with one BLAS thread.

    Example: `goalward bench --quick`
    """
    from goalward.bench.speed import retraining, scoring

    repeats = 1 if quick else 3
    with _Spinner() as tick:
        tick("retraining against scikit-learn")
        results = retraining(repeats=repeats, n_pool=100 if quick else 500)
        tick("scoring a pool")
        results += scoring(repeats=repeats, n_pool=20_000 if quick else 200_000)
    if as_json:
        typer.echo(json.dumps([asdict(r) | {"ratio": r.ratio} for r in results]))
        return
    table = Table(title="seconds per item, best of several alternating runs")
    for column in ("what", "against", "ours, µs", "theirs, µs", "times faster", "difference"):
        table.add_column(column, justify="left" if column in ("what", "against") else "right")
    for r in results:
        difference = "" if r.error != r.error else f"{r.error:.0e}"
        table.add_row(
            r.what,
            r.peer,
            f"{1e6 * r.ours:.2f}",
            f"{1e6 * r.theirs:.2f}",
            f"{r.ratio:.1f}",
            difference,
        )
    console.print(table)


@app.command()
def doctor(as_json: AsJson = False) -> None:
    """Say what is installed: versions, array libraries, GPU, BLAS threads, data.

    Example: `goalward doctor --json`
    """
    found = _findings()
    if as_json:
        typer.echo(json.dumps(found))
        return
    table = Table(show_header=False)
    for name, value in found.items():
        table.add_row(name, str(value))
    console.print(table)


def _findings() -> dict[str, Any]:
    from threadpoolctl import threadpool_info

    import goalward

    found: dict[str, Any] = {
        "goalward": goalward.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": os.cpu_count(),
    }
    for name in ("numpy", "scipy", "scikit-learn", "array-api-compat", "torch", "cupy", "dask"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    if found["torch"] != "not installed":
        import torch

        cuda = torch.cuda.is_available()
        found["GPU"] = torch.cuda.get_device_name(0) if cuda else "none that torch sees"
    found["BLAS threads"] = {
        f"{pool['internal_api']} {pool.get('version', '')}".strip(): pool["num_threads"]
        for pool in threadpool_info()
        if pool["user_api"] == "blas"
    }
    folder = os.environ.get("GOALWARD_DATA")
    found["GOALWARD_DATA"] = folder or "not set"
    if folder:
        path = Path(folder)
        found["data files"] = sorted(p.name for p in path.iterdir()) if path.is_dir() else "missing"
    return found


class _Spinner:
    """A spinner on the terminal; `tick` says what is being done."""

    def __init__(self) -> None:
        self.progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
        )

    def __enter__(self) -> Callable[[str], None]:
        self.progress.start()
        task = self.progress.add_task("starting")
        return lambda message: self.progress.update(task, description=message)

    def __exit__(self, *error: object) -> None:
        self.progress.stop()


if __name__ == "__main__":
    app()
