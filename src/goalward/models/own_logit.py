"""Where the logit of a row goes once it is labelled, as far as its own label pulls it."""

from __future__ import annotations

from jaxtyping import Float

from goalward.core.arrays import Array, namespace

__all__ = ["own_logit"]


def own_logit(
    f0: Float[Array, "*g 1"], M: Float[Array, "*g l"], t: Float[Array, "#*g l"]
) -> Float[Array, "*g l"]:
    """Return the root of f = f₀ - M (p(f) - t), for two classes in their one contrast.

    Newton's method within a bracket: |p - t| ≤ √2 and f + M p(f) is increasing. A step that
    leaves the bracket, or does not halve the one before, is a bisection instead.
    """
    xp = namespace(f0)
    low, high = f0 - 2.0**0.5 * M, f0 + 2.0**0.5 * M
    f = f0 + 0.0 * t
    last = high - low
    for _ in range(60):
        p = xp.tanh(f * 0.5**0.5)
        miss = f - f0 + M * (p * 0.5**0.5 - t)
        low, high = xp.where(miss < 0.0, f, low), xp.where(miss < 0.0, high, f)
        step = -miss / (1.0 + 0.5 * M * (1.0 - p * p))
        middle = 0.5 * (low + high)
        newton = (f + step > low) & (f + step < high) & (xp.abs(step) <= 0.5 * last)
        moved = xp.where(newton, f + step, middle)
        last, f = xp.abs(moved - f), moved
        if bool(xp.all(last <= 1e-14 + 1e-15 * xp.abs(f))):
            break
    return f
