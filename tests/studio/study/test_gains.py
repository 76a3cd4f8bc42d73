"""What labels brought, on the same dev rows, while the dev set grows."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from sklearn.datasets import load_digits

import goalward as gw
from goalward.goals import DevLoss
from goalward.studio.study import advice
from goalward.studio.study.rounds import StudyRound
from goalward.studio.study.state import State

X, y = load_digits(n_class=3, return_X_y=True)
X, y = X / 16, y.tolist()


def played(path, rounds=9, **options):
    """Return a study and its state at every ranking."""
    study = gw.Study.create(path, pool=X, classes=[0, 1, 2], **options)
    states = []
    for _ in range(rounds):
        study.tell_many([(row, y[row]) for row in study.ask(10)])
        states.append(study.state)
        study.refresh()
    return study, states


def measured(state, on):
    """Return the goal per dev row of one state, of the model of the training labels of another."""
    rows, dev = list(state.training), list(on.dev)
    learner = on.settings.fitter(on.classes)
    model = learner.fit(X[rows], [on.training[row] for row in rows], pool=X)
    return DevLoss(X[dev], list(on.dev.values())).value(model) / len(dev)


@pytest.mark.heavy
def test_a_gain_is_that_of_two_models_on_the_same_dev_rows(tmp_path):
    """Against models fitted by hand: the account rests on them."""
    study, states = played(tmp_path / "a.db", dev=0.3)
    ranked = [r for _, r in study.state.rounds]
    assert len(ranked) == len(states)
    steps = []
    for (before, now), (old, new) in zip(pairwise(states), pairwise(ranked), strict=True):
        if old.metric != "dev":
            assert new.metric == "dev" or new.goal_before == pytest.approx(old.goal, abs=1e-7)
            continue
        assert new.dev_labels > old.dev_labels
        assert new.goal_before == pytest.approx(measured(before, now), abs=1e-7)
        assert abs(new.goal_before - old.goal) > 1e-5
        steps.append(measured(now, now) - measured(before, now))
    assert len(steps) >= 5
    assert study.account()["gained"] == pytest.approx(sum(steps), abs=1e-6)


def test_ranking_again_for_dev_labels_alone_loses_no_step(tmp_path):
    study, states = played(tmp_path / "a.db", dev=0.3)
    free = np.flatnonzero(study.state.settings.is_dev(range(len(X))))
    more = [int(row) for row in free if row not in study.state.labels][:5]
    study.tell_many([(row, y[row]) for row in more])
    again = study.refresh()
    assert again.labels == len(states[-1].training)
    assert again.goal_before == pytest.approx(measured(states[-2], study.state), abs=1e-7)


def test_corrections_are_not_what_new_labels_brought(tmp_path):
    study, states = played(tmp_path / "a.db", dev=0.3)
    wrong = [*list(states[0].training)[:3], *list(states[0].dev)[:1]]
    study.tell_many([(row, (y[row] + 1) % 3) for row in wrong])
    study.tell_many([(row, y[row]) for row in study.ask(10, refresh=False)])
    ranked = study.refresh()
    now = study.state
    # The three rows were known before, as they are labelled now.
    assert len(StudyRound(now, study.pool).known_at(states[-1].seq)) == len(states[-1].training)
    assert ranked.goal_before == pytest.approx(measured(states[-1], now), abs=1e-7)


def test_goal_rows_that_stay_are_not_measured_again(tmp_path, monkeypatch):
    """Without dev rows the goal is that of fixed rows: no further fit, and the same number."""
    fits = []
    fitted = StudyRound.model_at
    monkeypatch.setattr(
        StudyRound, "model_at", lambda self, seq: fits.append(seq) or fitted(self, seq)
    )
    study, states = played(tmp_path / "a.db", dev=0.0, rounds=5)
    ranked = [r for _, r in study.state.rounds]
    assert not fits
    assert [r.goal_before for r in ranked[1:]] == [r.goal for r in ranked[:-1]]
    now = StudyRound(states[-1], study.pool)
    refitted = now.goal.value(fitted(now, ranked[-2].based_on)) / len(now.goal_rows)
    assert ranked[-1].goal_before == pytest.approx(refitted, abs=1e-7)


def test_rises_that_were_not_measured_on_the_same_rows_do_not_count(tmp_path, monkeypatch):
    study, _ = played(tmp_path / "a.db", dev=0.3)
    rounds = [(seq, replace(r, goal_before=None)) for seq, r in study.state.rounds]
    monkeypatch.setattr(State, "rounds", rounds)
    assert advice.account(study.state)["gained"] is None
