"""A batch picked one row at a time, each row supposed to be labelled before the next."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalward.core.arrays import to_numpy
from goalward.errors import BadParameter
from goalward.selection.best import best
from goalward.selection.near_copies import NearCopies
from goalward.selection.rule import Shortlist

__all__ = ["Sequential"]


@dataclass(frozen=True)
class Sequential:
    """Greedy batches that do not repeat themselves.

    After each pick the row is absorbed into the model, and the rest is scored again. The
    top b of a single scan are often near-copies, each of which helps only until one of
    them is labelled.

    Parameters
    ----------
    update
        "believed": the row is absorbed with the label it is believed to have, a
        distribution as a rule, and the model moves. "curvature": with the model's own
        prediction, which moves nothing and only adds the row's curvature; needs no belief.
        The two are the same for operators without a belief (WorstCase, BestCase) and where
        the belief is the prediction itself.
    shortlist
        After the first scan only this many rows per row of the batch are scored again, the
        best ones, and 1,000 at least. A heuristic: a row far down the list would have to
        overtake all of these. None scores the whole pool again after every pick.

    radius
        Rows nearer to a picked one than this share of the pool's spread (root mean square
        distance from its mean) are left out of the batch, unless nothing else is left.
        Absorption alone does not do it: a goal that wants more of one place keeps asking
        there. 0 leaves out only rows that are equal, None not even these. Equal rows come last.

    Examples
    --------
    >>> Sequential(update="curvature")
    Sequential(update='curvature', shortlist=50, radius=0.01)
    """

    update: str = field(default="believed", kw_only=True)
    shortlist: int | None = field(default=50, kw_only=True)
    radius: float | None = field(default=0.01, kw_only=True)
    pays = True

    def __post_init__(self) -> None:
        if self.update not in ("believed", "curvature"):
            raise BadParameter(
                f"update={self.update!r}; 'believed' or 'curvature' was expected. Use 'curvature' "
                "where no belief about labels can be trusted."
            )

        if self.shortlist is not None and self.shortlist < 1:
            raise BadParameter(
                f"shortlist={self.shortlist!r}; at least 1, or None, was expected. Leave it at 50."
            )
        if self.radius is not None and not self.radius >= 0.0:
            raise BadParameter(f"radius={self.radius!r}; 0 or more was expected. Use 0.01.")

    def keep(self, batch: int) -> int | None:
        """Return the length of the short list."""
        return None if self.shortlist is None else max(1000, self.shortlist * batch)

    def __call__(self, shortlist: Shortlist, batch: int, rng: np.random.Generator) -> NDArray[Any]:
        """Return the positions picked, in order."""
        play = shortlist.ordered()
        picked, gain = self._picked(play, batch, rng)
        if play.prices is not None and math.isfinite(play.prices.budget) and len(picked):
            ended_by_size = len(picked) == batch
            if ended_by_size or (play.values - play.prices.zero).max() > gain:
                other, more = self._picked(play, batch, rng, per=False)
                picked = other if more > gain else picked
        return play.positions[picked]

    def _picked(
        self, play: Shortlist, batch: int, rng: np.random.Generator, *, per: bool = True
    ) -> tuple[list[int], float]:
        """Return where the picked ones stand, and what they bring, each after those before it."""
        rule, values = play.rule, play.values
        copies: NearCopies | None = None
        picked: list[int] = []
        gain, zero = 0.0, 0.0 if play.prices is None else play.prices.zero
        while True:
            worth = play.worth(values, picked, per=per)
            if play.prices is not None and not np.isfinite(worth).any():
                return picked, gain
            picked.append(int(best(worth, 1, rng, play.positions)[0]))
            gain += float(values[picked[-1]]) - zero
            if len(picked) == batch:
                return picked, gain
            rows = play.candidates
            if copies is None:
                copies = NearCopies(rows.X, self.radius)
                rule = rule.following(rows, values)
            copies.take(picked[-1])
            rule = rule.after(rows, picked[-1], self.update)
            values = np.where(copies.blocked, -np.inf, to_numpy(rule(rows)))
