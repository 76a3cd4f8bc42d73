"""The labelling page: how long an answer takes while models are fitted."""

from __future__ import annotations

import math

from goalward.lab.speed.race import Ratio

__all__ = ["page"]


def page(*, quick: bool = False) -> list[Ratio]:
    """Return the 95th percentile from an answer to the next row, and the seconds of a round."""
    try:
        from goalward.lab.page_latency import page_latency

        found = page_latency(rows=2_000 if quick else 100_000, answers=20 if quick else 500)
    except ImportError:
        nan = (math.nan,)
        return [Ratio("answer to next row", "loopback", nan, note="pip install goalward[web]")]
    size = f"{found.rows:,} x {found.features}"
    busy = f"fits ran {found.fitting:.0%} of the time; median {1e3 * found.median:.0f} ms"
    worst = f"{found.refits} rounds, median {found.refit_median:.2f} s"
    return [
        Ratio(
            f"page: answer to next row, {size}",
            "95th percentile",
            (found.p95,),
            (),
            "<= 0.015 s",
            note=busy,
        ),
        Ratio(
            f"page: a round of fit and scores, {size}",
            "the slowest",
            (found.refit_worst,),
            (),
            "<= 2 s",
            note=worst,
        ),
    ]
