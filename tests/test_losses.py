import numpy as np
import pytest

from goalward.core.arrays import to_numpy
from goalward.models import Softmax

LOSS = Softmax()


def proba(rng, n=6, k=4):
    return LOSS.proba(3 * rng.normal(size=(n, k)))


def explicit(p):
    return np.einsum("nk,kl->nkl", p, np.eye(p.shape[1])) - p[:, :, None] * p[:, None, :]


def test_slope_and_curvature_are_derivatives(rng, to_xp):
    f, s = rng.normal(size=(2, 5, 3))
    t = LOSS.proba(rng.normal(size=(5, 3)))
    h = 1e-6
    rows = [to_numpy(LOSS.rows(to_xp(f + e * s), to_xp(t))) for e in (h, -h)]
    slope = to_numpy(LOSS.slope(to_xp(f), to_xp(t)))
    np.testing.assert_allclose((slope * s).sum(1), (rows[0] - rows[1]) / (2 * h), rtol=1e-7)
    slopes = [to_numpy(LOSS.slope(to_xp(f + e * s), to_xp(t))) for e in (h, -h)]
    bent = to_numpy(LOSS.curvature(LOSS.proba(to_xp(f)), to_xp(s)))
    np.testing.assert_allclose(bent, (slopes[0] - slopes[1]) / (2 * h), atol=1e-9)


def test_along_is_the_slope_of_every_label_at_once(rng, to_xp):
    f, s = rng.normal(size=(2, 5, 3))
    along = to_numpy(LOSS.along(LOSS.proba(to_xp(f)), to_xp(s)))
    for k in range(3):
        slope = LOSS.slope(f, np.tile(np.eye(3)[k], (5, 1)))
        np.testing.assert_allclose(along[:, k], (slope * s).sum(1), rtol=1e-12)


@pytest.mark.parametrize("k", [2, 3, 7])
def test_contrasts_are_an_orthonormal_basis_of_what_sums_to_zero(k):
    Q = LOSS.basis(k, np.ones(1))
    np.testing.assert_allclose(Q.T @ Q, np.eye(k - 1), atol=1e-15)
    np.testing.assert_allclose(Q.sum(axis=0), 0.0, atol=1e-15)


def test_blocks_and_factors_are_the_curvature_in_contrasts(rng, to_xp):
    p = proba(rng)
    p[0] = [1.0, 0.0, 0.0, 0.0]  # a row whose curvature vanishes
    p[1] = [0.0, 0.0, 0.0, 1.0]
    Q = LOSS.basis(4, p)
    exact = np.einsum("kc,nkl,ld->ncd", Q, explicit(p), Q)
    np.testing.assert_allclose(to_numpy(LOSS.blocks(to_xp(p))), exact, atol=1e-15)
    L = to_numpy(LOSS.factors(to_xp(p)))
    np.testing.assert_allclose(L @ L.transpose(0, 2, 1), exact, atol=1e-15)


def test_probabilities_do_not_overflow(to_xp):
    f = to_xp(np.array([[1000.0, 0.0], [-1000.0, 0.0]]))
    np.testing.assert_array_equal(to_numpy(LOSS.proba(f)), [[1.0, 0.0], [0.0, 1.0]])
    np.testing.assert_array_equal(
        to_numpy(LOSS.rows(f, to_xp(np.array([[0.0, 1.0], [0.0, 1.0]])))), [1000.0, 0.0]
    )
