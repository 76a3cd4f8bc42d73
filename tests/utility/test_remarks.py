"""The two remarks of the paper, as identities."""

import numpy as np
import pytest

import goalward as gw
from goalward.core.rows import Candidates
from goalward.goals import Entropy, Fisher
from goalward.labels import BestCase, Expected, Predicted, Uniform, WorstCase
from goalward.testing import problem
from goalward.utility import FirstOrder


def goals(task):
    brier = gw.goals.Custom(
        task.X_dev, lambda f: -np.sum(np.tanh(f[:, 0] - f[:, 1])), derivatives="differences"
    )
    return [task.goal, Entropy(task.X_pool), Fisher(task.X_pool), task.goal + brier]


@pytest.mark.parametrize("index", range(4))
@pytest.mark.parametrize("n_classes", [2, 5])
@pytest.mark.parametrize("literal", [False, True])
def test_remark_1_expected_utility_is_constant(index, n_classes, literal):
    """Σ_y p_y (⟨p, s⟩ - s_y) = 0: under the model's own prediction all rows score the same."""
    task = problem(n_classes=n_classes)
    utility = FirstOrder(per_row_penalty=literal)(task.fitted, goals(task)[index], task.X_pool)
    with pytest.warns(gw.errors.VacuousUtility, match="Remark 1"):
        expected = Expected(Predicted())(utility, task.fitted, task.X_pool)
    assert np.ptp(expected) <= 1e-12 * np.abs(utility).max()


@pytest.mark.parametrize("index", range(3))
def test_remark_2_a_batch_is_the_sum_of_its_rows(index):
    """To first order, for the labeling and for every operator that decomposes."""
    task = problem()
    fitted, goal, X = task.fitted, goals(task)[index], task.X_pool[:4]
    single = FirstOrder()(fitted, goal, X)
    batch = FirstOrder().batch(fitted, goal, X[None])[0]
    labelings = list(np.ndindex(*[3] * 4))
    for value, labeling in zip(batch, labelings, strict=True):
        assert value == pytest.approx(single[range(4), labeling].sum(), abs=1e-12)
    for operator, whole in (
        (WorstCase(), batch.min()),
        (BestCase(), batch.max()),
        (Expected(Uniform()), batch.mean()),
    ):
        assert whole == pytest.approx(operator(single, fitted, X).sum(), abs=1e-12)
    p = fitted.predict_proba(X)
    chance = np.array([np.prod(p[range(4), labeling]) for labeling in labelings])
    softened = Expected(Predicted(2.0))(single, fitted, X).sum()
    q = Predicted(2.0).prepare(fitted)(Candidates(np.arange(4), X, p))
    assert (np.array([np.prod(q[range(4), c]) for c in labelings]) @ batch) == pytest.approx(
        softened, abs=1e-12
    )
    assert chance @ batch == pytest.approx(0.0, abs=1e-12)
