"""What another strategy would have asked: stored labels played again.

Only rows with labels can be answered. Those of a simulation are all of them; those of a study are
the ones its own strategy chose, a biased pool, and comparisons on it say so.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from goalward.errors import BadInput, BadParameter
from goalward.lab.curves import Curves
from goalward.lab.datasets import Dataset, load
from goalward.lab.labelled import study_dataset
from goalward.lab.simulate import played, simulate
from goalward.strategies import Recipe, Strategy

if TYPE_CHECKING:
    from goalward.study import Study

__all__ = ["AS_LABELLED", "replay", "replay_simulation"]

AS_LABELLED = "as labelled"
Named = Mapping[str, str | Recipe | Strategy] | Sequence[str | Recipe | Strategy]


def replay(
    study: Study | str | Path,
    strategies: Named,
    *,
    batch: int | None = None,
    budget: int | None = None,
    seeds: int = 10,
    out: Path | str | None = None,
    n_jobs: int | None = None,
    progress: bool = True,
) -> Curves:
    """Return learning curves of strategies on the labelled rows of a study.

    The pool is what the study's own strategy chose to ask, so it lacks the rows that another
    would have preferred: a strategy that wins here may win by more elsewhere, or not at all. The
    stored order takes part as "as labelled", from the same random start as the others.

    Parameters
    ----------
    study
        A study, or where it is.
    strategies
        As in `simulate`.
    batch
        Labels per round; the study's `refit` by default.
    budget
        Labels bought; all of the pool by default.
    seeds, out, n_jobs, progress
        As in `simulate`.
    """
    from goalward.study import Study

    if not isinstance(study, Study):
        with Study.open(study) as opened:
            dataset, stored = study_dataset(opened)
            refit = opened.state.settings.refit
    else:
        dataset, stored = study_dataset(study)
        refit = study.state.settings.refit
    plans: dict[str, Any] = {AS_LABELLED: stored, **_named(strategies)}
    size = len(dataset.split(0).pool) if budget is None else budget
    options: dict[str, Any] = {"out": out, "n_jobs": n_jobs, "progress": progress}
    return simulate(dataset, plans, batch=batch or refit, budget=size, seeds=seeds, **options)


def replay_simulation(
    folder: Path | str,
    strategies: Named,
    *,
    dataset: Dataset | None = None,
    n_jobs: int | None = None,
    progress: bool = True,
) -> Curves:
    """Return the curves of a simulation with other strategies added, on the same splits and seeds.

    Parameters
    ----------
    folder
        What `simulate` was given as `out`; the curves there are extended. A run that was killed
        goes on from there.
    dataset
        The data, where its name does not lead to it: that of a file, say.
    """
    folder = Path(folder)
    table, batch = _stored(folder)
    dataset = dataset or load(str(table["dataset"][0]))
    # The folder of the rounds names the data: other rows or labels would be another comparison.
    place = folder / "rounds" / f"{dataset.name}-{dataset.fingerprint}-b{batch}"
    if not place.is_dir():
        raise BadInput(
            f"{folder} holds rounds of other data than {dataset.name!r} as it is now; the same rows, "
            "labels and learner were expected. Pass the dataset it was run on."
        )
    size = int(table["queries"].max())  # type: ignore[arg-type]
    seeds = table["seed"].n_unique()
    plans = _named(strategies)
    options: dict[str, Any] = {"batch": batch, "budget": size, "seeds": seeds}
    # The curves that are there stay until all of the new ones can take their place.
    added = played(dataset, plans, **options, n_jobs=n_jobs, progress=progress, out=folder)
    kept = table.filter(~pl.col("strategy").is_in(list(plans)))
    curves = Curves(pl.concat([kept, added.table]))
    curves.save(folder)
    return curves


def _stored(folder: Path) -> tuple[pl.DataFrame, int]:
    path = folder / "curves.parquet"
    if not path.is_file():
        raise BadParameter(
            f"{folder} has no curves.parquet; the folder that a simulation was written to was "
            "expected. Name the one given to `goalward simulate --out`."
        )
    table = pl.read_parquet(path)
    if table["dataset"].n_unique() > 1:
        raise BadInput(f"{path} holds several datasets; one was expected. Replay each by itself.")
    name = table["dataset"][0]
    # Several batch sizes may lie side by side; the curves are of one of them.
    steps = table.sort("strategy", "seed", "round").group_by("strategy", "seed").head(2)
    step = int(steps["queries"].max())  # type: ignore[arg-type]
    for place in sorted((folder / "rounds").glob(f"{name}-*-b*")):
        for file in place.glob("*.jsonl"):
            with file.open() as lines:
                batch = int(json.loads(lines.readline())["batch"])
            if min(batch, int(table["queries"].max())) == step:  # type: ignore[arg-type]
                return table, batch
            break
    raise BadInput(
        f"{folder / 'rounds'} has no rounds of the curves beside it; those of the same run were "
        "expected. Run `goalward simulate` again with this folder."
    )


def _named(strategies: Named) -> dict[str, Any]:
    if isinstance(strategies, Mapping):
        return dict(strategies)
    return {str(one): one for one in strategies}
