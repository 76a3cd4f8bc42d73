"""The kind of an answer: one class. Several labels and numbers override what differs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from goalward.core.arrays import to_numpy
from goalward.core.draws import drawn_rows
from goalward.errors import BadParameter, UnknownLabel, Unsupported
from goalward.labels.operators import deviation
from goalward.models.logistic import Logistic
from goalward.strategies.recipes import RECOMMENDED_FOR
from goalward.studio.store.events import Label
from goalward.studio.study.answers import Doubts, LeftOut
from goalward.studio.study.scores import (
    MEAN,
    PRECISION,
    ClassScores,
    Interval,
    Scored,
    drawn,
    weights_of,
)
from goalward.utility import relabel

if TYPE_CHECKING:
    from goalward.studio.study.rounds import StudyRound
    from goalward.studio.study.state import State as Answered

DEV_MINIMUM = 10
"""Dev labels, of two classes at least, before they measure or steer anything."""
STOP_ROWS, LEAST_ROWS = 1000, 200
"""Rows of the stop set: at most, at least."""
PLACES = 50
"""Quantiles of the pool's leads to average over."""


def position(classes: Sequence[Label], label: Any) -> int | None:
    """Return the index of a label among classes; 1 and True are equal, but two answers."""
    for place, known in enumerate(classes):
        if known == label and isinstance(known, bool) == isinstance(label, bool):
            return place
    return None


def place_of(classes: Sequence[Label], renamed: Mapping[Label, Label], name: Any) -> int:
    """Return the index of a class by its name or a former one, or raise `UnknownLabel`."""
    value = name.item() if hasattr(name, "item") else name
    for known in (value, renamed.get(value) if isinstance(value, Label) else None):
        place = position(classes, known)
        if place is not None:
            return place
    raise UnknownLabel(
        f"The label must be one of {', '.join(map(repr, classes[:12]))}, got {name!r}. "
        "Correct it, or declare it with add_class."
    )


@dataclass(frozen=True)
class Scores(Scored):
    """Scores of every class, and the confusion matrix (labels in rows, predictions in columns)."""

    classes: tuple[ClassScores, ...]
    confusion: tuple[tuple[int, ...], ...]
    on: int
    chosen: int


class Kind:
    """One class for each row.

    An answer is JSON: a class; a number; or for several labels a list of true, false and null, shorter if
    labels were added later.
    """

    name: ClassVar[str] = "class"
    learner: ClassVar[Any] = Logistic
    auto: ClassVar[str] = RECOMMENDED_FOR["class"]
    measure: ClassVar[str | None] = None
    """The name of its score; None is accuracy."""
    unit: ClassVar[str] = " points of accuracy"
    waits: ClassVar[str] = "answer until two classes have labels"
    typing: ClassVar[str] = "number or name: answer"
    """How to answer in a terminal."""
    each: ClassVar[str] = " of each class"
    """The counts of `least`, in words."""
    followed: ClassVar[int] = 10**9
    """Answers on the stop set at most."""
    examples: ClassVar[tuple[Any, ...]] = ()
    """Twelve answers to try a strategy on, for other kinds than classes."""

    def need(self, what: str) -> None:
        """Raise unless answers are classes."""
        if self.name != "class":
            raise Unsupported(
                f"{what} needs a study of one class for each row, got one of {self.name}. It is not "
                "available for others yet."
            )

    def check_names(self, names: Sequence[Label]) -> None:
        """Raise if names cannot be those of a study's classes."""
        if len(names) < 2 or len(set(names)) < len(names):
            raise BadParameter(
                f"classes must be two or more distinct classes, got {list(names)!r}. Declare all of "
                "them, also those without a label yet."
            )

    def checked(self, given: Any, classes: Sequence[Label], renamed: Mapping[Label, Label]) -> Any:
        """Return an answer as it is stored; raise `UnknownLabel` or `BadParameter` if it is wrong."""
        return classes[place_of(classes, renamed, given)]

    def declared(self, answer: Any, classes: tuple[Label, ...]) -> tuple[Label, ...]:
        """Return the classes and those of an answer whose declaration was lost."""
        return classes if answer in classes else (*classes, answer)

    def typed(self, line: str, classes: Sequence[Label]) -> Any:
        """Return the answer typed in a terminal; None if it is not one."""
        return by_number(classes).get(line)

    def pressed(self, sent: Any, classes: Sequence[Label]) -> Any:
        """Return the answer that a widget sent: the index of a class."""
        return classes[sent]

    def offered(self, classes: Sequence[Label]) -> str:
        """Return the possible answers, for a terminal."""
        return "  ".join(f"{i}: {label}" for i, label in enumerate(classes, start=1))

    def words(self, answer: Any, classes: Sequence[Label]) -> str:
        return str(answer)

    def fits(self, answer: Any, name: str, classes: Sequence[Label]) -> bool:
        """Return whether an answer is, or includes, a class by name."""
        return str(answer) == name

    def coded(self, answer: Any, classes: Sequence[Label]) -> str:
        """Return an answer as tables keep it: the place of its class, which may get another name."""
        return str(position(classes, answer))

    def decoded(self, text: str, classes: Sequence[Label]) -> Any:
        """Return the answer that a text stands for."""
        return classes[int(text)]

    def counted(self, text: str) -> Iterator[tuple[Any, ...]]:
        """Yield the keys under which an answer, as tables keep it, is counted."""
        yield (int(text),)

    def per_class(self, state: Answered) -> dict[Label, int]:
        counts = dict.fromkeys(state.classes, 0)
        for (_, place), n in state.counts.items():
            counts[state.classes[place]] += n
        return counts

    def least(self, state: Answered) -> dict[str, int]:
        """Return the counts that must reach 5 before any rule says stop."""
        return {str(label): n for label, n in self.per_class(state).items()}

    def fitter(self, params: Mapping[str, Any], classes: Sequence[Label]) -> Any:
        """Return the learner; a class without a label yet penalises the intercepts."""
        options = {name: value for name, value in params.items() if name not in ("Cs", "cv")}
        options["penalize_intercept"] = params.get("penalize_intercept") or "until-seen"
        return Logistic(**options, classes=list(classes))

    def ready(self, state: Answered) -> bool:
        """Return whether a model can be fitted: labels of two classes among the training rows."""
        return sum(not dev for dev, _ in state.counts) >= 2

    def targets(self, answers: Sequence[Any], classes: Sequence[Label]) -> Any:
        return list(answers)

    def truth(self, state: Answered) -> NDArray[Any]:
        """Return the answers used, in the form of predictions: indices of classes."""
        return state.used[1]

    def predicted(self, proba: NDArray[Any]) -> list[Any]:
        """Return predictions on the stop set, for stopping rules."""
        labels: list[Any] = proba.argmax(axis=1).tolist()
        return labels

    def judged(self, now: StudyRound, batch: NDArray[Any]) -> dict[str, Any]:
        """Return the measures that a ranking records; `batch` are the rows asked next."""
        state, answers = now.state, LeftOut.of(now)
        count = max(LEAST_ROWS, min(STOP_ROWS, self.followed // len(state.classes)))
        rows = drawn_rows(now.pool.n_rows, count, state.settings.seed, "stop")
        proba = to_numpy(now.fitted.predict_proba(now.pool.take(rows)))
        is_open = ~np.isin(rows, state.used[0])
        shown = is_open if is_open.any() else ~is_open
        interval, also, scale = self.measured(now, answers, rows[shown], proba[shown])
        value, low, high = interval or (None, None, None)
        return {
            "metric": "dev" if now.has_dev else "cross-validated",
            **{"accuracy": value, "low": low, "high": high, "on": len(answers.rows), "also": also},
            "stop_set": {"predicted": self.predicted(proba), "scale": scale},
            **self.watched(now, batch),
        }

    def measured(
        self, now: StudyRound, answers: LeftOut, rows: NDArray[Any], proba: NDArray[Any]
    ) -> tuple[Interval | None, dict[str, Any], float | None]:
        """Return the score on unanswered rows, other values to record, and the scale."""
        left = max(now.pool.n_rows - now.state.n_labels, 1)
        place, share = commonest(answers)
        also = {"commonest": [now.state.classes[place], share]}
        return measured_classes(answers, proba, left), also, None

    def watched(self, now: StudyRound, batch: NDArray[Any]) -> dict[str, Any]:
        """Return the left-out log-loss, the goal, and its expected change by the batch."""
        if self.name != "class":
            return {"log_loss": None, "goal": None, "gain": None}
        likelihood = LeftOut.scored(now).likelihood
        return {
            "log_loss": -float(np.mean(np.log(np.maximum(likelihood, 1e-300)))),
            "goal": now.goal.value(now.fitted) / len(now.goal_rows),
            "gain": float(np.mean(to_numpy(deviation(*now.changes(batch))))),
            "goal_before": now.goal_before(),
        }

    def scores(self, now: StudyRound) -> Any:
        """Return scores on the dev answers, or on all, each left out, while those are too few."""
        answers, classes = LeftOut.scored(now), now.state.classes
        k = len(classes)
        places = answers.truth * k + answers.proba.argmax(axis=1)
        table = np.bincount(places, minlength=k * k).reshape(k, k)
        counts = zip(np.diag(table), table.sum(axis=1), table.sum(axis=0), strict=True)
        scores = [ClassScores.of(label, *of) for label, of in zip(classes, counts, strict=True)]
        matrix = tuple(tuple(line) for line in table.tolist())
        return Scores(tuple(scores), matrix, len(answers.truth), int(answers.chosen.sum()))

    def doubts(self, now: StudyRound, most: int | None = None) -> Doubts:
        """Return all answers, the most doubtful first; or the first ones, without gains."""
        answers = LeftOut.of(now)
        doubt = 1.0 - answers.likelihood
        says = [now.state.classes[k] for k in answers.proba.argmax(axis=1)]
        if most is not None:
            return Doubts.by(answers, doubt, doubt, says, most=most)
        again = relabel(now.fitted, now.goal)
        measuring = [None] * len(now.state.dev)
        gains = [
            [*(np.asarray(gain) / len(now.goal_rows)).tolist(), *measuring]
            for gain in (again.look, again.drop)
        ]
        return Doubts.by(answers, doubt, doubt, says, *gains)

    def mistake(
        self, answer: Any, says: Any, doubt: float, classes: Sequence[Label]
    ) -> tuple[str, str] | None:
        """Return the prediction and how unlikely the answer is, in words; None if it agrees."""
        if answer == says:
            return None
        return str(says), f"it gives this label {100 * (1 - doubt):.0f} %"

    def good(self, value: float, low: float, high: float, also: Mapping[str, Any]) -> str:
        return f"About {percent(value, low, high, of=' right')}."

    def changed(self, changed: float) -> str:
        return f"changed {points(changed)} of 100 predictions"

    def amount(self, gain: float) -> str:
        """Return a gain without its unit."""
        return points(gain) if self.measure is None else f"{gain:.3f}".rstrip("0").rstrip(".")


def by_number(classes: Sequence[Label]) -> dict[str, Label]:
    """Return classes by number, from 1, and by name."""
    numbered = {str(i): label for i, label in enumerate(classes, start=1)}
    return numbered | {str(label): label for label in classes}


def points(share: float) -> str:
    """Return a share in points."""
    return f"{100 * share:.1f}".removesuffix(".0")


def percent(value: float, low: float, high: float, *, of: str) -> str:
    """Return a share with its interval, rounded outwards: it must hold the truth as often."""
    return f"{100 * value:.0f} %{of} ({math.floor(100 * low)} to {math.ceil(100 * high)} %)"


def measured_classes(answers: LeftOut, pool: NDArray[Any], left: int) -> Interval | None:
    """Return the accuracy over unanswered rows; None if no better than always the commonest class."""
    right = answers.proba.argmax(axis=1) == answers.truth
    tops = (np.sort(np.maximum(p, 1e-12, dtype=float))[:, -2:] for p in (answers.proba, pool))
    known, others = (np.diff(np.log(two))[:, 0] for two in tops)  # how far the likeliest leads
    interval = estimated(known, right, answers.chosen, others, left)
    return interval if (interval.value or 0.0) > commonest(answers)[1] else None


def commonest(answers: LeftOut) -> tuple[int, float]:
    """Return the index of the commonest class, and its share, smoothed by one answer each."""
    random = answers.truth[~answers.chosen]
    truth = random if len(random) >= DEV_MINIMUM else answers.truth
    counts = np.bincount(truth, minlength=answers.proba.shape[1])
    return int(counts.argmax()), float((counts.max() + 1) / (counts.sum() + len(counts)))


def estimated(
    lead: NDArray[Any], right: NDArray[Any], chosen: NDArray[Any], pool: NDArray[Any], left: int
) -> Interval:
    """Return the accuracy over `left` rows like those of a pool, estimated from answers.

    log-odds(right) = α + β log(1 + l) + δ·chosen, with l = log p₁ - log p₂; a Laplace approximation, and
    β >= 0. `lead` is l of every answer, by a model without it, and `pool` of rows of the pool.
    """
    design = np.column_stack([np.ones(len(lead)), np.log1p(lead), chosen])
    alpha, beta, _ = drawn(design, right, weights_of(chosen), MEAN, PRECISION)
    places = np.quantile(np.log1p(pool), (np.arange(PLACES) + 0.5) / PLACES)
    shares = expit(alpha + np.maximum(beta, 0.0) * places[:, None]).mean(axis=0)
    return Interval.of(np.random.default_rng(1).binomial(left, shares) / left)
