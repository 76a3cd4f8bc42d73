"""One round of a study: its model, goal and what is due, computed from the state and pool alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from goalward.core.arrays import to_numpy
from goalward.core.draws import drawn_rows
from goalward.errors import BadParameter
from goalward.goals import DevLoss, Entropy, Goal
from goalward.models import Fitted
from goalward.models.features import is_plain
from goalward.strategies import recipe
from goalward.studio.study.answers import Doubts
from goalward.studio.study.kind import DEV_MINIMUM
from goalward.studio.study.model_file import StudyModel
from goalward.studio.study.pools import StudyPool
from goalward.studio.study.state import State
from goalward.utility.one_by_one import OneByOne

When = Literal["any", "refit", "soon"]


def ready(state: State) -> bool:
    """Return whether a model can be fitted: of labels of two classes among the training rows, say."""
    return state.settings.answer.ready(state)


def refit_due(state: State, when: When = "refit", *, used_up: bool = False) -> bool:
    """Return whether to fit and rank now: where a ranking is missing, used up or out of date.

    "any": after one change of answers; "refit": after the study's `refit`; "soon", in the background:
    after a quarter of the labels while these are few.
    """
    if not ready(state):
        return False
    refit = state.settings.refit
    enough = {"any": 1, "refit": refit, "soon": min(refit, max(1, state.n_training // 4))}
    return used_up or state.news >= enough[when]


@dataclass(frozen=True, eq=False)
class StudyRound:
    """A state with labels of two classes, and its pool."""

    state: State = field(repr=False)
    pool: StudyPool = field(repr=False)

    def __post_init__(self) -> None:
        if not ready(self.state):
            raise BadParameter(
                f"There is no model yet: {self.state.settings.answer.waits}. Until then, rows that "
                "cover the pool are asked."
            )

    @cached_property
    def fitted(self) -> Fitted:
        """The model of the training labels; where C is to be chosen, it is, for the whole round."""
        return self._fitted(self.state.training)

    @cached_property
    def exported(self) -> StudyModel:
        """The model of all labels, those that measure too: at least as good as the one measured."""
        kind, chosen = self.state.settings.kind, {}
        # C, the features and the trust in guesses are those of the round.
        fitted, learner = self.fitted, self.state.settings.learner
        if learner.get("features", "linear") != "linear":
            chosen["features"] = fitted.feature_map or "linear"
        if kind == "class":
            chosen |= {"C": fitted.C, "opinion": fitted.opinion}
        fitted = self._fitted(self.state.labels, **chosen)
        return StudyModel.of(fitted, self.state.classes, kind=kind)

    @cached_property
    def doubts(self) -> Doubts:
        """The answered rows, most doubted first."""
        return self.state.settings.answer.doubts(self)

    @cached_property
    def has_dev(self) -> bool:
        """Whether there are dev labels enough to measure with."""
        dev = self.state.dev
        return len(dev) >= DEV_MINIMUM and len(set(dev.values())) >= 2

    @cached_property
    def recipe(self) -> str:
        """The strategy of this round; the dev goal waits for dev labels."""
        chosen, auto = self.state.settings.strategy, self.state.settings.auto
        if chosen == "auto":
            return auto
        return auto if "dev" in recipe(chosen).needs and not self.has_dev else chosen

    @cached_property
    def sample(self) -> NDArray[Any]:
        """A fixed random part of the pool, which goals without labels look at."""
        settings = self.state.settings
        return drawn_rows(self.pool.n_rows, settings.goal_rows, settings.seed)

    @cached_property
    def goal_rows(self) -> NDArray[Any]:
        """The rows the goal looks at: dev rows, or the sample."""
        return np.array(list(self.state.dev)) if self.has_dev else self.sample

    @cached_property
    def goal(self) -> Goal:
        """The dev log-likelihood, or certainty on goal rows where there are no dev labels."""
        self.state.settings.answer.need("What a label would do to the goal")
        X = self.pool.take(self.goal_rows)
        return DevLoss(X, list(self.state.dev.values())) if self.has_dev else Entropy(X)

    def changes(self, rows: Sequence[int] | NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the change of the goal with each label of each row, per goal row, and P(label).

        To first order: ⟨p, s⟩ - s_k with s = J v and v = -𝓗⁻¹∇τ (Eq. 3), times the label's weight; a label
        that frees the intercepts is fitted.
        """
        fitted = self.fitted
        # Pools may be in single precision, in which a solver cannot keep its tolerance.
        features = fitted.features(self.pool.take(rows).astype(np.float64))
        proba = fitted.loss.proba(fitted.logits_of(features))
        direction = -fitted.solve(self.goal.gradient(fitted)).value
        motion = fitted.model.linear("a study").jvp(features, direction)
        moved = to_numpy(fitted.loss.along(proba, motion) * fitted.label_weights)
        if fitted.freeing is not None:
            exact = OneByOne.of(fitted, self.goal).labelled_as(features, [fitted.freeing])
            moved[:, [fitted.freeing]] = to_numpy(exact)
        return moved / len(self.goal_rows), to_numpy(proba)

    def _fitted(self, labels: Any, **chosen: Any) -> Fitted:
        learner = self.state.settings.fitter(self.state.classes)
        if not is_plain(learner.features):
            learner = learner.having(features=self.pool.maps(learner.features))
        if self.state.settings.kind == "class" and self.pool.guesses is not None:
            first = None if is_plain(learner.features) else learner.features[0]
            learner = learner.having(opinion=self.pool.opinion(first))
        learner = learner.having(**chosen)
        fitted: Fitted = learner.fit(self.pool.take(list(labels)), self.state.targets(labels))
        return fitted

    def model_at(self, seq: int) -> Fitted:
        """Return the model of the training rows that had an answer by then, as labelled now."""
        return self._fitted(self.known_at(seq))

    def known_at(self, seq: int) -> Mapping[int, Any]:
        """Return row -> label, as labelled now, of the training rows with an answer by then."""
        answered, first = self.state.first_answers
        known = first[np.searchsorted(answered, self.state.used[0])] <= seq
        return self.state.labels_at(known & ~self.state.measuring)

    def goal_before(self) -> float | None:
        """Return the goal, per row, of the last model with other labels, fitted to these as labelled now."""
        state, labels = self.state, len(self.state.training)
        # The last one with another number of labels, as `bought_rounds` counts them.
        before = next((r for _, r in reversed(state.rounds) if r.labels != labels), None)
        if before is None or (before.metric == "dev") != self.has_dev:
            return None
        known = self.known_at(before.based_on)
        classes = len(set(known.values()))
        # Labels of all classes were known: none was declared since.
        new = labels - len(known)
        only_new = classes == len(state.classes) and state.moves - before.moves == new
        if before.goal is not None and only_new:
            return before.goal
        if classes < 2:
            return None
        return self.goal.value(self.model_at(before.based_on)) / len(self.goal_rows)
