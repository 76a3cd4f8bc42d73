"""Statistics against tables, closed forms and simulations."""

import numpy as np
import pytest
from scipy.stats import binomtest

from goalward.lab.statistics import (
    bayesian_signed_rank,
    holm,
    regret,
    signed_rank,
)


def test_holm_by_hand():
    # The smallest of four times 4, the next times 3, ...; none below the one before, none above 1.
    p = np.array([0.01, 0.04, 0.03, 0.005])
    assert holm(p) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm(np.array([0.9, 0.8])) == pytest.approx([1.0, 1.0])
    assert holm(np.array([0.2])) == pytest.approx([0.2])


def test_holm_keeps_the_chance_of_any_false_alarm(rng):
    """20 questions whose answer is no: some p below .05 in 64 % of trials, some of Holm's in 5 %."""
    alarms = [holm(rng.random(20)).min() < 0.05 for _ in range(2000)]
    assert binomtest(sum(alarms), 2000, 1 - (1 - 0.05 / 20) ** 20).pvalue > 0.001


def test_signed_ranks_of_differences_of_one_sign():
    """All of n positive: two orders of signs out of 2**n are as extreme."""
    assert signed_rank(np.arange(1.0, 9.0)) == pytest.approx(2 / 2**8)
    assert signed_rank(np.zeros(5)) == 1.0
    assert signed_rank(np.array([0.1, -0.1, 0.0, 0.0])) > 0.5


def test_bayesian_signed_ranks_mirror_and_are_certain_where_it_is_clear(rng):
    gaps = rng.normal(0.004, 0.01, size=30)
    one, other = bayesian_signed_rank(gaps), bayesian_signed_rank(-gaps)
    assert sum(one) == pytest.approx(1.0)
    assert (one.worse, one.same, one.better) == (other.better, other.same, other.worse)
    assert bayesian_signed_rank(np.full(30, 0.02)).better > 0.999
    assert bayesian_signed_rank(rng.normal(0.0, 0.001, 30)).same > 0.999
    # Nothing known: the one supposed difference of zero.
    assert bayesian_signed_rank(np.zeros(0)).same == 1.0


def test_bayesian_signed_ranks_of_one_difference_in_closed_form():
    """Weights (w, 1 - w), w ~ Beta(1/2, 1), on 0 and d > 2 * same: all pairs but 0 with 0 are above.

    Better is likelier than same where w² < 1/2, which has the probability (1/2)**(1/4).
    """
    found = bayesian_signed_rank(np.array([0.02]), same=0.005, draws=100_000)
    assert found.better == pytest.approx(0.5**0.25, abs=0.006)


def test_regret_by_hand():
    """Seeds 0 and 2 choose a's best rival, b, and seeds 1 and 3 the other, c; and the other way."""
    values = np.array([[[0.5, 0.5, 0.5, 0.5]], [[0.9, 0.6, 0.9, 0.6]], [[0.1, 0.8, 0.1, 0.8]]])
    # b, chosen on even seeds, is ahead by .1 on odd ones; c, chosen on odd ones, is behind by .4.
    assert regret(values)[0] == pytest.approx([(0.1 - 0.4) / 2])
    # b's are a, ahead by -.1 on odd seeds, and c, by -.8 on even ones.
    assert regret(values)[1] == pytest.approx([(-0.1 - 0.8) / 2])


def test_regret_is_zero_on_average_where_all_are_equal(rng):
    """The best of 12 by the same seeds would look ahead by 1.6 deviations of a mean."""
    values = rng.normal(0.8, 0.02, size=(12, 3000, 4))
    found = regret(values)[0]
    assert abs(found.mean()) < 4 * found.std() / np.sqrt(len(found))
    naive = values[1:].mean(axis=2).max(axis=0) - values[0].mean(axis=1)
    assert naive.mean() > 0.01


def test_regret_finds_who_is_behind(rng):
    values = rng.normal(0.8, 0.01, size=(5, 200, 6))
    values[0] -= 0.05
    found = regret(values)
    assert found[0].mean() == pytest.approx(0.05, abs=0.002)
    assert np.abs(found[1:].mean(axis=1)).max() < 0.002
