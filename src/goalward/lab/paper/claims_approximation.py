"""The paper's claims about first order against retraining."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from goalward.lab.paper.approximation import ExPred, Scatter
from goalward.lab.paper.findings import Findings, Judgement, Untestable, claim, interval
from goalward.lab.paper.protocol import OPERATORS
from goalward.lab.statistics import bootstrap

__all__: list[str] = []

STRONG, MODERATE = 0.8, 0.5
Scatters = dict[tuple[str, str], Scatter]  # (kind, sentence vectors) -> Scatter


def _scatters(*kinds: str) -> Callable[[Findings], Scatters | None]:
    """Return a function that takes some kinds of scatter from the findings, all or none."""

    def about(findings: Findings) -> Scatters | None:
        scatters = {
            (kind, scatter.vectors): scatter
            for kind in kinds
            for end in ("", "-minilm")
            if (scatter := findings.scatters.get(kind + end)) is not None
        }
        return scatters if {kind for kind, _ in scatters} == set(kinds) else None

    return about


KINDS = {"approx-serial": "single rows", "approx-batch": "batches of 10"}
of_serial = partial(claim, "approx-serial", needs=("seeds", "pool"))
of_batch = partial(
    claim, "approx-batch", about=_scatters("approx-batch"), needs=("batch_seeds", "pool")
)
of_both = partial(
    claim,
    "approx-serial approx-batch",
    about=_scatters(*KINDS),
    needs=("seeds", "batch_seeds", "pool"),
)
of_expred = partial(
    claim, "expred", about=lambda findings: findings.expred, needs=("batch_seeds", "pool")
)


def _by_operator(
    scatter: Scatter, column: str, goal: str = "entropy", seeds: set[int] | None = None
) -> dict[str, NDArray[Any]]:
    """Return a column of the table, operator -> (seeds,); of some seeds only, where they are given."""
    mine = scatter.table.filter(goal=goal).sort("seed")
    if seeds is not None:
        mine = mine.filter(pl.col("seed").is_in(seeds))
    if mine[column].is_nan().any():
        raise Untestable(f"All utilities tie, {scatter.vectors}")
    return {op: mine.filter(operator=op)[column].to_numpy() for op in OPERATORS}


def _positive(values: NDArray[Any]) -> bool:
    return bootstrap(values)[1] > 0


def _correlations(scatters: list[Scatter]) -> tuple[dict[str, dict[str, float]], str]:
    """Return vectors -> operator -> mean correlation, and the means with intervals as a text."""
    means, lines = {}, []
    for scatter in scatters:
        correlations = _by_operator(scatter, "pearson")
        means[scatter.vectors] = {op: float(values.mean()) for op, values in correlations.items()}
        shown = (
            f"{op} {interval(values, correlation=True)}" for op, values in correlations.items()
        )
        lines.append(f"{scatter.vectors}: {'; '.join(shown)}")
    return means, ". ".join(lines)


def _lowest(means: dict[str, dict[str, float]]) -> float:
    return min(value for each in means.values() for value in each.values())


def _rows_and_beside(findings: Findings) -> tuple[list[Scatter], list[Scatter]] | None:
    judged = _scatters("approx-serial")(findings)
    beside = findings.scatters.get("approx-serial-stated")
    return (list(judged.values()), [beside] if beside else []) if judged else None


@of_serial(
    about=_rows_and_beside,
    says="First-order utilities correlate strongly with those of real retraining, row by row.",
    rule="reproduced if the mean Pearson correlation is at least 0.8 for all four operators and all "
    "sentence vectors (those that allow it at the paper's C), partly if at least 0.5",
)
def approximation_serial(scatters: tuple[list[Scatter], list[Scatter]]) -> Judgement:
    judged, beside = scatters
    means, measured = _correlations(judged)
    if beside:
        measured += f". Beside them, not judged: {_correlations(beside)[1]}"
    worst = _lowest(means)
    return Judgement(measured, worst >= STRONG, worst >= MODERATE, means)


@of_batch(
    says="The correlation is strong in all cases for batches of 10 too.",
    rule="reproduced if the mean Pearson correlation is at least 0.8 for all four operators and all "
    "sentence vectors; one case below it refutes the claim",
)
def approximation_batch_strong(scatters: Scatters) -> Judgement:
    means, measured = _correlations(list(scatters.values()))
    return Judgement(measured, _lowest(means) >= STRONG, False, means)


@of_both(
    says="The correlation is lower for batches of 10 than for single rows, and lowest for the "
    "minimum and maximum.",
    rule="two conditions for each of the sentence vectors, both paired by seed and with an interval "
    "that excludes 0: all four correlations fall; min/max average below oracle/average. Reproduced "
    "if all hold, partly if half of them do",
)
def approximation_batch(scatters: Scatters) -> Judgement:
    holds, lines, numbers = [], [], {}
    for vectors in dict.fromkeys(vectors for _, vectors in scatters):
        pair = [scatters[kind, vectors] for kind in KINDS if (kind, vectors) in scatters]
        seeds = set.intersection(*(set(scatter.table["seed"]) for scatter in pair))
        if len(pair) < 2 or not seeds:
            raise Untestable(f"Rows and batches have no seed in common, {vectors}")
        single, many = (_by_operator(scatter, "pearson", seeds=seeds) for scatter in pair)
        fall = {op: single[op] - many[op] for op in OPERATORS}
        gap = (many["oracle"] + many["average"] - many["min"] - many["max"]) / 2
        holds += [all(map(_positive, fall.values())), _positive(gap)]
        shown = "; ".join(f"{op} {interval(values)}" for op, values in fall.items())
        lines.append(f"{vectors}: falls by {shown}; min/max below by {interval(gap)}")
        numbers[vectors] = {op: float(v.mean()) for op, v in fall.items()} | {"gap": gap.mean()}
    return Judgement(". ".join(lines), all(holds), sum(holds) >= len(holds) / 2, numbers)


@of_both(
    says="The first-order utility over-estimates the change of the goal, of single rows and groups.",
    rule="a case (rows or batches, vectors, operator) counts if the ratio of the standard deviations "
    "of first-order and retrained utilities is above 1, and their correlation above 0, both with "
    "intervals that exclude it. Reproduced if all cases count, partly if half of them do",
)
def over_estimates(scatters: Scatters) -> Judgement:
    counts, lines, numbers = [], [], {}
    for (kind, vectors), scatter in scatters.items():
        scale, pearson = (_by_operator(scatter, column) for column in ("scale", "pearson"))
        counts += [_positive(np.log(scale[op])) and _positive(pearson[op]) for op in OPERATORS]
        shown = "; ".join(f"{op} {interval(scale[op])}" for op in OPERATORS)
        lines.append(f"{KINDS[kind]}, {vectors}: {shown}")
        numbers[f"{KINDS[kind]}, {vectors}"] = {op: float(scale[op].mean()) for op in OPERATORS}
    measured = f"{sum(counts)} of {len(counts)} cases. Ratios: {'. '.join(lines)}"
    return Judgement(measured, all(counts), sum(counts) >= len(counts) / 2, numbers)


@of_both(
    says="First order reduces the cost: one gradient for each row and label, and one system solved, "
    "in place of one retraining for each labeling.",
    rule="a case (rows or batches, vectors) counts if first order is at least ten times quicker with "
    "an interval that excludes 10, and its correlation with retraining is above 0 with one that "
    "excludes 0 (oracle). Reproduced if all cases count, partly if half of them do",
)
def cost(scatters: Scatters) -> Judgement:
    counts, lines, numbers = [], [], {}
    for (kind, vectors), scatter in scatters.items():
        pearson = _by_operator(scatter, "pearson")["oracle"]
        spent = scatter.table.filter(goal="entropy", operator="oracle")
        retrain, cheap = (spent[f"{way}_seconds"].to_numpy() for way in ("retrain", "first_order"))
        times = retrain / cheap
        counts.append(_positive(np.log(times / 10)) and _positive(pearson))
        lines.append(
            f"{KINDS[kind]}, {vectors}: {spent['retrainings'][0]:,} retrainings ({retrain.mean():.2g} "
            f"s) against {spent['gradients'][0]:,} gradients ({cheap.mean():.2g} s), "
            f"{np.exp(np.log(times).mean()):,.0f} times quicker"
        )
        numbers[f"{KINDS[kind]}, {vectors}"] = times.tolist()
    return Judgement(". ".join(lines), all(counts), sum(counts) >= len(counts) / 2, numbers)


@of_serial(
    about=_scatters("approx-serial"),
    says="Other goals are approximated about as well as the entropy goal.",
    rule="a case (Fisher or dev goal, vectors) counts if the mean correlation over operators is at "
    "least 0.5, and at most 0.1 below that of the entropy goal. Reproduced if all cases count, "
    "partly if one does",
)
def other_goals(scatters: Scatters) -> Judgement:
    counts, lines, numbers = [], [], {}
    for (_, vectors), scatter in scatters.items():
        means = {
            goal: float(np.mean(list(_by_operator(scatter, "pearson", goal).values())))
            for goal in ("entropy", "fisher", "dev")
        }
        least = max(MODERATE, means["entropy"] - 0.1)
        counts += [means[goal] >= least for goal in ("fisher", "dev")]
        shown = "; ".join(f"{goal} {value:.2f}" for goal, value in means.items())
        lines.append(f"{vectors}: {shown}")
        numbers[vectors] = means
    return Judgement(". ".join(lines), all(counts), any(counts), numbers)


@of_expred(
    says="To first order, the expected utility under the model's own prediction is the same for "
    "every row and batch (Remark 1).",
    rule="reproduced if its spread is at most 1e-10 of the utilities' scale in every panel and seed",
    needs=(),  # an identity: any run can refute it
)
def expred_constant(expred: ExPred) -> Judgement:
    worst = float(expred.spread["flatness"].to_numpy().max())
    if np.isnan(worst):
        raise Untestable("All utilities are 0")
    measured = f"largest relative spread {worst:.1e}"
    return Judgement(measured, worst <= 1e-10, worst <= 1e-6, {"worst": worst})


@of_expred(
    says="Retrained, the expected utility under the prediction is concentrated compared with the "
    "other operators.",
    rule="a panel counts if its standard deviation is below half of the operators' median, and below "
    "half of that under the predictions of other rows, on average over seeds. Reproduced if all "
    "panels count, partly if half of them do",
)
def expred_concentrated(expred: ExPred) -> Judgement:
    counts, lines, numbers = [], [], {}
    for (panel,), table in expred.spread.group_by("panel", maintain_order=True):
        median, others = (table[name].to_numpy() for name in ("of_median", "of_others"))
        if np.isnan([median, others]).any():
            raise Untestable(f"All utilities tie, {panel}")
        counts.append(median.mean() < 0.5 and others.mean() < 0.5)
        lines.append(f"{panel}: {interval(median)} of the median, {interval(others)} of others'")
        numbers[str(panel)] = {"of_median": median.tolist(), "of_others": others.tolist()}
    return Judgement("; ".join(lines), all(counts), sum(counts) >= len(counts) / 2, numbers)


@of_expred(
    says="The operators rank the rows very differently.",
    rule="reproduced if at least half of the pairs of operators have a rank correlation below 0.5, "
    "on average over seeds; partly if a third of them have",
)
def operators_differ(expred: ExPred) -> Judgement:
    pairs = {
        f"{a}-{b}": lines["spearman"].to_numpy()
        for (a, b), lines in expred.overlap.group_by("a", "b", maintain_order=True)
    }
    means = {pair: float(values.mean()) for pair, values in pairs.items()}
    if np.isnan(list(means.values())).any():
        raise Untestable("All utilities tie")
    low = sum(mean < 0.5 for mean in means.values())
    shown = (f"{pair} {interval(values, correlation=True)}" for pair, values in pairs.items())
    return Judgement("; ".join(shown), low >= len(means) / 2, low >= len(means) / 3, means)
