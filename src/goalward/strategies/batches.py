"""Baselines that pick diverse batches: CoreSet, BADGE, BAIT and TypiClust."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import euclidean_distances, pairwise_distances_argmin

from goalward.core.arrays import is_sparse, plain_rows, rows_at, stack_rows, to_numpy
from goalward.core.rows import Candidates
from goalward.goals import FisherRatio
from goalward.models import Fitted
from goalward.strategies.selectors import Selector, Sequential, Shortlist
from goalward.strategies.strategy import Request, Strategy
from goalward.utility import Information
from goalward.utility.information import GainRule, Together
from goalward.utility.utility import FollowingRule, Rule


@dataclass(frozen=True)
class CoreSet(Strategy, word="core-set"):
    """k-centre greedy (Sener and Savarese 2018): the row farthest from all known ones.

    Distances are Euclidean in the model's features. The rows it picks from are held in memory.

    Examples
    --------
    >>> CoreSet()
    CoreSet(seed=0)
    """

    seed: int = 0
    # One row at a time: each changes the distances of the others.
    selection = Sequential(shortlist=None, radius=None)

    def bind(self, request: Request) -> Rule:
        return NearestRule(plain_rows(request.fitted.labelled.X))


@dataclass(frozen=True, eq=False)
class NearestRule(FollowingRule):
    """Distances to the nearest known row, times those of the numbers `y`, divided by `scale`."""

    known: Any
    y: NDArray[Any] | None = None
    scale: Any = 1.0

    def fresh(self, rows: Candidates) -> NDArray[Any]:
        return np.asarray(self._apart(rows, self.known, self.y).min(axis=1))

    def playing(self, rows: Candidates) -> Rule:
        return replace(self, taken=(rows, self.fresh(rows)))

    def after(self, rows: Candidates, position: int, update: str) -> Rule:
        newest, y, ys = rows_at(plain_rows(rows.X), np.array([position])), None, None
        if self.y is not None:
            y = to_numpy(rows.proba)[[position]] / self.scale
            ys = np.vstack([self.y, y])
        nearer = np.minimum(self(rows), self._apart(rows, newest, y)[:, 0])
        return NearestRule(stack_rows(self.known, newest), ys, self.scale, taken=(rows, nearer))

    def _apart(self, rows: Candidates, known: Any, y: NDArray[Any] | None) -> NDArray[Any]:
        apart = euclidean_distances(plain_rows(rows.X), known)
        if y is not None:
            apart = apart * euclidean_distances(to_numpy(rows.proba) / self.scale, y)
        return np.asarray(apart)


@dataclass(frozen=True)
class GreedySampling(Strategy, word="greedy"):
    """iGS (Wu, Lin and Huang 2019): rows far from the known ones in both x and y.

    The score is min over known rows m of ‖x - x_m‖ ‖f(x) - y_m‖, each number scaled by its
    deviation among the labels. Rows of the batch count as known, with their predictions.

    Examples
    --------
    >>> GreedySampling()
    GreedySampling(seed=0)
    """

    seed: int = 0
    selection = Sequential(shortlist=None, radius=None)

    def bind(self, request: Request) -> Rule:
        fitted = request.fitted
        fitted.check_kind("GreedySampling", ("numbers",))
        y = to_numpy(fitted.labelled.targets)
        scale = np.maximum(y.std(axis=0), 1e-12)
        return NearestRule(plain_rows(fitted.labelled.X), y / scale, scale)


class PlusPlus(Selector):
    """k-means++ (Arthur and Vassilvitskii 2007), with a rule's scores after each pick."""

    def __call__(self, shortlist: Shortlist, batch: int, rng: np.random.Generator) -> NDArray[Any]:
        play = shortlist.ordered()
        rule, values = play.rule, play.values
        picked = [int(rng.choice(np.flatnonzero(values == values.max())))]
        while len(picked) < batch:
            rule = rule.after(play.candidates, picked[-1], "")
            weights = np.array(rule(play.candidates))
            weights[picked] = 0.0
            if not weights.sum() > 0.0:
                # All gradients equal one that is taken: any free row is as good.
                weights = np.ones(len(weights))
                weights[picked] = 0.0
            picked.append(int(rng.choice(len(weights), p=weights / weights.sum())))
        return play.positions[picked]


@dataclass(frozen=True)
class Badge(Strategy, word="badge"):
    """k-means++ on gradients of the likeliest label (Ash et al. 2020, arXiv 1906.03671).

    The table of gradients x (p - e_ŷ)ᵀ is never made. A row is never drawn twice.

    Examples
    --------
    >>> Badge(seed=1)
    Badge(seed=1)
    """

    seed: int = 0
    selection = PlusPlus()

    def bind(self, request: Request) -> Rule:
        request.fitted.check_kind("Badge")
        return GradientRule(request.fitted)


@dataclass(frozen=True, eq=False)
class GradientRule(FollowingRule):
    """The length of a row's gradient; once rows are taken, its squared distance to the nearest."""

    fitted: Fitted
    play: tuple[NDArray[Any], NDArray[Any]] | None = None

    def fresh(self, rows: Candidates) -> NDArray[Any]:
        return np.asarray(np.sqrt(self._gradients(rows)[1]))

    def _gradients(self, rows: Candidates) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return p - e_ŷ of rows, and the squared lengths of their gradients."""
        slopes = np.array(to_numpy(rows.proba))
        slopes[np.arange(len(slopes)), slopes.argmax(axis=1)] -= 1.0
        norms = to_numpy(self.fitted.model.squared_norms(rows.X, self.fitted.params))
        return slopes, norms * np.sum(slopes * slopes, axis=1)

    def after(self, rows: Candidates, position: int, update: str) -> Rule:
        X, play = plain_rows(rows.X), self.play or self._gradients(rows)
        slopes, squares = play
        constant = float(self.fitted.model.linear("Badge").intercept)
        product = X @ rows_at(X, np.array([position])).T
        product = product.toarray() if is_sparse(product) else product
        inner = (product[:, 0] + constant) * (slopes @ slopes[position])
        gap = np.maximum(squares + squares[position] - 2.0 * inner, 0.0)
        nearest = gap if self.taken is None else np.minimum(self.taken[1], gap)
        return replace(self, play=play, taken=(rows, nearest))


@dataclass(frozen=True)
class Bait(Strategy, word="bait"):
    """Forward greedy on tr((𝓗 + Σ Λ)⁻¹ F) (Ash et al. 2021, arXiv 2106.09675).

    The goal `FisherRatio` with the pool as reference; `BaitBackward` adds the backward pass. With
    more than 1,000 unknowns only the leading directions of the pool are used.

    Examples
    --------
    >>> Bait()
    Bait(seed=0)
    """

    seed: int = 0
    # One row at a time: each adds its information.
    selection = Sequential(shortlist=None, radius=None)
    zero = 0.0

    def bind(self, request: Request) -> Rule:
        return GainRule(Information().prepare(request.fitted, FisherRatio(request.pool.source)))


class ForwardBackward(Selector):
    """Greedy selection of twice the batch, then removal of the rows needed least."""

    def __call__(self, shortlist: Shortlist, batch: int, rng: np.random.Generator) -> NDArray[Any]:
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


@dataclass(frozen=True)
class BaitBackward(Bait, word="bait-backward"):
    """BAIT as published: twice the batch forward, then back to the batch.

    The backward pass drops the row that raises the trace least. If the forward pass alone ends at a
    lower trace, its batch is taken.

    Examples
    --------
    >>> BaitBackward()
    BaitBackward(seed=0)
    """

    selection = ForwardBackward()  # type: ignore[assignment]


NEIGHBOURS, LARGEST, SMALL, PLAIN = 20, 500, 5, 50
"""Published: neighbours, clusters at most, rows of a small cluster, clusters for plain k-means."""
BLOCK = 2**22
"""Numbers in one array of distances: 32 MB."""


class RoundRobin(Selector):
    """The best row of every cluster in turn, then the second best, and so on."""

    def __call__(self, shortlist: Shortlist, batch: int, rng: np.random.Generator) -> NDArray[Any]:
        play = shortlist.ordered()
        rule: Any = play.rule
        turn = rule.order[rule.clusters(play.candidates.X)]
        by_cluster = np.lexsort((-play.values, turn))
        starts = np.searchsorted(turn[by_cluster], turn[by_cluster])
        place = np.empty(len(turn), dtype=np.int64)
        place[by_cluster] = np.arange(len(turn)) - starts
        late = turn >= len(rule.order)
        return np.asarray(play.positions[np.lexsort((turn, place, late))[:batch]])


@dataclass(frozen=True)
class TypiClust(Strategy, word="typiclust"):
    """Typical rows of different clusters (Hacohen, Dekel and Weinshall 2022, arXiv 2202.02794).

    k-means clusters labelled and free rows; clusters with the fewest labels come first, then the
    largest. Each gives the row nearest to its 20 neighbours. No labels are needed.

    Examples
    --------
    >>> TypiClust()
    TypiClust(seed=0)
    """

    seed: int = 0
    starts = True
    selection = RoundRobin()

    def bind(self, request: Request) -> Rule:
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
        # The fewest labels first, then the most rows; small clusters after all others.
        sizes = np.bincount(clusters, minlength=count)
        labels = np.bincount(clusters[:first], minlength=count)
        order = np.empty(count, dtype=np.int64)
        order[np.lexsort((-sizes, labels, sizes <= SMALL))] = np.arange(count)
        order[sizes <= SMALL] += count
        members = [rows_at(free, np.flatnonzero(clusters[first:] == k)) for k in range(count)]
        return ClusterRule(means.cluster_centers_, members, order)


@dataclass(frozen=True, eq=False)
class ClusterRule(Rule):
    """How typical rows are of their cluster: `members` are its free rows, `order` is its turn."""

    centres: NDArray[Any]
    members: list[Any]
    order: NDArray[Any]

    def clusters(self, X: Any) -> NDArray[Any]:
        return np.asarray(pairwise_distances_argmin(plain_rows(X), self.centres))

    def __call__(self, rows: Candidates) -> NDArray[Any]:
        clusters, X = self.clusters(rows.X), plain_rows(rows.X)
        typical = np.zeros(len(rows))
        for k in np.unique(clusters):
            places = np.flatnonzero(clusters == k)
            if self.members[k].shape[0] > 1:
                typical[places] = typicality(rows_at(X, places), self.members[k])
        return typical


def typicality(X: Any, members: Any) -> NDArray[Any]:
    """Return 1 over the mean distance of each row from its nearest members, less itself."""
    count, means = min(NEIGHBOURS, members.shape[0] // 2), []
    step = max(1, BLOCK // members.shape[0])
    for start in range(0, X.shape[0], step):
        gaps = euclidean_distances(rows_at(X, slice(start, start + step)), members)
        means.append(np.partition(gaps, count, axis=1)[:, : count + 1].sum(axis=1) / count)
    return np.asarray(1.0 / (np.concatenate(means) + 1e-5))
