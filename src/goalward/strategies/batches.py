"""Baselines that pick diverse batches: CoreSet, BADGE, BAIT and TypiClust."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import pairwise_distances_argmin

from goalward.core.arrays import is_sparse, plain_rows, rows_at, stack_rows, to_numpy
from goalward.core.rows import Candidates
from goalward.goals import FisherRatio
from goalward.models import Fitted
from goalward.strategies.selectors import Sequential, Shortlist
from goalward.strategies.strategy import Request, Strategy
from goalward.utility import Information
from goalward.utility.information import GainRule, Together
from goalward.utility.utility import FollowingRule, Rule, SequentialRule


@dataclass(frozen=True)
class CoreSet(Strategy, word="core-set"):
    """k-centre greedy (Sener and Savarese 2018): the row farthest from all known ones, again.

    Distances are Euclidean in the model's features. The rows it picks from are held in memory:
    the whole pool, or the 1,000 farthest rows where an engine keeps no more.

    Examples
    --------
    >>> CoreSet()
    CoreSet(seed=0)
    """

    seed: int = 0
    # One row at a time over the whole pool: each changes the distances of the others.
    selection = Sequential(shortlist=None, radius=None)

    def bind(self, request: Request) -> Rule:
        """Return each row's distance to the nearest labelled row."""
        return NearestRule(plain_rows(request.fitted.labelled.X))


@dataclass(frozen=True, eq=False)
class NearestRule(FollowingRule):
    """Distances to the nearest row that is labelled or taken."""

    known: Any

    def fresh(self, rows: Candidates) -> NDArray[Any]:
        """Return the distance of every row."""
        return np.asarray(np.sqrt(squared_distances(plain_rows(rows.X), self.known).min(axis=1)))

    def playing(self, rows: Candidates) -> SequentialRule:
        """Return the rule with the distances of the rows, which serve their scores and the picks."""
        return replace(self, taken=(rows, self.fresh(rows)))

    def after(self, rows: Candidates, position: int, update: str) -> SequentialRule:
        """Return the rule with one more row known."""
        X = plain_rows(rows.X)
        newest = rows_at(X, np.array([position]))
        nearer = np.minimum(self(rows), np.sqrt(squared_distances(X, newest)[:, 0]))
        return NearestRule(stack_rows(self.known, newest), taken=(rows, nearer))


def squared_distances(A: Any, B: Any) -> NDArray[Any]:
    """Return squared distances, from products so that sparse rows stay sparse."""
    squares = [
        np.asarray(M.multiply(M).sum(axis=1)).ravel() if is_sparse(M) else np.sum(M * M, axis=1)
        for M in (A, B)
    ]
    product = A @ B.T
    product = product.toarray() if is_sparse(product) else product
    found: NDArray[Any] = np.maximum(squares[0][:, None] + squares[1][None, :] - 2.0 * product, 0.0)
    return found


@dataclass(frozen=True)
class Badge(Strategy, word="badge"):
    """k-means++ on gradients of the likeliest label (Ash et al. 2020, arXiv 1906.03671).

    The gradient of a row is x (p - e_ŷ)ᵀ. Its inner products are products of two small ones,
    so the N x d x K table of gradients is never made. A row is never drawn twice.

    Examples
    --------
    >>> Badge(seed=1)
    Badge(seed=1)
    """

    seed: int = 0

    def bind(self, request: Request) -> Rule:
        """Return the length of each row's gradient."""
        request.fitted.check_kind("Badge")
        return GradientRule(request.fitted)

    @property
    def selection(self) -> Any:  # type: ignore[override]
        """k-means++: the longest first, then at random by squared distance."""
        return PlusPlus()


@dataclass(frozen=True)
class PlusPlus:
    """k-means++ (Arthur and Vassilvitskii 2007) over what a rule says after each pick."""

    def keep(self, batch: int) -> None:
        """Return None: every row has a chance."""

    def __call__(self, shortlist: Shortlist, batch: int, rng: np.random.Generator) -> NDArray[Any]:
        """Return the positions drawn."""
        play = shortlist.ordered()
        rule, values = cast(SequentialRule, play.rule), play.values
        picked = [int(rng.choice(np.flatnonzero(values == values.max())))]
        while len(picked) < batch:
            rule = rule.after(play.candidates, picked[-1], "")
            weights = np.array(rule(play.candidates))
            weights[picked] = 0.0
            total = weights.sum()
            free = np.ones(len(weights))
            free[picked] = 0.0
            # All gradients equal to one that is taken: any free row is as good.
            chances = weights / total if total > 0.0 else free / free.sum()
            picked.append(int(rng.choice(len(weights), p=chances)))
        return play.positions[picked]


@dataclass(frozen=True, eq=False)
class GradientRule(FollowingRule):
    """The length of a row's gradient; once rows are taken, its squared distance to the nearest."""

    fitted: Fitted
    play: tuple[NDArray[Any], NDArray[Any]] | None = None

    def fresh(self, rows: Candidates) -> NDArray[Any]:
        """Return the lengths."""
        return np.asarray(np.sqrt(self._gradients(rows)[1]))

    def _gradients(self, rows: Candidates) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return p - e_ŷ of rows, and the squared lengths of their gradients."""
        slopes = _slopes(to_numpy(rows.proba))
        norms = to_numpy(self.fitted.model.squared_norms(rows.X, self.fitted.params))
        return slopes, norms * np.sum(slopes * slopes, axis=1)

    def after(self, rows: Candidates, position: int, update: str) -> SequentialRule:
        """Return the rule with one more gradient taken."""
        X, play = plain_rows(rows.X), self.play or self._gradients(rows)
        slopes, squares = play
        constant = float(self.fitted.model.linear("Badge").intercept)
        product = X @ rows_at(X, np.array([position])).T
        product = product.toarray() if is_sparse(product) else product
        inner = (product[:, 0] + constant) * (slopes @ slopes[position])
        gap = np.maximum(squares + squares[position] - 2.0 * inner, 0.0)
        nearest = gap if self.taken is None else np.minimum(self.taken[1], gap)
        return replace(self, play=play, taken=(rows, nearest))


def _slopes(proba: NDArray[Any]) -> NDArray[Any]:
    slopes: NDArray[Any] = proba.copy()
    slopes[np.arange(len(proba)), proba.argmax(axis=1)] -= 1.0
    return slopes


@dataclass(frozen=True)
class Bait(Strategy, word="bait"):
    """Forward greedy on tr((𝓗 + Σ Λ)⁻¹ F) (Ash et al. 2021, arXiv 2106.09675).

    F is the Fisher information of the pool, 𝓗 the curvature of the labelled rows with the
    penalty: the goal `FisherRatio` with the whole pool as reference. Taking a row x lowers the
    trace (over the number of rows) by tr((Λ⁻¹ + M)⁻¹ N) with M = J𝓗⁻¹Jᵀ its leverage and N = J𝓗⁻¹F𝓗⁻¹Jᵀ. The published backward
    pass is left out: `BaitBackward` has it. With more than 1,000 unknowns the leading directions of
    the pool stand for the features.

    Examples
    --------
    >>> Bait()
    Bait(seed=0)
    """

    seed: int = 0
    # One row at a time over the whole pool: each adds its information.
    selection = Sequential(shortlist=None, radius=None)
    zero = 0.0

    def bind(self, request: Request) -> Rule:
        """Return how much each row alone would lower the trace."""
        return GainRule(Information().prepare(request.fitted, FisherRatio(request.pool.source)))


@dataclass(frozen=True)
class BaitBackward(Bait, word="bait-backward"):
    """BAIT as published: twice the batch forward, then back to the batch.

    Of the rows that `Bait` takes for twice the batch, the one whose loss raises the trace least is
    given back, again and again, exactly. Both passes are greedy, so the way back can end at a higher
    trace than the forward pass alone; then that one's batch is taken. Rows are in the order in which
    they were taken.

    Examples
    --------
    >>> BaitBackward()
    BaitBackward(seed=0)
    """

    @property
    def selection(self) -> Any:  # type: ignore[override]
        """Forward, then backward."""
        return ForwardBackward()


@dataclass(frozen=True)
class ForwardBackward:
    """Twice the batch one at a time, then the rows that are needed least go again."""

    def keep(self, batch: int) -> None:
        """Return None: the whole pool stays in play."""

    def __call__(self, shortlist: Shortlist, batch: int, rng: np.random.Generator) -> NDArray[Any]:
        """Return the positions that stay, in the order in which they were taken."""
        free = len(shortlist.ordered().positions)
        taken = Bait.selection(shortlist, min(2 * batch, free), rng)
        rule: Any = shortlist.rule
        X = shortlist.read(taken).X
        forward = Together.of(rule.gains, rows_at(X, np.arange(batch)))
        together, kept = Together.of(rule.gains, X), np.ones(len(taken), dtype=bool)
        while kept.sum() > batch:
            least = int(np.where(kept, together.losses(), np.inf).argmin())
            kept[least], together = False, together.without(least)
        return np.asarray(taken[kept] if together.gain > forward.gain else taken[:batch])


NEIGHBOURS, LARGEST, SMALL, PLAIN = 20, 500, 5, 50
"""Of the authors: rows that say how typical one is, most clusters, a cluster that comes last, and
clusters up to which k-means looks at all rows in every step."""
BLOCK = 2**22
"""Numbers in one array of distances: 32 MB."""


@dataclass(frozen=True)
class TypiClust(Strategy, word="typiclust"):
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
