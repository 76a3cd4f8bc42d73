"""An answer of one number."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf

from goalward.core.arrays import to_numpy
from goalward.errors import BadParameter
from goalward.models.fitted import Fitted
from goalward.models.ridge import Ridge
from goalward.strategies.recipes import RECOMMENDED_FOR
from goalward.studio.store.events import Label
from goalward.studio.study.answers import Doubts, LeftOut
from goalward.studio.study.kind import Kind
from goalward.studio.study.scores import DRAWS, Interval, Scored, in_hundredths, weights_of

if TYPE_CHECKING:
    from goalward.studio.study.rounds import StudyRound
    from goalward.studio.study.state import State as Answered

SLOPE, CHOSEN, OFFSET = 0.5, 0.5, 3.0
"""Prior deviations of β, δ and α below."""
KURTOSIS, FEW = 2.0, 10
"""The prior of the variance of squared errors over their squared mean, and the answers it counts for."""
WIDER = 2.0
"""Factor of the variance of α, β and δ, for intervals that hold the truth nine times in ten."""
SHRUNK = 0.2
"""Deviation of how much too flat or too steep predictions are."""
FEW_THOUSAND = 5000
"""Answers drawn for an interval at most."""
LARGEST = 10
"""Errors that are shown, the largest first."""


class Off(NamedTuple):
    """A row, its number, and the prediction of a model without it."""

    row: int
    answer: float
    says: float


@dataclass(frozen=True)
class NumberScores(Scored):
    """R², mean absolute and root mean square error, with bootstrap intervals; the largest errors."""

    r2: Interval
    mean_error: Interval
    typical_error: Interval
    largest: tuple[Off, ...]
    on: int
    chosen: int


class OneNumber(Kind):
    """One number for each row; the study's only name is that of the number."""

    name = "numbers"
    learner = Ridge
    auto = RECOMMENDED_FOR["numbers"]
    measure = "R²"
    unit = " of R²"
    waits = "answer until there are two numbers to learn from"
    typing = "a number: answer"
    each = ""
    examples = (0.0, 1.0, 2.0, 3.0, 4.0, 0.0) * 2

    def check_names(self, names: Sequence[Label]) -> None:
        if len(names) != 1 or not isinstance(names[0], str):
            raise BadParameter(
                f"classes must be the name of one number, since a study asks one number of each row, got "
                f"{list(names)!r}. Write classes=['price']."
            )

    def checked(self, given: Any, classes: Sequence[Label], renamed: Mapping[Label, Label]) -> Any:
        value = given.item() if hasattr(given, "item") else given
        real = isinstance(value, Real) and not isinstance(value, bool)
        # Whole numbers have no end, and floats do.
        if not real or not abs(value) <= sys.float_info.max:
            raise BadParameter(f"The answer must be a finite number, 3.5, say, got {given!r}.")
        return float(value)

    def declared(self, answer: Any, classes: tuple[Label, ...]) -> tuple[Label, ...]:
        return classes

    def typed(self, line: str, classes: Sequence[Label]) -> Any:
        try:
            return float(line)
        except ValueError:
            return None

    def pressed(self, sent: Any, classes: Sequence[Label]) -> Any:
        return sent

    def offered(self, classes: Sequence[Label]) -> str:
        return f"{classes[0]}?"

    def words(self, answer: Any, classes: Sequence[Label]) -> str:
        return f"{answer:.15g}"

    def coded(self, answer: Any, classes: Sequence[Label]) -> str:
        return json.dumps(answer)

    def decoded(self, text: str, classes: Sequence[Label]) -> Any:
        return json.loads(text)

    def counted(self, text: str) -> Iterator[tuple[Any, ...]]:
        yield (True,)

    def per_class(self, state: Answered) -> dict[Label, int]:
        return {state.classes[0]: state.n_labels}

    def least(self, state: Answered) -> dict[str, int]:
        return {}

    def fitter(self, params: Mapping[str, Any], classes: Sequence[Label]) -> Any:
        return Ridge(**{**params, "outputs": list(classes)})

    def ready(self, state: Answered) -> bool:
        return state.n_training >= 2

    def targets(self, answers: Sequence[Any], classes: Sequence[Label]) -> NDArray[Any]:
        return np.array(answers, dtype=np.float64)

    def truth(self, state: Answered) -> NDArray[Any]:
        used = [state.used_labels[code] for code in state.used[1]]
        return self.targets(used, state.classes)[:, None]

    def predicted(self, proba: NDArray[Any]) -> list[Any]:
        return [float(f"{x:.6g}") for x in proba.ravel()]

    def measured(
        self, now: StudyRound, answers: LeftOut, rows: NDArray[Any], proba: NDArray[Any]
    ) -> tuple[Interval | None, dict[str, Any], float | None]:
        v = leverages(now.fitted, now.pool.take(rows))
        r2, error, scale = measured_numbers(answers, _known_leverages(now, answers), proba, v)
        return r2, {"error": list(error)}, scale

    def scores(self, now: StudyRound) -> Any:
        answers = LeftOut.scored(now)
        truth, says = answers.truth[:, 0], answers.proba[:, 0]
        off, n = np.abs(truth - says), len(truth)
        # Of many answers, some: intervals are wider than they could be.
        again = np.random.default_rng(0).integers(n, size=(2000, min(n, FEW_THOUSAND)))
        varied = np.maximum(np.var(truth[again], axis=1), 1e-300)
        squares, whole = np.mean(off[again] ** 2, axis=1), float(np.var(truth))
        square = float(np.mean(off**2))
        first = np.argsort(-off, kind="stable")[:LARGEST]
        return NumberScores(
            _within(1.0 - square / whole if whole else None, 1.0 - squares / varied),
            _within(float(off.mean()), off[again].mean(axis=1)),
            _within(square**0.5, np.sqrt(squares)),
            tuple(Off(int(answers.rows[i]), float(truth[i]), float(says[i])) for i in first),
            n,
            int(answers.chosen.sum()),
        )

    def doubts(self, now: StudyRound, most: int | None = None) -> Doubts:
        answers = LeftOut.of(now)
        v, pool = _known_leverages(now, answers), leverages(now.fitted, now.pool.take(now.sample))
        errors = (answers.truth - answers.proba)[:, 0]
        variance = ErrorSize.of(errors, v, answers.chosen, pool).variance(v, answers.chosen)
        off = np.abs(errors) / np.maximum(np.sqrt(variance), 1e-150)
        return Doubts.by(answers, off, erf(off / 2**0.5), answers.proba[:, 0].tolist(), most=most)

    def mistake(
        self, answer: Any, says: Any, doubt: float, classes: Sequence[Label]
    ) -> tuple[str, str] | None:
        if doubt <= 0.95:
            return None
        few = "less than 1" if doubt > 0.99 else f"{100 * (1 - doubt):.0f}"
        return f"{says:.4g}", f"{few} of 100 answers are as far off"

    def good(self, value: float, low: float, high: float, also: Mapping[str, Any]) -> str:
        error, least, most = (f"{x:.2g}" if abs(x) < 100 else f"{x:.0f}" for x in also["error"])
        r2 = in_hundredths(value, low, high)
        return f"R² about {r2}, typically off by {error} ({least} to {most})."

    def changed(self, changed: float) -> str:
        return f"moved predictions by {changed:.2g} standard deviations"


def _within(value: float | None, draws: NDArray[Any]) -> Interval:
    low, high = np.quantile(draws, [0.025, 0.975]).tolist()
    if value is None:
        return Interval(value, low, high)
    return Interval(value, min(value, low), max(value, high))


def _known_leverages(now: StudyRound, answers: LeftOut) -> NDArray[Any]:
    """Return the leverages of a round's answers: those that train first, left out."""
    parts, measuring = [leverages(now.fitted)], answers.rows[~answers.chosen]
    if len(measuring):
        parts.append(leverages(now.fitted, now.pool.take(measuring)))
    return np.concatenate(parts)


@dataclass(frozen=True, eq=False)
class ErrorSize:
    """The size of squared errors: log E[e² / (1 + v)] = α + β (log v - centre) + δ·chosen."""

    theta: NDArray[Any]
    covariance: NDArray[Any]
    centre: float

    @classmethod
    def of(
        cls, errors: NDArray[Any], v: NDArray[Any], chosen: NDArray[Any], pool: NDArray[Any]
    ) -> ErrorSize:
        """Return the sizes learned from errors of answers with leverages v."""
        weights, centre = weights_of(chosen), float(np.mean(np.log(pool)))
        squares = errors**2 / (1.0 + v)
        design = np.column_stack([np.ones(len(v)), np.log(v) - centre, chosen])
        level = np.log(max(float(np.average(squares, weights=weights)), 1e-300))
        mean = np.array([level, 0.0, 0.0])
        precision = np.diag(np.array([OFFSET, SLOPE, CHOSEN]) ** -2.0)
        theta, kurtosis = mean, KURTOSIS
        for _ in range(100):
            ratio = squares / np.exp(design @ theta)
            slope = design.T @ (weights * (ratio - 1.0)) / kurtosis - precision @ (theta - mean)
            curvature = (design * weights[:, None]).T @ design / kurtosis + precision
            step = np.linalg.solve(curvature, slope)
            largest = float(np.abs(step).max())
            theta = theta + step * min(1.0, 1.0 / max(largest, 1e-300))
            tails = float(np.sum(weights * (ratio - 1.0) ** 2))
            kurtosis = (KURTOSIS * FEW + tails) / (FEW + float(weights.sum()))
            if largest < 1e-9:
                break
        return cls(theta, WIDER * np.linalg.inv(curvature), centre)

    def variance(self, v: NDArray[Any], chosen: NDArray[Any]) -> NDArray[Any]:
        alpha, beta, delta = self.theta
        logs = alpha + beta * (np.log(v) - self.centre) + delta * chosen
        return np.asarray(np.exp(logs) * (1.0 + v))

    def draws(self, v: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
        """Return draws of the mean squared error over rows that were not chosen."""
        noise = rng.standard_normal((3, DRAWS))
        alpha, beta, _ = self.theta[:, None] + np.linalg.cholesky(self.covariance) @ noise
        logs = np.log(v)[:, None] - self.centre
        errors = np.exp(alpha + np.clip(beta, -0.5, 2.0) * logs) * (1.0 + v)[:, None]
        return np.asarray(errors.mean(axis=0))


def measured_numbers(
    answers: LeftOut, v: NDArray[Any], pool: NDArray[Any], pool_v: NDArray[Any]
) -> tuple[Interval, Interval, float]:
    """Return R² over a pool, the typical error (root mean square), and the variance of the numbers.

    Strategies ask for rows of high leverage, where errors are larger: the squared error is learned as a
    function of leverage (`v`, `pool_v`) and averaged over the pool.
    """
    says, truth = answers.proba[:, 0], answers.truth[:, 0]
    errors, rng = truth - says, np.random.default_rng(0)
    spread = ErrorSize.of(errors, v, answers.chosen, pool_v)
    squares = spread.draws(pool_v, rng)
    weights = weights_of(answers.chosen) / np.maximum(spread.variance(v, answers.chosen), 1e-300)
    middle = says - np.average(says, weights=weights)
    known = float(np.sum(weights * middle**2)) + SHRUNK**-2.0
    steeper = float(np.sum(weights * middle * errors)) / known
    slopes = steeper + known**-0.5 * rng.standard_normal(DRAWS)
    varied = np.var(pool) * (1.0 + 2.0 * slopes) + squares
    varied = np.maximum(varied, 0.5 * squares)
    r2 = 1.0 - squares / np.maximum(varied, 1e-300)
    return Interval.of(r2), Interval.of(np.sqrt(squares)), float(varied.mean())


def leverages(fitted: Fitted, X: Any = None) -> NDArray[Any]:
    """Return the variance of predictions over that of the noise; without X, leave-one-out."""
    known = fitted.labelled.X
    rows = known if X is None else fitted.features(X.astype(np.float64))
    inverse = fitted.posterior(known, "How good it is")
    h = to_numpy(inverse.leverage(rows, inverse.coordinates(rows)))[:, 0, 0]
    if X is None:
        h = h / np.maximum(1.0 - h, 1e-6)
    return np.asarray(np.maximum(h, 1e-9))
