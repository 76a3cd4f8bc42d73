"""Answers of several people: reliability learned from them, and the labels that follow."""

import warnings

import numpy as np
import pandas as pd
import pytest

import goalward as gw
from goalward import errors
from goalward.labels import DawidSkene
from tests.conftest import need


def answered(seed, n, K, people, per):
    """Return the truth, and rows, names and labels of answers; a person is an accuracy or a label."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(K, size=n)
    rows, names, labels = [], [], []
    for row in range(n):
        for who in rng.choice(len(people), per, replace=False):
            skill, kind = people[who], truth[row]
            wrong = (kind + rng.integers(1, K)) % K
            always = skill[0] if isinstance(skill, tuple) else None
            said = always if always is not None else kind if rng.random() < skill else wrong
            rows.append(row)
            names.append(f"p{who}")
            labels.append(int(said))
    return truth, rows, names, labels


def theirs(rows, names, labels, K):
    need("crowdkit")
    from crowdkit.aggregation import DawidSkene as Published

    frame = pd.DataFrame({"task": rows, "worker": names, "label": labels})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = Published(25).fit(frame)
    return found.probas_.reindex(columns=range(K), fill_value=0.0).sort_index().to_numpy()


def likelihood(proba, truth):
    return np.mean(np.log(np.maximum(proba[np.arange(len(truth)), truth], 1e-6)))


HOSTILE = {
    "skilled": [0.9, 0.8, 0.7, 0.6],
    "always the same": [0.85, 0.85, 0.85, (0,)],
    "an adversary": [0.9, 0.9, 0.9, 0.05],
}


@pytest.mark.heavy
@pytest.mark.parametrize("kind", HOSTILE)
def test_it_is_as_good_as_crowd_kit_and_surer_where_answers_are_few(kind):
    right, likely = [], []
    for n, K, seed in ((50, 3, 0), (30, 4, 1)):
        truth, *given = answered(seed, n, K, HOSTILE[kind], 3)
        both = DawidSkene()(*given, range(K)).proba, theirs(*given, K)
        right.append([np.mean(p.argmax(axis=1) == truth) for p in both])
        likely.append([likelihood(p, truth) for p in both])
    ours, published = np.mean(right, axis=0)
    assert ours >= published - 0.05  # three of 80 rows
    ours, published = np.mean(likely, axis=0)
    assert ours > published


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_prior_helps_where_answers_are_few(kind):
    """Against the published model, over ten draws of 30 rows with two answers each."""
    right, likely = [], []
    for seed in range(10):
        truth, *given = answered(seed, 30, 4, HOSTILE[kind], 2)
        both = DawidSkene()(*given, range(4)).proba, DawidSkene(0.0)(*given, range(4)).proba
        right.append([np.mean(p.argmax(axis=1) == truth) for p in both])
        likely.append([likelihood(p, truth) for p in both])
    ours, published = np.mean(right, axis=0)
    assert ours > published + 0.05
    ours, published = np.mean(likely, axis=0)
    assert ours > published + 1.0


@pytest.mark.heavy
def test_without_a_prior_it_is_the_published_model():
    """The same fixed point where there is one: 400 rows, and people who are mostly right."""
    truth, *given = answered(0, 400, 2, [0.9, 0.85, 0.8, 0.75], 4)
    ours = DawidSkene(strength=0.0)(*given).proba
    np.testing.assert_allclose(ours, theirs(*given, 2), atol=0.01)
    assert np.mean(ours.argmax(axis=1) == truth) > 0.9


def test_people_are_told_apart():
    truth, *given = answered(0, 200, 3, [0.95, 0.9, 0.6, (1,), 0.02], 4)
    found = DawidSkene()(*given)
    share = found.right / found.answers
    assert found.people == ("p0", "p1", "p2", "p3", "p4")
    assert share[:2].min() > 0.8
    assert 0.45 < share[2] < 0.75
    assert share[3] < 0.45
    assert share[4] < 0.15
    np.testing.assert_allclose(found.confusion.sum(axis=2), 1.0)
    assert found.confusion[3][:, 1].min() > 0.8  # whatever it is, p3 says 1
    assert np.mean(found.proba.argmax(axis=1) == truth) > 0.93


def test_people_who_never_share_a_row_are_taken_at_their_word():
    labels = ["b", "a", "a", "b"]
    found = DawidSkene()([3, 1, 0, 2], ["ann", "bo", "ann", "bo"], labels)
    assert found.rows.tolist() == [0, 1, 2, 3]
    np.testing.assert_array_equal(found.proba, [[1, 0], [1, 0], [0, 1], [0, 1]])
    assert found.answers.tolist() == [0, 0]


def test_few_answers_do_not_make_anybody_an_adversary():
    found = DawidSkene()([0, 0], ["ann", "bo"], ["a", "b"], ["a", "b"])
    np.testing.assert_allclose(found.proba, [[0.5, 0.5]])
    agreed = DawidSkene()([0, 0, 1, 1], ["ann", "bo"] * 2, ["a", "a", "b", "a"])
    assert 0.8 < agreed.proba[0, 0] < 1.0
    assert agreed.proba[1].max() < 0.7


def test_the_order_of_answers_does_not_matter():
    _, rows, names, labels = answered(3, 40, 3, [0.9, 0.7, 0.6], 2)
    found = DawidSkene()(rows, names, labels)
    order = np.random.default_rng(0).permutation(len(rows))
    mixed = DawidSkene()(*([column[i] for i in order] for column in (rows, names, labels)))
    np.testing.assert_allclose(mixed.proba, found.proba, atol=1e-9)


def test_soft_labels_train_a_model():
    _, *given = answered(0, 60, 2, [0.9, 0.8, 0.6], 2)
    found = DawidSkene()(*given)
    X = np.random.default_rng(0).normal(size=(60, 3))
    assert gw.Logistic(classes=found.classes).fit(X, found.proba).n_classes == 2


def test_bad_answers_are_refused():
    with pytest.raises(errors.ShapeMismatch, match="2 rows, 1 people and 2 labels"):
        DawidSkene()([0, 1], ["ann"], ["a", "b"])
    with pytest.raises(errors.UnknownLabel, match="got 'c'"):
        DawidSkene()([0, 1], ["ann", "bo"], ["a", "c"], ["a", "b"])
    with pytest.raises(errors.BadParameter, match="strength=-1"):
        DawidSkene(strength=-1.0)
