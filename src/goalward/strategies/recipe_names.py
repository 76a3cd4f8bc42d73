"""The words of recipes, and what they stand for."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from goalward.goals import (
    CalibratedDevLoss,
    Coverage,
    DecisionRisk,
    DevLoss,
    Entropy,
    Epig,
    ExpectedAccuracy,
    Fisher,
    FisherRatio,
    Goal,
    LeaveOneOut,
    PredictionVariance,
    SmoothAccuracy,
    SmoothF1,
    SoftPool,
)
from goalward.labels import (
    BestCase,
    Expected,
    ExpectedImprovement,
    Jackknife,
    LabelModel,
    Operator,
    Predicted,
    ProbabilityOfImprovement,
    Spread,
    Truth,
    Uniform,
    UpperConfidence,
    WorstCase,
)
from goalward.selection import Certain, Selector, Sequential, Stochastic, Top
from goalward.strategies import uncertainty
from goalward.strategies.badge import Badge
from goalward.strategies.bait import Bait, BaitBackward
from goalward.strategies.bald import Bald
from goalward.strategies.boss import Boss
from goalward.strategies.committee import Committee, ModelChange
from goalward.strategies.core_set import CoreSet
from goalward.strategies.greedy_sampling import GreedySampling
from goalward.strategies.reference import reference_rows
from goalward.strategies.refine import Refine
from goalward.strategies.strategy import Strategy
from goalward.strategies.typiclust import TypiClust

__all__ = [
    "BASELINES",
    "GOALS",
    "LABEL_FREE",
    "NUMBERED",
    "OF_NUMBERS",
    "OPERATORS",
    "ORACLES",
    "PRESETS",
    "RECOMMENDED",
    "RECOMMENDED_FOR",
    "SELECTIONS",
    "usual_parts",
]

BASELINES: dict[str, Callable[[int], Strategy]] = {
    "random": uncertainty.Random,
    "entropy": uncertainty.Entropy,
    "margin": uncertainty.Margin,
    "least-confident": uncertainty.LeastConfident,
    "uncertainty": uncertainty.LeastConfident,
    "core-set": CoreSet,
    "label-margin": uncertainty.LabelMargin,
    "greedy": GreedySampling,
    "committee": Committee,
    "model-change": ModelChange,
    "badge": Badge,
    "bait": Bait,
    "bait-backward": BaitBackward,
    "bald": lambda seed: Bald(seed=seed),
    "typiclust": TypiClust,
    "refine": lambda seed: Refine(seed=seed),
}
OF_NUMBERS = frozenset({"greedy", "committee", "model-change"})
"""Those of models of numbers."""
ORACLES: dict[str, Callable[[Any, int], Strategy]] = {
    "boss": lambda truth, seed: Boss(truth, seed=seed)
}
"""Baselines that must be told the true labels of the pool."""
RECOMMENDED = "hedged"
"""What `goalward benchmark` recommends now; the same with and without dev labels."""
RECOMMENDED_FOR = {
    "class": RECOMMENDED,
    "labels": "coverage among 4000 by random",
    "numbers": "fisher-ratio",
}
"""By what the model learns; `goalward benchmark --task` says how far they are ahead."""
PRESETS = {
    "hedged": (
        "coverage among 4000 by random while classes are unseen then (decision-risk among 1000 by "
        "margin, margin, coverage among 4000 by random in turn)"
    ),
    "eer": "entropy/predicted/retrain/top",
    "eer-01": "expected-accuracy/predicted/retrain/top",
    "mcmi-min": "entropy/max/retrain/top",
    "mcmi-switch": "entropy/max/retrain/top unless surprised then entropy",
    "a-optimality": "prediction-variance/average/information/top",
    "glister": "dev/predicted:0/gradient-step/top",
    "goimda": "jackknife-pool/jackknife/first-order/top",
    "isal": "dev/predicted:0/first-order/top",
    "goral-average": "dev/average/first-order/top",
    "tcm": "typiclust until 30 then margin",
}
"""Published strategies as instances of the framework; docs/goals.md has the table."""


def _reference(make: Callable[[Any], Goal]) -> Callable[[Any], Goal]:
    """Return the goal over a sample of the pool, the same in every round."""
    return lambda pool: make(reference_rows(pool))


LABEL_FREE: dict[str, tuple[str, Callable[[Any], Goal]]] = {
    "decision-risk": ("pool", _reference(DecisionRisk)),
    "epig": ("pool", _reference(Epig)),
    "fisher-ratio": ("pool", _reference(FisherRatio)),
    "prediction-variance": ("pool", _reference(PredictionVariance)),
    "coverage": ("pool", _reference(Coverage)),
    "max-herding": ("pool", _reference(partial(Coverage, uncertain=False, radius=1.0))),
}
"""Goals that a label helps by where its row is, whichever it is: they have a utility of their own."""


def usual_parts(goal: str) -> tuple[str, str, str] | None:
    """Return what stands after such a goal where nothing else is said."""
    if goal not in LABEL_FREE:
        return None
    covering = goal in ("coverage", "max-herding")
    return ("average", "covering" if covering else "information", "sequential")


GOALS: dict[str, tuple[str, Callable[[Any], Goal]]] = {
    "dev": ("dev", lambda dev: DevLoss(*dev)),
    "entropy": ("pool", Entropy),
    "expected-accuracy": ("pool", ExpectedAccuracy),
    "fisher": ("pool", Fisher),
    "leave-one-out": ("", lambda _: LeaveOneOut()),
    "dev-left-out": ("dev", lambda dev: LeaveOneOut(*dev)),
    **LABEL_FREE,
    "calibrated": ("dev", lambda dev: CalibratedDevLoss(*dev)),
    "accuracy": ("dev", lambda dev: SmoothAccuracy(*dev)),
    "f1": ("dev", lambda dev: SmoothF1(*dev)),
    "soft-pool": ("pool", lambda pool: SoftPool(pool, LabelModel(forest()))),
    "jackknife-pool": ("pool", lambda pool: SoftPool(pool, Jackknife())),
}
OPERATORS: dict[str, Callable[[float | None, Any], Operator]] = {
    "average": lambda value, truth: Expected(Uniform()),
    "predicted": lambda value, truth: Expected(Predicted(1.0 if value is None else value)),
    "jackknife": lambda value, truth: Expected(Jackknife()),
    "oracle": lambda value, truth: Expected(Truth(truth)),
    "min": lambda value, truth: WorstCase(),
    "max": lambda value, truth: BestCase(),
    "spread": lambda value, truth: Spread(Predicted(1.0 if value is None else value)),
    "ucb": lambda value, truth: UpperConfidence(kappa=1.0 if value is None else value),
    "ei": lambda value, truth: ExpectedImprovement(threshold=value or 0.0),
    "pi": lambda value, truth: ProbabilityOfImprovement(threshold=value or 0.0),
}
NUMBERED = {"predicted", "spread", "ucb", "ei", "pi"}
SELECTIONS: dict[str, Callable[[], Selector]] = {
    "top": Top,
    "certain": Certain,
    "sequential": Sequential,
    "sequential-curvature": lambda: Sequential(update="curvature"),
    "stochastic": Stochastic,
}


def forest() -> Any:
    """Return the label model of the soft pool.

    A forest fits any number of labels, needs no scaling, and differs from a linear model. With 60
    labels its log-loss was below that of 10 neighbours on letter (1.8 against 2.9), rt-polarity (.59
    against .64) and synth2, and its accuracy above on digits too (.81 against .72).
    """
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(200, random_state=0)
