"""TypiClust: the most typical row of every cluster that has no label yet."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import pairwise_distances_argmin

from goalward.core.arrays import plain_rows, rows_at, stack_rows
from goalward.core.candidates import Candidates
from goalward.strategies.core_set import squared_distances
from goalward.strategies.request import Request
from goalward.strategies.strategy import Strategy
from goalward.utility.rule import Rule, Shortlist

__all__ = ["TypiClust"]

NEIGHBOURS, LARGEST, SMALL, PLAIN = 20, 500, 5, 50
"""Of the authors: rows that say how typical one is, most clusters, a cluster that comes last, and
clusters up to which k-means looks at all rows in every step."""
BLOCK = 2**22
"""Numbers in one array of distances: 32 MB."""


@dataclass(frozen=True)
class TypiClust(Strategy):
    """Typical rows of different clusters (Hacohen, Dekel and Weinshall 2022, arXiv 2202.02794).

    Labelled and free rows together are put into as many clusters by k-means as there are labels with
    the batch, 500 at most. Clusters with the fewest labels come first, among them the largest; each
    gives the row with the smallest mean distance from its 20 nearest neighbours in the cluster (half
    of a smaller one). Clusters of at most five rows come last. What the model predicts does not
    matter, so it works with few labels or none. Distances are Euclidean in the model's features.

    Examples
    --------
    >>> TypiClust()
    TypiClust(seed=0)
    """

    seed: int = 0
    starts = True

    def bind(self, request: Request) -> Rule:
        """Return how typical each row is of its cluster; the clusters are made here."""
        known = plain_rows(request.fitted.labelled.X)
        free = plain_rows(request.read(request.free).X)
        rows = stack_rows(known, free)
        count = min(known.shape[0] + request.batch, LARGEST, rows.shape[0])
        draw = int(np.random.default_rng([self.seed, request.round]).integers(2**31))
        make: Any = KMeans if count <= PLAIN else MiniBatchKMeans
        with warnings.catch_warnings():
            # Fewer different rows than clusters: some stay empty.
            warnings.simplefilter("ignore", ConvergenceWarning)
            means = make(count, n_init=1, random_state=draw).fit(rows)
        clusters, first = means.labels_, known.shape[0]
        order = _order(np.bincount(clusters, minlength=count), clusters[:first])
        members = [rows_at(free, np.flatnonzero(clusters[first:] == k)) for k in range(count)]
        return ClusterRule(means.cluster_centers_, members, order)

    @property
    def selection(self) -> Any:  # type: ignore[override]
        """A row of each cluster, then a second of each."""
        return RoundRobin()


def _order(sizes: NDArray[Any], labelled: NDArray[Any]) -> NDArray[Any]:
    """Return the turn of every cluster: the fewest labels first, then the most rows."""
    counts = np.bincount(labelled, minlength=len(sizes))
    turns = np.empty(len(sizes), dtype=np.int64)
    turns[np.lexsort((-sizes, counts, sizes <= SMALL))] = np.arange(len(sizes))
    return np.where(sizes <= SMALL, turns + len(sizes), turns)


@dataclass(frozen=True, eq=False)
class ClusterRule(Rule):
    """How typical rows are of their cluster.

    Parameters
    ----------
    members
        The free rows of every cluster.
    order
        Whose turn it is: smaller first, from their number on after all others.
    """

    centres: NDArray[Any] = field(repr=False)
    members: list[Any] = field(repr=False)
    order: NDArray[Any]

    def clusters(self, X: Any) -> NDArray[Any]:
        """Return the cluster of every row."""
        return np.asarray(pairwise_distances_argmin(plain_rows(X), self.centres))

    def __call__(self, rows: Candidates) -> NDArray[Any]:
        """Return the inverse mean distance from the nearest neighbours in a row's cluster."""
        clusters, X = self.clusters(rows.X), plain_rows(rows.X)
        found = np.zeros(len(rows))
        for k in np.unique(clusters):
            places = np.flatnonzero(clusters == k)
            if self.members[k].shape[0] > 1:
                found[places] = typicality(rows_at(X, places), self.members[k])
        return found


def typicality(X: Any, members: Any) -> NDArray[Any]:
    """Return 1 over the mean distance of each row from its nearest members, less itself."""
    count, found = min(NEIGHBOURS, members.shape[0] // 2), []
    step = max(1, BLOCK // members.shape[0])
    for start in range(0, X.shape[0], step):
        gaps = np.sqrt(squared_distances(rows_at(X, slice(start, start + step)), members))
        found.append(np.partition(gaps, count, axis=1)[:, : count + 1].sum(axis=1) / count)
    return np.asarray(1.0 / (np.concatenate(found) + 1e-5))


@dataclass(frozen=True)
class RoundRobin:
    """The best row of every cluster in turn, then the second best, and so on."""

    def keep(self, batch: int) -> None:
        """Return None: every cluster has its turn."""

    def __call__(self, shortlist: Shortlist, batch: int, rng: np.random.Generator) -> NDArray[Any]:
        """Return the positions picked, in order."""
        play = shortlist.ordered()
        rule: Any = play.rule
        turn = rule.order[rule.clusters(play.candidates.X)]
        by_cluster = np.lexsort((-play.values, turn))
        starts = np.searchsorted(turn[by_cluster], turn[by_cluster])
        place = np.empty(len(turn), dtype=np.int64)
        place[by_cluster] = np.arange(len(turn)) - starts
        late = turn >= len(rule.order)
        return np.asarray(play.positions[np.lexsort((turn, place, late))[:batch]])
