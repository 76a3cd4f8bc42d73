"""One label from the answers of several people, weighed by how reliable each is (Dawid and Skene)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from goalward.core.labels import as_classes, find_classes
from goalward.errors import BadParameter, ShapeMismatch, UnknownLabel

Answers = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]  # row, person and label codes


@dataclass(frozen=True, eq=False)
class Consensus:
    """The consensus of the answers of several people.

    `proba` (n, K) are targets for `Logistic(classes=...).fit`; `confusion` (A, K, K) the estimated answers
    of each person to rows of each class; `right` how many `answers` on shared rows are expected to be right.

    Examples
    --------
    >>> consensus = DawidSkene()([0, 0, 1, 1], ["ann", "bo"] * 2, ["yes", "yes", "no", "no"])
    >>> consensus.people, consensus.answers.tolist(), int(consensus.at([1]).argmax())
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
        return np.asarray(self.proba[np.searchsorted(self.rows, rows)])


@dataclass(frozen=True)
class DawidSkene:
    """Labels and the reliability of people, estimated from answers alone (Dawid and Skene 1979).

    Each person has a confusion matrix, estimated by expectation maximisation on rows that several people
    answered; who shares no row with anybody is taken to be right. The prior is `strength` answers that are
    right as often as the person, drawn towards `accuracy`; strength 0 is the published model.

    Examples
    --------
    Cy contradicted the others eight times, so cy's word alone is taken for its contrary.

    >>> rows = [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 5, 5, 5, 6, 6, 6, 7, 7, 7, 8]
    >>> people = ["ann", "bo", "cy"] * 8 + ["cy"]
    >>> labels = ["yes", "yes", "no", "no", "no", "yes"] * 4 + ["no"]
    >>> consensus = DawidSkene()(rows, people, labels)
    >>> consensus.classes[consensus.proba.argmax(axis=1)].tolist()
    ['yes', 'no', 'yes', 'no', 'yes', 'no', 'yes', 'no', 'yes']
    """

    strength: float = 10.0
    accuracy: float = 0.8

    def __post_init__(self) -> None:
        if not self.strength >= 0.0 or not 0.0 < self.accuracy < 1.0:
            raise BadParameter(
                "strength must be 0 or more and accuracy between 0 and 1, got "
                f"strength={self.strength!r}, accuracy={self.accuracy!r}. Leave them at 10 and 0.8."
            )

    def __call__(
        self,
        rows: Sequence[Any],
        people: Sequence[Hashable],
        labels: Sequence[Hashable],
        classes: Sequence[Hashable] | None = None,
    ) -> Consensus:
        if not len(rows) == len(people) == len(labels):
            raise ShapeMismatch(
                f"Every answer needs a row, a person and a label, got {len(rows)} rows, {len(people)} people "
                f"and {len(labels)} labels."
            )
        names = find_classes(labels) if classes is None else as_classes(classes)
        codes = {label: k for k, label in enumerate(names.tolist())}
        unknown = next((label for label in labels if label not in codes), None)
        if unknown is not None:
            raise UnknownLabel(f"Labels must be among classes={names.tolist()}, got {unknown!r}.")
        who = tuple(sorted(set(people), key=str))
        places = {name: a for a, name in enumerate(who)}
        by = np.array([places[name] for name in people], dtype=np.int64)
        label = np.array([codes[label] for label in labels], dtype=np.int64)
        return replace(self.coded(np.asarray(rows), by, label, who, len(names)), classes=names)

    def coded(
        self,
        rows: NDArray[Any],
        people: NDArray[Any],
        labels: NDArray[Any],
        who: tuple[Any, ...],
        n_classes: int,
    ) -> Consensus:
        """Return the consensus of answers whose people and labels are positions."""
        ids, row = np.unique(rows, return_inverse=True)
        A, K = len(who), n_classes
        # Rows with the same answers are one pattern, counted as often as it occurs: of single answers
        # one for each person and label, then those of several.
        alone = (np.bincount(row) == 1)[row]
        pattern = np.empty(len(ids), dtype=np.int64)
        pattern[row[alone]] = people[alone] * K + labels[alone]
        several, inner = np.unique(row[~alone], return_inverse=True)
        table = np.zeros((len(several), max(A, 1)), dtype=np.int32)
        table[inner, people[~alone]] = labels[~alone] + 1
        # As bytes: by axis, numpy would compare a row's columns one by one.
        lines = table.view(f"V{4 * table.shape[1]}").ravel()
        unique, at, counts = np.unique(lines, return_inverse=True, return_counts=True)
        unique, pattern[several] = unique.view(np.int32).reshape(-1, table.shape[1]), A * K + at
        shared = np.count_nonzero(unique, axis=1) > 1
        weights, answers = counts[shared, None], _listed(unique[shared])
        heard = np.bincount(answers[1], weights=weights[answers[0], 0], minlength=A)
        q = _summed(answers[0], np.eye(K)[answers[2]])
        q /= np.maximum(q.sum(axis=1, keepdims=True), 1.0)
        tally, prevalence, confusion = self._estimated(q * weights, answers, heard)
        for _ in range(100 if shared.any() else 0):
            last, q = q, _posterior(answers, prevalence, confusion)
            tally, prevalence, confusion = self._estimated(q * weights, answers, heard)
            if np.abs(q - last).max() < 1e-5:
                break
        confusion[heard == 0] = np.eye(K)
        single = np.arange(A * K)
        with np.errstate(divide="ignore"):
            ones = _posterior((single, single // K, single % K), prevalence, confusion)
            rest = _posterior(_listed(unique), prevalence, confusion)
        proba, right = np.concatenate([ones, rest])[pattern], np.trace(tally, axis1=1, axis2=2)
        return Consensus(ids, np.arange(K), proba, who, confusion, heard.astype(np.int64), right)

    def _estimated(
        self, q: NDArray[Any], answers: Answers, heard: NDArray[Any]
    ) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Return counts by person, true and given label; class shares; confusion. `q` is weighted P(y)."""
        row, by, label = answers
        A, K, s = len(heard), q.shape[1], max(self.strength, 1e-9)
        counts = _summed(by * K + label, q[row], A * K).reshape(A, K, K).transpose(0, 2, 1)
        right = (np.trace(counts, axis1=1, axis2=2) + s * self.accuracy) / (heard + s)
        # Who knows the truth says it; who does not answers by their own frequencies.
        guess = (counts.sum(axis=1) + s / K) / (heard + s)[:, None]
        prevalence = (q.sum(axis=0) + s / K) / (q.sum() + s)
        luck = guess @ prevalence
        knows = np.maximum((right - luck) / np.maximum(1 - luck, 1e-9), 0.0)[:, None, None]
        prior = knows * np.eye(K) + (1 - knows) * guess[:, None, :]
        confusion = counts + s * prior
        confusion /= confusion.sum(axis=2, keepdims=True)
        return counts, prevalence, confusion


def _listed(table: NDArray[Any]) -> Answers:
    row, by = np.nonzero(table)
    return row, by, table[row, by] - 1


def _posterior(answers: Answers, prevalence: NDArray[Any], confusion: NDArray[Any]) -> NDArray[Any]:
    row, by, label = answers
    logs = _summed(row, np.log(confusion)[by, :, label]) + np.log(prevalence)
    p = np.exp(logs - logs.max(axis=1, keepdims=True))
    return np.asarray(p / p.sum(axis=1, keepdims=True))


def _summed(index: NDArray[Any], values: NDArray[Any], size: int = 0) -> NDArray[Any]:
    columns = [np.bincount(index, weights=column, minlength=size) for column in values.T]
    return np.stack(columns, axis=1).astype(np.float64)
