"""An answer of several labels: each a yes or a no by itself, or not answered."""

from __future__ import annotations

import csv
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from goalward.errors import BadParameter
from goalward.models.multi_label import MultiLabel
from goalward.strategies.recipes import RECOMMENDED_FOR
from goalward.studio.store.events import Label
from goalward.studio.study.answers import Doubts, LeftOut
from goalward.studio.study.kind import Kind, by_number, percent, place_of, points
from goalward.studio.study.scores import (
    MEAN,
    PRECISION,
    ClassScores,
    Interval,
    Scored,
    drawn,
    in_hundredths,
    weights_of,
    wilson,
)

if TYPE_CHECKING:
    from goalward.studio.study.rounds import StudyRound
    from goalward.studio.study.state import State as Answered

OWN, YES = 0.5, 1.0
"""Prior deviations between labels, and between yes and no, in log-odds of being right."""
ROWS = 300
"""Rows of the pool to average over."""


@dataclass(frozen=True)
class LabelScores(Scored):
    """Scores of each label, and the share of yes and no that are right; the rest as in `Scores`."""

    labels: tuple[ClassScores, ...]
    right: Interval
    on: int
    chosen: int


class SeveralLabels(Kind):
    """Each label is a yes or a no by itself, or not answered."""

    name = "labels"
    learner = MultiLabel
    auto = RECOMMENDED_FOR["labels"]
    measure = "macro-F1"
    unit = " of macro-F1"
    waits = "answer until some label has a yes and a no"
    typing = "numbers or names with commas, or - for none: answer"
    each = " yes and as many no to each label"
    followed = 4000
    examples = ((True,), (False,)) * 6

    def check_names(self, names: Sequence[Label]) -> None:
        texts = all(isinstance(name, str) for name in names)
        if not names or not texts or len(set(names)) < len(names):
            raise BadParameter(
                f"classes must be the names of the labels, one or more distinct texts, got {list(names)!r}. "
                "Write classes=['urgent', 'billing']."
            )

    def checked(self, given: Any, classes: Sequence[Label], renamed: Mapping[Label, Label]) -> Any:
        if isinstance(given, Mapping):
            values = {place_of(classes, renamed, name): value for name, value in given.items()}
            for value in values.values():
                if value is not None and not isinstance(value, (bool, np.bool_)):
                    raise BadParameter(
                        f"Each label must be answered by True, False or None, got {value!r} in {given!r}."
                    )
            each = (values.get(k) for k in range(len(classes)))
            answer = tuple(None if value is None else bool(value) for value in each)
        elif isinstance(given, Collection) and not isinstance(given, (str, bytes)):
            yes = {place_of(classes, renamed, name) for name in given}
            answer = tuple(k in yes for k in range(len(classes)))
        else:
            raise BadParameter(
                "The answer must be the set of the labels that hold, or a dict of True, False or None, "
                f"got {given!r}. Write {{{classes[0]!r}}}, or set() where none holds."
            )
        if all(value is None for value in answer):
            raise BadParameter(
                "The answer must have one label at least, got none. Skip the row instead."
            )
        return answer

    def declared(self, answer: Any, classes: tuple[Label, ...]) -> tuple[Label, ...]:
        return (*classes, *(f"lost label {k + 1}" for k in range(len(classes), len(answer))))

    def typed(self, line: str, classes: Sequence[Label]) -> Any:
        known = by_number(classes)
        if line in known:
            return [known[line]]
        if line == "-":
            return []
        words = [word.strip() for word in next(csv.reader([line], skipinitialspace=True), [])]
        if len(words) == 1:
            words = words[0].split()
        return [known[word] for word in words] if words and known.keys() >= set(words) else None

    def pressed(self, sent: Any, classes: Sequence[Label]) -> Any:
        return [classes[place] for place in sent]

    def words(self, answer: Any, classes: Sequence[Label]) -> str:
        holds = dict(zip(map(str, classes), answer, strict=False))
        yes = ", ".join(name for name, value in holds.items() if value) or "none of them"
        left = [str(name) for name in classes if holds.get(str(name)) is None]
        return f"{yes} (not answered: {', '.join(left)})" if left else yes

    def fits(self, answer: Any, name: str, classes: Sequence[Label]) -> bool:
        return any(
            holds and str(label) == name for label, holds in zip(classes, answer, strict=False)
        )

    def coded(self, answer: Any, classes: Sequence[Label]) -> str:
        return json.dumps(answer)

    def decoded(self, text: str, classes: Sequence[Label]) -> Any:
        return tuple(json.loads(text))

    def counted(self, text: str) -> Iterator[tuple[Any, ...]]:
        yield (True,)
        for place, value in enumerate(json.loads(text)):
            if value is not None:
                yield place, value

    def per_class(self, state: Answered) -> dict[Label, int]:
        return {name: _rows(state, place, True) for place, name in enumerate(state.classes)}

    def least(self, state: Answered) -> dict[str, int]:
        return {
            f"{name}: {word}": _rows(state, place, value)
            for place, name in enumerate(state.classes)
            for word, value in (("yes", True), ("no", False))
        }

    def fitter(self, params: Mapping[str, Any], classes: Sequence[Label]) -> Any:
        return MultiLabel(**{**params, "labels": list(classes)})

    def ready(self, state: Answered) -> bool:
        return any(
            all(state.counted("label", False, place, value) for value in (True, False))
            for place in range(len(state.classes))
        )

    def targets(self, answers: Sequence[Any], classes: Sequence[Label]) -> NDArray[Any]:
        table = np.full((len(answers), len(classes)), np.nan)
        for line, answer in zip(table, answers, strict=True):
            line[: len(answer)] = [np.nan if value is None else float(value) for value in answer]
        return table

    def truth(self, state: Answered) -> NDArray[Any]:
        return self.targets([state.used_labels[code] for code in state.used[1]], state.classes)

    def predicted(self, proba: NDArray[Any]) -> list[Any]:
        holds: list[Any] = (proba > 0.5).astype(int).T.tolist()
        return holds

    def measured(
        self, now: StudyRound, answers: LeftOut, rows: NDArray[Any], proba: NDArray[Any]
    ) -> tuple[Interval | None, dict[str, Any], float | None]:
        f1, right = measured_labels(answers, proba)
        return f1, {"right": list(right)}, None

    def scores(self, now: StudyRound) -> LabelScores:
        answers = LeftOut.scored(now)
        answered, yes = ~np.isnan(answers.truth), answers.truth > 0.5
        predicted = answered & (answers.proba > 0.5)
        counts = zip(
            (yes & predicted).sum(axis=0), yes.sum(axis=0), predicted.sum(axis=0), strict=True
        )
        pairs = zip(now.state.classes, counts, strict=True)
        right = wilson(int((answered & (yes == predicted)).sum()), int(answered.sum()))
        scores = tuple(ClassScores.of(label, *of) for label, of in pairs)
        return LabelScores(scores, right, len(answers.rows), int(answers.chosen.sum()))

    def doubts(self, now: StudyRound, most: int | None = None) -> Doubts:
        answers = LeftOut.of(now)
        answered, yes = ~np.isnan(answers.truth), answers.proba > 0.5
        doubt = np.where(answers.truth > 0.5, 1.0 - answers.proba, answers.proba)
        doubt = np.where(answered, doubt, 0.0).max(axis=1)
        says = [
            {name: bool(yes[i, k]) for k, name in enumerate(now.state.classes) if answered[i, k]}
            for i in range(len(doubt))
        ]
        return Doubts.by(answers, doubt, doubt, says, most=most)

    def mistake(
        self, answer: Any, says: Any, doubt: float, classes: Sequence[Label]
    ) -> tuple[str, str] | None:
        pairs = zip(classes, answer, strict=False)
        if not any(value is not None and says.get(name, value) != value for name, value in pairs):
            return None
        yes = ", ".join(str(name) for name in classes if says.get(name))
        return yes or "none of them", f"it gives one of these answers {100 * (1 - doubt):.0f} %"

    def good(self, value: float, low: float, high: float, also: Mapping[str, Any]) -> str:
        right = percent(*also["right"], of=" of yes and no right")
        return f"About {right}, macro-F1 about {in_hundredths(value, low, high)}."

    def changed(self, changed: float) -> str:
        return f"changed {points(changed)} of 100 labels that are said to hold"


def _rows(state: Answered, place: int, value: bool) -> int:
    return sum(state.counted("label", dev, place, value) for dev in (False, True))


def measured_labels(answers: LeftOut, pool: NDArray[Any]) -> tuple[Interval, Interval]:
    """Return macro-F1 over a pool, and the share of its yes and no that are right.

    As `kind.estimated`, by logit, with terms for yes and for each label. Answers of a row err together:
    its K labels count as √K answers.
    """
    n, K = answers.proba.shape
    answered = ~np.isnan(answers.truth)
    right = (answers.proba > 0.5) == (answers.truth > 0.5)
    design = _design(answers.proba, answers.chosen)
    weights = np.broadcast_to(weights_of(answers.chosen)[:, None] / K**0.5, (n, K))
    mean = np.concatenate([MEAN, np.zeros(1 + 2 * K)])
    precision = np.diag(np.concatenate([np.zeros(3), [YES**-2.0], np.full(2 * K, OWN**-2.0)]))
    precision[:3, :3] = PRECISION
    theta = drawn(design[answered], right[answered], weights[answered], mean, precision)
    theta[1] = np.maximum(theta[1], 0.0)
    shown = pool[np.linspace(0, len(pool) - 1, min(len(pool), ROWS)).astype(int)]
    f1, share = np.zeros(theta.shape[1]), np.zeros(theta.shape[1])
    for k, lines in enumerate(_design(shown, np.zeros(len(shown))).swapaxes(0, 1)):
        good, yes = expit(lines @ theta), shown[:, k] > 0.5
        hits, missed = good[yes].sum(axis=0), (1.0 - good[~yes]).sum(axis=0)
        f1 += 2.0 * hits / (hits + missed + yes.sum()) / K
        share += good.mean(axis=0) / K
    return Interval.of(f1), Interval.of(share)


def _design(proba: NDArray[Any], chosen: NDArray[Any]) -> NDArray[Any]:
    """Return (n, K, 4 + 2K): 1, log(1 + |logit|), chosen, yes; and for each label 1 and yes."""
    n, K = proba.shape
    lead = np.log1p(np.abs(logit(np.clip(proba.astype(np.float64), 1e-12, 1.0 - 1e-12))))
    yes = (proba > 0.5) - 0.5
    picked = np.broadcast_to(np.asarray(chosen, dtype=np.float64)[:, None], (n, K))
    shared = np.stack([np.ones((n, K)), lead, picked, yes], axis=-1)
    own = np.broadcast_to(np.eye(K), (n, K, K))
    return np.concatenate([shared, own, own * yes[:, :, None]], axis=-1)
