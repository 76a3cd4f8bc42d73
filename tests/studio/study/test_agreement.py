"""How far annotators agree."""

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

import goalward as gw


@pytest.fixture
def study(tmp_path):
    with gw.Study.create(tmp_path / "s.db", pool=np.eye(40), classes=["a", "b", "c"]) as made:
        yield made


def test_two_people_agree_as_kappa_says(study):
    rng = np.random.default_rng(0)
    ann = rng.choice(["a", "b", "c"], size=30, p=[0.6, 0.3, 0.1])
    bo = np.where(rng.random(30) < 0.3, rng.permutation(ann), ann)
    for row in range(30):
        study.tell(row, str(ann[row]), by="ann")
        study.tell(row, str(bo[row]), by="bo")
    study.tell(30, "a", by="ann")  # alone
    study.tell(31, "a", by="bo")
    study.skip(31, by="ann")
    study.tell(0, str(ann[0]), by="cy")
    first, *others = study.agreement()
    assert (first.one, first.other, first.rows) == ("ann", "bo", 30)
    assert first.same == np.sum(ann == bo)
    assert first.kappa == pytest.approx(cohen_kappa_score(ann, bo))
    assert first.share.low < first.share.value == first.same / 30 < first.share.high
    assert f"same label to {first.same} of the 30 rows" in first.says
    assert f"kappa {first.kappa:.2f}" in first.record()["says"]
    assert {(pair.one, pair.other, pair.rows) for pair in others} == {
        ("ann", "cy", 1),
        ("bo", "cy", 1),
    }


def test_one_label_everywhere_says_nothing_beyond_chance(study):
    for by in ("ann", "bo"):
        study.tell_many([(row, "a") for row in range(5)], by=by)
    (pair,) = study.agreement()
    assert pair.kappa is None
    assert "kappa" not in pair.says
    assert pair.share.low < 0.6 < pair.share.value == 1.0


def test_alone_nobody_agrees(study):
    study.tell(0, "a", by="ann")
    assert study.agreement() == []


def test_all_pairs_are_found_however_many_answered_a_row(study):
    rng = np.random.default_rng(1)
    said = {by: {} for by in ("cy", "ann", "bo", "di")}
    for row in range(40):
        for by in rng.permutation(list(said))[: rng.integers(1, 5)]:
            said[by][row] = str(rng.choice(["a", "b", "c"], p=[0.6, 0.3, 0.1]))
            study.tell(row, said[by][row], by=str(by))
    found = {(pair.one, pair.other): pair for pair in study.agreement()}
    assert len(found) == 6
    for (one, other), pair in found.items():
        both = sorted(said[one].keys() & said[other].keys())
        ours, theirs = ([said[by][row] for row in both] for by in (one, other))
        assert one < other
        assert (pair.rows, pair.same) == (len(both), sum(map(str.__eq__, ours, theirs)))
        assert pair.kappa == pytest.approx(cohen_kappa_score(ours, theirs))
