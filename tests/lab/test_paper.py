import json
import re
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from goalward.errors import BadParameter
from goalward.lab.curves import Curves
from goalward.lab.datasets import digits_3v8, fetch, tables, text
from goalward.lab.paper import Findings, Size, reproduce
from goalward.lab.paper import approximation as study
from goalward.lab.paper.claims_learning import dev_overfits
from goalward.lab.paper.findings import Claim, interval
from goalward.lab.paper.report import untested, verdict
from tests.lab.test_simulate import made

TINY = Size(seeds=2, queries=8, pool=14, batch_seeds=1, samples=True, n_jobs=1)


def quiet(message):
    pass


def task(pool=12):
    return study.trial(digits_3v8(), seed=1, n_labelled=20, n_pool=pool, n_dev=20)


def refit(setting, rows, labels, goal):
    """The brute force: scikit-learn style refit by our learner, one model at a time."""
    fitted = setting.fitted
    X = np.vstack([fitted.labelled.X, rows])
    y = np.concatenate([fitted.classes[fitted.labelled.targets.argmax(1)], fitted.classes[labels]])
    again = digits_3v8().learner.having(tol=1e-11).fit(X, y)
    return setting.goals[goal].value(again) - setting.goals[goal].value(fitted)


@pytest.mark.parametrize("goal", ["entropy", "fisher", "dev"])
def test_single_rows_are_the_brute_force(goal):
    setting = task()
    exact, cheap, true, *_ = study.utilities(setting, 1, goal)
    assert exact.shape == cheap.shape == (12, 2)
    assert true.tolist() == setting.codes.tolist()
    for i in (0, 5):
        for k in (0, 1):
            brute = refit(setting, setting.X[i : i + 1], [k], goal)
            assert exact[i, k] == pytest.approx(brute, abs=1e-6 * np.abs(exact).max())


def test_windows_are_the_brute_force_and_know_their_true_labeling():
    setting = task()
    exact, _, true, *_ = study.utilities(setting, 3)
    assert exact.shape == (10, 8)
    labelings = list(np.ndindex(2, 2, 2))
    for window in (0, 9):
        for j in (0, 3, 6):
            brute = refit(setting, setting.X[window : window + 3], list(labelings[j]), "entropy")
            assert exact[window, j] == pytest.approx(brute, abs=1e-6 * np.abs(exact).max())
        assert labelings[true[window]] == tuple(setting.codes[window : window + 3])


def test_chances_multiply_predictions():
    setting = task()
    p = setting.fitted.predict_proba(setting.X)
    chance = study.chances(setting, 3)
    for j, labeling in enumerate(np.ndindex(2, 2, 2)):
        brute = np.prod([p[4 + r, k] for r, k in enumerate(labeling)])
        assert chance[4, j] == pytest.approx(brute)
    np.testing.assert_allclose(chance.sum(axis=1), 1.0)


def test_operators_resolve_labelings():
    u = np.array([[1.0, 5.0, 3.0], [2.0, 0.0, 7.0]])
    found = study.resolve(u, np.array([2, 0]))
    assert found["oracle"].tolist() == [3.0, 2.0]
    assert found["average"].tolist() == [3.0, 3.0]
    assert found["min"].tolist() == [1.0, 0.0]
    assert found["max"].tolist() == [5.0, 7.0]


def test_agreement_is_correlation_scale_and_error():
    cheap = np.linspace(-1, 1, 50)
    found = study.agreement(0.5 * cheap, cheap)
    assert found["pearson"] == pytest.approx(1.0)
    assert found["scale"] == pytest.approx(2.0)
    assert found["error"] == pytest.approx(1.0)
    assert np.isnan(list(study.agreement(cheap, 0 * cheap).values())).all()


def learned(shapes, goals=None):
    """Curves with every strategy of the paper, accuracies by name."""
    names = ["random", "uncertainty"]
    names += [f"{g}/{o}" for g in ("dev", "entropy", "fisher") for o in study.OPERATORS]
    parts = []
    for name in names:
        accuracy = shapes.get(name, shapes["random"])
        table = made([[accuracy, accuracy]]).table.with_columns(
            pl.lit(name).alias("strategy"),
            pl.Series("goal_dev", np.tile((goals or {}).get(name, accuracy), 2)),
            pl.Series("goal_entropy", np.tile(accuracy, 2)),
            pl.Series("goal_fisher", np.tile(accuracy, 2)),
        )
        parts.append(table)
    return Curves(pl.concat(parts))


def test_expected_prediction_is_flat_to_first_order():
    found = study.expected_prediction(digits_3v8(), TINY, quiet, sizes=(1, 2, 3))
    assert found.spread["flatness"].max() < 1e-12
    assert set(found.panels) == {
        "entropy, b = 1",
        "entropy, b = 2",
        "entropy, b = 3",
        "fisher, b = 3",
    }


def test_equal_norms_take_only_the_norms_out_of_the_fisher_goal():
    setting = task()
    flat = study.EqualNorms(setting.X).value(setting.fitted)
    p = setting.fitted.predict_proba(setting.X)
    norms = np.sum(setting.X**2, axis=1) + 1
    assert flat == pytest.approx(-norms.mean() * np.mean(1 - np.sum(p**2, axis=1)))


def test_an_unknown_figure_is_refused(tmp_path):
    with pytest.raises(BadParameter, match=r"one of approx-serial.*got 'figure-3'"):
        reproduce(tmp_path, ["figure-3"])


@pytest.fixture
def nowhere(tmp_path, monkeypatch):
    """No data but those that come along."""
    monkeypatch.delenv("GOALWARD_DATA", raising=False)
    monkeypatch.setattr(fetch, "cache_folder", lambda: tmp_path / "cache")
    monkeypatch.setattr(text, "POLARITY", "http://127.0.0.1:9/")
    for room in (tables, text):
        monkeypatch.setattr(room, "find_spec", lambda name: None)
    return tmp_path


@pytest.mark.heavy
def test_samples_that_come_along_are_enough_for_every_kind_of_figure(nowhere):
    found, path = reproduce(nowhere / "out", size=replace(TINY, seeds=1))
    page = path.read_text(encoding="utf-8")
    # Nothing of the machine, and nothing about files that are elsewhere.
    for word in (str(nowhere), "GOALWARD_DATA", "left out", "Note:", "Traceback", "download"):
        assert word not in page
    assert not re.search(r'(src|href)="(?!data:|#)', page), "the page must open offline"
    # From every claim to what it rests on, and from the contents to everything.
    links, places = (set(re.findall(f'{kind}="#?([^":]+)"', page)) for kind in ("href", "id"))
    assert links <= places
    order = [page.index(f'id="{name}"') for name in ("one-label", "claims", "pipelines", "data")]
    assert order == sorted(order)
    assert f"{verdict(found)}</p>" in page
    kinds = {"expred", "synth2-snapshots", "synth2-groups", "synth2-curves", "approx-batch"}
    kinds |= {
        f"{name}-{kind}" for name in ("letter", "rt-polarity") for kind in ("goals", "utilities")
    }
    assert kinds | {"approx-serial", "penalties"} <= places
    assert page.count("<figure") == page.count("data:image/png;base64") >= len(kinds) + 3
    assert len(found) == 22
    assert {c.verdict for c in found if c.name != "expred-constant"} == {"not tested"}
    left, command = untested(found)
    assert len(left) == 21
    assert command.startswith("goalward reproduce approx-serial approx-batch")
    assert command in re.sub("</?span>", "", page)
    assert "C for two classes" in page
    stored = json.loads((nowhere / "out" / "claims.json").read_text())
    assert [c["name"] for c in stored] == [c.name for c in found]
    assert {c["command"] for c in stored} >= {"goalward reproduce expred --quick"}
    for name in places & kinds:
        for ending in (".png", ".svg"):
            assert (nowhere / "out" / "figures" / f"{name}{ending}").stat().st_size > 5000
    assert (nowhere / "out" / "tables" / "datasets.csv").exists()


def test_a_full_run_without_the_whole_sets_says_what_it_left_out(nowhere):
    size = replace(TINY, seeds=1, samples=False)
    _, path = reproduce(nowhere / "out", ["approx-serial", "letter"], size=size)
    page = path.read_text(encoding="utf-8")
    assert "letter was left out" in page
    assert "use a sample of rt-polarity" in page
    assert 'id="approx-serial"' in page


def test_the_report_opens_with_how_many_claims_were_reproduced():
    kinds = ["reproduced"] * 10 + ["partly"]
    made = [Claim("", "", "", "", kind, "", {}) for kind in kinds]
    assert verdict(made) == "10 of 11 claims reproduced: 1 partly."
    assert verdict(made[:10]) == "10 of 10 claims reproduced."
    blind = [replace(made[0], verdict=kind) for kind in ("untestable", "not reproduced")]
    assert verdict(blind) == "0 of 2 claims reproduced: 1 not reproduced, 1 untestable."
    sampled = [replace(c, sample=True) for c in made]
    assert verdict(sampled) == "10 of 11 claims reproduced on small samples: 1 partly."
    small = [*made[:1], *(replace(c, verdict="not tested") for c in made[1:])]
    assert verdict(small) == "1 of 1 claims reproduced: 10 not tested by a run of this size."


def test_intervals_of_correlations_stay_below_1():
    values = [0.87, 0.74, 0.91]
    assert interval(values) == "0.84 [0.62, 1.06]"
    assert interval(values, correlation=True) == "0.84 [0.49, 0.96]"
    assert interval([1.0, 1.0, 1.0], correlation=True) == "1.00 [1.00, 1.00]"
    many = np.linspace(0.8, 0.95, 10)
    assert interval(many, correlation=True) == interval(many)


def test_flat_curves_are_seldom_called_overfitted():
    """The peak is not chosen by the noise that is then judged: at most 8 % of 200, 2.5 % expected."""
    rng = np.random.default_rng(0)
    names = ["random", "uncertainty", "dev/oracle"]
    hits = 0
    for _ in range(200):
        parts = []
        for name in names:
            noise = 0.8 + 0.01 * rng.standard_normal((10, 101))
            table = made([noise]).table.with_columns(
                pl.lit(name).alias("strategy"), pl.Series("goal_dev", np.tile(np.arange(101.0), 10))
            )
            parts.append(table)
        judged = dev_overfits(Findings(learning={"rt-polarity": Curves(pl.concat(parts))}))
        hits += judged.verdict == "reproduced"
    assert hits <= 16
