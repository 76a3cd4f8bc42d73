"""Answers of several people to the same rows: one label, weighed by who said what (Dawid, Skene)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from goalward.core.labels import as_classes, find_classes
from goalward.errors import BadParameter, ShapeMismatch, UnknownLabel

__all__ = ["Consensus", "DawidSkene"]


@dataclass(frozen=True, eq=False)
class Consensus:
    """What the answers of several people say together.

    Parameters
    ----------
    rows, classes
        The rows that were answered, sorted, and the classes.
    proba
        (n, K) probability of each label; targets for `Logistic(classes=...).fit`.
    people
        Who answered, sorted.
    confusion
        (A, K, K) how each of them answers rows of each class, as far as is known.
    answers, right
        How many of their answers are on rows that others answered too, and how many of those are
        expected to be right.

    Examples
    --------
    >>> found = DawidSkene()([0, 0, 1, 1], ["ann", "bo", "ann", "bo"], ["yes", "yes", "no", "no"])
    >>> found.people, found.answers.tolist(), int(found.at([1]).argmax())
    (('ann', 'bo'), [2, 2], 0)
    """

    rows: NDArray[Any]
    classes: NDArray[Any]
    proba: Float[NDArray[Any], "n k"] = field(repr=False)
    people: tuple[Hashable, ...]
    confusion: Float[NDArray[Any], "a k k"] = field(repr=False)
    answers: NDArray[Any]
    right: NDArray[Any]

    def at(self, rows: Sequence[Any] | NDArray[Any]) -> Float[NDArray[Any], "n k"]:
        """Return the probabilities of some of the rows."""
        return np.asarray(self.proba[np.searchsorted(self.rows, rows)])

    def told(self, proba: Float[NDArray[Any], "n k"]) -> Float[NDArray[Any], " n"]:
        """Return how much nearer to a sure label one more answer is expected to bring each row.

        How sure a label is, is the squared distance of its probabilities from all alike, 1 for a sure one:
        for two classes (2p - 1)², the share of a sure label's Fisher information at the boundary. The
        answer is that of anybody: their mean confusion.
        """
        weights = self.answers + 1.0
        anybody = np.einsum("a,akl->kl", weights / weights.sum(), self.confusion)
        joint = proba[:, :, None] * anybody
        said = joint.sum(axis=1)
        after = joint / np.maximum(said[:, None, :], 1e-300)
        K = proba.shape[1]
        gain = np.sum(said * np.sum(after**2, axis=1), axis=1) - np.sum(proba**2, axis=1)
        return np.asarray(gain * K / max(K - 1, 1))


@dataclass(frozen=True)
class DawidSkene:
    """Reliability learned from answers alone, and the labels that follow (Dawid and Skene 1979).

    Each person has a confusion matrix, estimated by expectation maximisation from the rows that several
    people answered. So that few answers do not overfit, it is drawn, as if by `strength` more answers,
    towards that of somebody who either knows the truth or guesses: as often as the person is right, and
    with the labels that they often give. That share of right answers is drawn towards `accuracy`.

    Parameters
    ----------
    strength
        Supposed answers: 0 is the published model, which a few answers lead astray.
    accuracy
        Share of right answers of somebody of whom nothing is known.
    trusting
        Whether people who share no row with anybody are taken at their word, since nothing speaks
        against it. Otherwise they are as accurate as anybody of whom nothing is known.

    Examples
    --------
    Cy contradicted the others eight times, so cy's word alone is taken for its contrary.

    >>> rows = [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 5, 5, 5, 6, 6, 6, 7, 7, 7, 8]
    >>> people = ["ann", "bo", "cy"] * 8 + ["cy"]
    >>> said = ["yes", "yes", "no", "no", "no", "yes"] * 4 + ["no"]
    >>> found = DawidSkene()(rows, people, said)
    >>> found.classes[found.proba.argmax(axis=1)].tolist()
    ['yes', 'no', 'yes', 'no', 'yes', 'no', 'yes', 'no', 'yes']
    """

    strength: float = 10.0
    accuracy: float = 0.8
    trusting: bool = True

    def __post_init__(self) -> None:
        if not self.strength >= 0.0 or not 0.0 < self.accuracy < 1.0:
            raise BadParameter(
                f"strength={self.strength!r}, accuracy={self.accuracy!r}; 0 or more, and a share between 0 "
                "and 1, were expected. Leave them at 10 and 0.8."
            )

    def __call__(
        self,
        rows: Sequence[Any],
        people: Sequence[Hashable],
        labels: Sequence[Hashable],
        classes: Sequence[Hashable] | None = None,
    ) -> Consensus:
        """Return what answers, each of a person on a row, say together."""
        if not len(rows) == len(people) == len(labels):
            raise ShapeMismatch(
                f"{len(rows)} rows, {len(people)} people and {len(labels)} labels came; as many of each "
                "were expected, one for every answer."
            )
        names = find_classes(labels) if classes is None else as_classes(classes)
        codes = {label: k for k, label in enumerate(names.tolist())}
        unknown = next((label for label in labels if label not in codes), None)
        if unknown is not None:
            raise UnknownLabel(f"The label {unknown!r} came; one of classes= was expected.")
        said = np.array([codes[label] for label in labels], dtype=np.int64)
        ids, row = np.unique(np.asarray(rows), return_inverse=True)
        who = sorted(set(people), key=str)
        place = {name: a for a, name in enumerate(who)}
        by = np.array([place[name] for name in people], dtype=np.int64)
        return Consensus(ids, names, *self._learned(row, by, said, len(names), tuple(who)))

    def coded(
        self,
        rows: NDArray[Any],
        people: NDArray[Any],
        labels: NDArray[Any],
        who: tuple[Any, ...],
        n_classes: int,
    ) -> Consensus:
        """Return the same of people and labels that are given by their places."""
        ids, row = np.unique(rows, return_inverse=True)
        names = np.arange(n_classes)
        return Consensus(ids, names, *self._learned(row, people, labels, n_classes, who))

    def _learned(
        self, row: NDArray[Any], by: NDArray[Any], said: NDArray[Any], K: int, who: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        """Return probabilities, people, confusion, answers and how many of them are right."""
        # Rows with the same answers are one, as often as they come; those with one answer are one for
        # each person and label.
        alone = (np.bincount(row) == 1)[row]
        place = np.empty(row.max(initial=-1) + 1, dtype=np.int64)
        place[row[alone]] = by[alone] * K + said[alone]
        several, inner = np.unique(row[~alone], return_inverse=True)
        table = np.zeros((len(several), len(who)), dtype=np.int32)
        table[inner, by[~alone]] = said[~alone] + 1
        alike, found, often = np.unique(table, axis=0, return_inverse=True, return_counts=True)
        place[several] = len(who) * K + found.ravel()
        shared = np.count_nonzero(alike, axis=1) > 1
        among, few = often[shared, None], _listed(alike[shared])
        heard = np.bincount(few[1], weights=among[few[0], 0], minlength=len(who)).astype(np.int64)
        q = _summed(few[0], np.eye(K)[few[2]])
        q /= np.maximum(q.sum(axis=1, keepdims=True), 1.0)
        counts, prevalence, confusion = self._estimated(q * among, few, heard)
        for _ in range(100 if shared.any() else 0):
            last, q = q, _posterior(few, prevalence, confusion)
            counts, prevalence, confusion = self._estimated(q * among, few, heard)
            if np.abs(q - last).max() < 1e-5:
                break
        if self.trusting:
            confusion[heard == 0] = np.eye(K)
        with np.errstate(divide="ignore"):
            single = np.arange(len(who) * K)
            first = _posterior((single, single // K, single % K), prevalence, confusion)
            rest = _posterior(_listed(alike), prevalence, confusion)
            proba = np.concatenate([first, rest])[place]
        right = np.trace(counts, axis1=1, axis2=2)
        return proba, who, confusion, heard, right

    def _estimated(
        self, q: NDArray[Any], answers: tuple[Any, Any, Any], heard: NDArray[Any]
    ) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Return each person's (true, said) counts, the shares of the classes, and the confusion.

        `q` holds the probabilities of each label, times how many rows are alike.
        """
        row, by, said = answers
        A, K, s = len(heard), q.shape[1], max(self.strength, 1e-9)
        counts = _summed(by * K + said, q[row], A * K).reshape(A, K, K).transpose(0, 2, 1)
        right = (np.trace(counts, axis1=1, axis2=2) + s * self.accuracy) / (heard + s)
        # Who knows the truth says it, and who does not says what they often say.
        guess = (counts.sum(axis=1) + s / K) / (heard + s)[:, None]
        prevalence = (q.sum(axis=0) + s / K) / (q.sum() + s)
        luck = guess @ prevalence
        knows = np.maximum((right - luck) / np.maximum(1 - luck, 1e-9), 0.0)[:, None, None]
        drawn = knows * np.eye(K) + (1 - knows) * guess[:, None, :]
        confusion = counts + s * drawn
        confusion /= confusion.sum(axis=2, keepdims=True)
        return counts, prevalence, confusion


def _listed(table: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return row, person and label of every answer in a table of them."""
    row, by = np.nonzero(table)
    return row, by, table[row, by] - 1


def _posterior(
    answers: tuple[Any, Any, Any], prevalence: NDArray[Any], confusion: NDArray[Any]
) -> NDArray[Any]:
    """Return P(label) of every row, given the answers to it."""
    row, by, said = answers
    logs = _summed(row, np.log(confusion)[by, :, said]) + np.log(prevalence)
    p = np.exp(logs - logs.max(axis=1, keepdims=True))
    return np.asarray(p / p.sum(axis=1, keepdims=True))


def _summed(where: NDArray[Any], what: NDArray[Any], size: int = 0) -> NDArray[Any]:
    """Return the sums of the lines of a table that go to the same place."""
    columns = [np.bincount(where, weights=column, minlength=size) for column in what.T]
    return np.stack(columns, axis=1).astype(np.float64)
