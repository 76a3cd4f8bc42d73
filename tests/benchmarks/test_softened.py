"""The table of softened predictions: what is compared, and that beliefs are as soft as they say."""

import numpy as np
from sklearn.neighbors import KNeighborsClassifier

import softened
from goalward.core.rows import Candidates
from goalward.lab.datasets import digits_3v8, synth2
from goalward.labels import Geometric, LabelModel
from softened import Tempered, plans
from tests.lab.test_paper import TINY, quiet, task


def test_softened_beliefs_are_what_they_say():
    """A label model at temperature T is softmax(log p / T); at 1 it is the label model."""
    setting = task()
    rows = Candidates(np.arange(12), setting.X, setting.fitted.predict_proba(setting.X))
    model = LabelModel(KNeighborsClassifier(5))
    p = model.prepare(setting.fitted)(rows)
    tempered = Tempered(model, Geometric(4.0, 1.0, 2))
    np.testing.assert_allclose(tempered.prepare(setting.fitted, 2)(rows), p, atol=1e-5)
    half = np.maximum(p, 1e-6) ** 0.25
    want = half / half.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(tempered.prepare(setting.fitted, 0)(rows), want)


def test_softened_strategies_are_compared_on_the_same_dev_goal(tmp_path, monkeypatch):
    data = digits_3v8()
    dev = data.X[:20], data.y[:20]
    compared = plans(4)
    assert "own prediction, 1, first-order" not in compared  # vacuous, by Remark 1
    for name, plan in compared.items():
        built = plan.build(dev=dev, pool=data.X, truth=data.y, seed=0)
        assert plan.needs >= ({"dev"} if "," in name else set())
        if name.startswith("forest"):
            assert built.operator.belief.belief.X is dev[0]
    some = {name: compared[name] for name in ("random", "uniform, –, implicit")}
    some["neighbours, 8 → 1, implicit"] = compared["neighbours, 8 → 1, implicit"]
    monkeypatch.setattr(softened, "plans", lambda rounds: some)
    table = softened.softened_table([synth2(), data], TINY, quiet, tmp_path)
    assert table["dataset"].unique(maintain_order=True).to_list() == ["synth2", "digits-3v8"]
    assert table.row(2)[:4] == ("synth2", "neighbours", "8 → 1", "implicit")
    own = table.filter(belief="uniform")
    assert own["over_uniform"].to_list() == [0.0, 0.0]
