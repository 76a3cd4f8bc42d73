"""Dev rows that are kept back, and what they say."""

import json

import numpy as np
import pytest
from sklearn.datasets import load_digits
from typer.testing import CliRunner

import goalward as gw
from goalward.cli import app
from goalward.goals.guard import sides
from goalward.study.rounds import Round

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
    now = Round(study.state, study.pool)
    early = played(tmp_path / "b.db", rounds=5)
    before = Round(early.state, early.pool)
    side = dict(zip(now.goal_rows.tolist(), now.split.steers.tolist(), strict=True))
    old = dict(zip(before.goal_rows.tolist(), before.split.steers.tolist(), strict=True))
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
    now = Round(study.state, study.pool)
    for seq, ranked in study.state.rounds:
        assert len(now.model_at(seq).labelled) == ranked.labels
    early = played(tmp_path / "b.db", rounds=4)
    seq = early.state.seq
    np.testing.assert_allclose(
        now.model_at(seq).params, Round(early.state, early.pool).fitted.params, atol=1e-9
    )


def test_an_honest_study_raises_no_alarm_and_says_what_it_saw(tmp_path):
    audit = played(tmp_path / "a.db").audit()
    assert not audit.fired
    assert audit.reason.startswith("No alarm over")
    assert len(audit.labels) == len(audit.steering) == len(audit.witness)
    assert audit.labels[-1] > audit.labels[0]
    assert audit.witness[-1] > audit.witness[0]
    # The halves are those of the dev labels: they add up to the goal of all of them.
    study = gw.Study.open(tmp_path / "a.db")
    now = Round(study.state, study.pool)
    share = now.split.steers.mean()
    whole = now.goal.value(now.fitted) / len(now.goal_rows)
    assert share * audit.steering[-1] + (1 - share) * audit.witness[-1] == pytest.approx(whole)


def test_it_waits_and_asks_for_rows_kept_back(tmp_path):
    early = played(tmp_path / "a.db", rounds=5)
    assert early.audit().reason.startswith("Too early to audit")
    plain = played(tmp_path / "b.db", rounds=5, strategy="dev/spread")
    assert "no dev rows are kept back" in plain.audit().reason
    empty = gw.Study.create(tmp_path / "c.db", pool=X, classes=[0, 1, 2])
    assert "no model yet" in empty.audit().reason
    assert not empty.audit().fired


def test_an_alarm_is_raised_where_one_half_gets_worse_and_status_says_so(tmp_path):
    """The rows kept back have wrong labels: who learns the task loses there."""
    back = ~sides(np.arange(len(y)), 0.5, 3)
    place = tmp_path / "a.db"
    probe = gw.Study.create(tmp_path / "p.db", pool=X, classes=[0, 1, 2], dev=0.3, seed=3)
    is_dev = probe.state.settings.is_dev(np.arange(len(y)))
    wrong = np.where(is_dev & back, (y + 1) % 3, y)
    audit = played(place, rounds=14, truth=wrong).audit()
    assert audit.fired
    assert "Alarm: from" in audit.reason
    assert audit.witness[-1] < audit.witness[0]
    run = CliRunner()
    said = run.invoke(app, ["status", str(place)], catch_exceptions=False).stdout
    assert "Alarm: from" in said
    out = run.invoke(app, ["status", str(place), "--json"], catch_exceptions=False).stdout
    assert json.loads(out)["audit"]["alarm"]["round"] == audit.alarm.round
    calm = tmp_path / "calm.db"
    played(calm, rounds=9).close()
    said = run.invoke(app, ["status", str(calm)], catch_exceptions=False).stdout
    assert "alarm over" not in said.lower()
    assert "Alarm:" not in said
    asked = run.invoke(app, ["status", str(calm), "--audit"], catch_exceptions=False).stdout
    assert "No alarm over" in asked
