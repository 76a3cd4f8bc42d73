"""One round of a study: the model of the present labels, the goal it is watched by, and what is due.

Everything is computed from the state and the pool: models are fitted from zero and clocks are not
read, so the same events give the same numbers, in whatever process and after whatever crash.
"""

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
from goalward.strategies import recipe
from goalward.studio.study.model import StudyModel
from goalward.studio.study.pools import StudyPool
from goalward.studio.study.state import State
from goalward.utility.one_by_one import OneByOne

DEV_MINIMUM = 10
"""Dev labels, of two classes at least, before they measure or steer anything."""
When = Literal["any", "refit", "soon"]


def ready(state: State) -> bool:
    """Return whether a model can be fitted: of labels of two classes among the training rows, say."""
    return state.settings.answer.ready(state)


def refit_due(state: State, when: When = "refit", *, used_up: bool = False) -> bool:
    """Return whether to fit and rank now: the one rule of page, terminal and programs.

    A model must be possible. Then it is due where there is no ranking, or one of other settings
    (`State.news` has no end then), where it is used up, or where enough answers changed since.
    "any": one. "refit": the study's `refit`. "soon": sooner than that while there are few labels, a
    quarter of what the model knows; for those who rank in the background, where nobody waits.
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
                f"There is no model yet: {self.state.settings.answer.waits}. Rows that cover the pool "
                "are asked until then."
            )

    def models(self, state: State) -> bool:
        """Return whether its model is that of a state too: no answer, setting or class changed."""
        return all(
            getattr(self.state, name) == getattr(state, name)
            for name in ("moves", "settings", "classes", "pool")
        )

    @cached_property
    def fitted(self) -> Fitted:
        """The model of the training labels; where C is to be chosen, it is, for the whole round."""
        return self._fitted(self.state.training, {})

    @cached_property
    def exported(self) -> StudyModel:
        """The model of all labels, those that measure too: at least as good as the one measured."""
        kind = self.state.settings.kind
        return StudyModel.of(self.fit(self.state.labels), self.state.classes, kind=kind)

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

        To first order: ⟨p, s⟩ - s_k with s = J v and v = -𝓗⁻¹∇τ (Eq. 3), times the label's weight.
        The label that frees the intercepts is far from that: the model is fitted with it.
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

    def fit(self, labels: Any) -> Fitted:
        """Return the model of row -> label, with the C of the round and its trust in guesses."""
        # Guesses count as much as they did there, or not at all.
        classes = self.state.settings.kind == "class"
        chosen = {"C": self.fitted.C, "opinion": self.fitted.transform} if classes else {}
        return self._fitted(labels, chosen)

    def _fitted(self, labels: Any, chosen: dict[str, Any]) -> Fitted:
        learner = self.state.settings.fitter(self.state.classes)
        if self.state.settings.kind == "class":
            learner = learner.having(**{"opinion": self.pool.opinion, **chosen})
        fitted: Fitted = learner.fit(self.pool.take(list(labels)), self.state.targets(labels))
        return fitted

    def model_at(self, seq: int) -> Fitted:
        """Return the model of the training rows that had an answer by then, as labelled now."""
        return self._fitted(self.known_at(seq), {})

    def known_at(self, seq: int) -> Mapping[int, Any]:
        """Return row -> label, as labelled now, of the training rows with an answer by then."""
        answered, first = self.state.first_answers
        known = first[np.searchsorted(answered, self.state.used[0])] <= seq
        return self.state.labels_at(known & ~self.state.measuring)

    def goal_before(self) -> float | None:
        """Return the goal, per row, of the model of the last ranking with other training labels.

        It is fitted again from the rows that had an answer by then, as labelled now, so that its
        difference to the goal is what the new labels brought: not other dev rows, nor corrections.
        Where nothing but new training labels came since, it is the goal stored then.
        """
        state, labels = self.state, len(self.state.training)
        # The last one with another number of labels, as `bought_rounds` counts them.
        before = next((r for _, r in reversed(state.rounds) if r.labels != labels), None)
        if before is None or (before.metric == "dev") != self.has_dev:
            return None
        known = self.known_at(before.based_on)
        classes = len(set(known.values()))
        # Labels of all classes were known: none was declared since.
        only_new = classes == len(state.classes) and state.moves - before.moves == labels - len(
            known
        )
        if before.goal is not None and only_new:
            return before.goal
        if classes < 2:
            return None
        return self.goal.value(self.model_at(before.based_on)) / len(self.goal_rows)
