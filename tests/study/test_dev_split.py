"""Studies that keep half of their dev rows back, and the models of past rounds."""

import numpy as np
from sklearn.datasets import load_digits

import goalward as gw
from goalward.goals.dev_folds import steering
from goalward.study.rounds import StudyRound

X, y = load_digits(n_class=3, return_X_y=True)
X, y = X[:300] / 16, y[:300]
SPLIT = "dev-split/spread/first-order/top"


def played(path, *, rounds=9, truth=y, strategy=SPLIT, dev=0.3):
    study = gw.Study.create(path, pool=X, classes=[0, 1, 2], strategy=strategy, dev=dev, seed=3)
    for _ in range(rounds):
        study.tell_many([(row, int(truth[row])) for row in study.ask(10)])
    study.refresh()
    return study


def test_rows_stay_on_their_side_and_only_one_side_steers(tmp_path):
    study = played(tmp_path / "a.db", rounds=6)
    now = StudyRound(study.state, study.pool)
    early = played(tmp_path / "b.db", rounds=5)
    before = StudyRound(early.state, early.pool)
    side = dict(zip(now.goal_rows.tolist(), steering(now.goal_rows, 3).tolist(), strict=True))
    old = dict(zip(before.goal_rows.tolist(), steering(before.goal_rows, 3).tolist(), strict=True))
    assert len(old) < len(side)
    assert old.items() <= side.items()
    assert now.recipe == SPLIT
    # Other labels on the rows kept back: the same queue.
    queue = study.state.ranking.queue
    study.tell_many([(row, (int(y[row]) + 1) % 3) for row, steers in side.items() if not steers])
    assert study.refresh().queue == queue
    changed = next(row for row, steers in side.items() if steers)
    study.tell(changed, (int(y[changed]) + 1) % 3)
    assert study.refresh().queue != queue


def test_past_models_are_those_of_the_labels_that_had_come(tmp_path):
    study = played(tmp_path / "a.db", rounds=6)
    now = StudyRound(study.state, study.pool)
    for seq, ranked in study.state.rounds:
        assert len(now.model_at(seq).labelled) == ranked.labels
    early = played(tmp_path / "b.db", rounds=4)
    seq = early.state.seq
    np.testing.assert_allclose(
        now.model_at(seq).params, StudyRound(early.state, early.pool).fitted.params, atol=1e-9
    )
