"""The one loop of all experiments: from no label, with wrong answers, any learner."""

import numpy as np
import polars as pl
import pytest

import goalward as gw
from goalward.errors import BadParameter
from goalward.lab import Session, rounds, simulate
from goalward.lab.datasets import digits, wine
from goalward.lab.datasets.dataset import flipped
from goalward.lab.parallel import appending, records
from goalward.lab.session import fitted_to, measure
from goalward.strategies import Margin, cold_start

QUIET = {"n_jobs": 1, "progress": False}


def played(seed=0, **conditions):
    data = wine().under(**conditions)
    session = Session(data, gw.recipe("margin"), seed, batch=2, budget=12)
    return session, list(session.steps())


def test_a_session_starts_from_nothing_and_pays_for_every_label():
    session, steps = played(from_nothing=True)
    assert len(session.split.init) == 0
    assert set(wine().split(0).init) <= set(session.split.pool)
    assert len(steps[0].model.labelled) == 0
    # What covers the pool comes first; the strategy chooses once two classes have labels.
    for step in steps[:-1]:
        ask = {"batch": 2, "rows": session.split.pool, "round": len(step.spent) // 2}
        begun = len(set(wine().y[step.spent])) >= 2
        chooser = Margin() if begun else cold_start(session.X_pool)
        expected = chooser.suggest(step.model, session.X_pool, exclude=step.spent, **ask)
        assert step.rows == expected.rows.tolist()
    bought = [row for step in steps for row in step.rows]
    assert len(set(bought)) == 12
    measured = list(rounds(session))
    assert measured[0].labels == 0
    assert measured[0].accuracy == pytest.approx(1 / 3)
    assert measured[0].log_loss == pytest.approx(np.log(3))
    assert measured[-1].labels == measured[-1].queries == 12
    assert measured[-1].accuracy > 0.6


def test_answers_are_wrong_as_often_as_was_said_and_what_measures_is_true():
    y = digits().y
    noisy = flipped(y, 0.2, seed=3)
    assert np.mean(noisy != y) == pytest.approx(0.2, abs=4 * np.sqrt(0.16 / len(y)))
    assert set(noisy) == set(y)
    np.testing.assert_array_equal(noisy, flipped(y, 0.2, seed=3))
    assert not np.array_equal(noisy, flipped(y, 0.2, seed=4))
    session, steps = played(noise=0.3, seed=1)
    known = np.concatenate([session.split.init, steps[-1].spent]).astype(int)
    answers = steps[-1].model.classes[steps[-1].model.labelled.targets.argmax(1)]
    np.testing.assert_array_equal(answers, session.answers[known])
    assert np.any(answers != wine().y[known])
    last = list(rounds(session))[-1]
    assert last.accuracy == measure(steps[-1].model, wine(), session.split.test)[0]


def test_any_learner_may_be_played_with():
    strong = gw.Logistic(C=0.001, penalize_intercept=True)
    _, steps = played(learner=strong)
    _, usual = played()
    assert steps[0].model.C == 0.001
    assert np.linalg.norm(steps[0].model.params) < np.linalg.norm(usual[0].model.params) / 3


def test_usual_conditions_change_nothing():
    plain = simulate(wine(), ["margin"], budget=10, batch=5, seeds=2, **QUIET)
    same = simulate(wine().under(), ["margin"], budget=10, batch=5, seeds=2, **QUIET)
    assert wine().under().fingerprint == wine().fingerprint
    assert plain.table.drop("seconds").equals(same.table.drop("seconds"))


def test_other_conditions_are_other_sessions_in_the_same_folder(tmp_path):
    options = {"budget": 10, "batch": 5, "seeds": 1, "out": tmp_path, **QUIET}
    simulate(wine(), ["margin"], **options)
    hard = wine().under(from_nothing=True, noise=0.2)
    first = simulate(hard, ["margin"], **options)
    assert len((tmp_path / "sessions.jsonl").read_text().splitlines()) == 2
    again = simulate(hard, ["margin"], **options)
    assert again.table.equals(first.table)
    assert again.table.filter(pl.col("round") == 0)["labels"].to_list() == [0]


def test_noise_that_is_no_probability_is_refused():
    with pytest.raises(BadParameter, match=r"noise must be .* got 1\.5"):
        wine().under(noise=1.5)


def test_records_survive_what_a_crash_leaves(tmp_path):
    path = tmp_path / "a" / "rounds.jsonl"
    assert not list(records(path))
    with appending(path) as keep:
        keep({"round": 0})
        keep({"round": 1})
    with path.open("ab") as file:
        file.write(b'{"round": 2, "ro')
    assert [line["round"] for line in records(path)] == [0, 1]
    with appending(path) as keep:
        keep({"round": 2})
    assert [line["round"] for line in records(path)] == [0, 1, 2]


def test_a_ready_made_strategy_is_played_as_it_is():
    assert Session(wine(), Margin(seed=5)).chooser == Margin(seed=5)


@pytest.mark.parametrize("utility", [gw.utility.FirstOrder(), gw.utility.Retrain()])
def test_the_first_label_of_the_last_class_is_judged_as_the_session_will_fit_it(utility):
    """Until then intercepts are penalised, and free from there on: real fits of the next round."""
    data = wine()
    split = data.split(0)
    known = np.concatenate([split.init, split.pool[:20]])
    known = known[data.y[known] != 2]
    rows = split.pool[-4:]
    fitted = fitted_to(data, known, data.y[known])
    goal = gw.goals.DevLoss(data.X[split.dev], data.y[split.dev])
    truth = [
        goal.value(fitted_to(data, np.append(known, row), np.append(data.y[known], 2)))
        for row in rows
    ]
    found = utility(fitted, goal, data.X[rows])[:, 2]
    np.testing.assert_allclose(found, np.array(truth) - goal.value(fitted), rtol=1e-5)
