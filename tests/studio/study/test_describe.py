"""Classes that are named, coloured and described while answers come."""

import pytest

import goalward as gw
from goalward.errors import BadParameter, UnknownLabel


@pytest.fixture
def study(tmp_path):
    pool = [[float(i)] for i in range(12)]
    with gw.Study.create(tmp_path / "s.db", pool=pool, classes=["low", "high"]) as made:
        yield made


def reopened(study):
    with gw.Study.open(study.url) as again:
        return again.state


def test_a_renamed_class_keeps_its_answers_and_undo_goes_back_through_it(study):
    study.tell(0, "low")
    study.tell(1, "high")
    study.tell(0, "high")
    study.describe("low", name="small")
    study.describe("high", name="large")
    assert study.state.classes == ("small", "large")
    assert dict(study.state.labels) == {0: "large", 1: "large"}
    # Taken back: what was said before, under the name of now.
    assert study.undo() == 0
    assert study.state.labels[0] == "small"
    # A page that has not heard of it yet means the same class.
    study.tell(2, "low")
    assert study.state.labels[2] == "small"
    state = reopened(study)
    assert dict(state.labels) == dict(study.state.labels)
    assert state.classes == study.state.classes


def test_names_are_not_exchanged_under_an_open_page(study):
    """A page that has not heard of it sends an earlier name, and means the class that had it."""
    study.tell(0, "low")
    study.describe("low", name="small")
    seq = study.state.seq
    for give in (lambda: study.describe("high", name="low"), lambda: study.add_class("low")):
        with pytest.raises(BadParameter, match="'low' was the name of 'small'"):
            give()
    assert study.state.seq == seq
    study.tell(1, "low")
    assert dict(study.state.labels) == {0: "small", 1: "small"}
    # Its own earlier name a class may have again.
    study.describe("small", name="low")
    study.tell(2, "small")
    assert dict(study.state.labels) == dict.fromkeys(range(3), "low")
    with pytest.raises(BadParameter, match="'high' already"):
        study.describe("low", name="high")
    with pytest.raises(UnknownLabel):
        study.describe("nothing", text="x")


def test_one_and_true_are_two_classes_when_one_is_renamed(tmp_path):
    with gw.Study.create(tmp_path / "n.db", pool=[[0.0], [1.0]], classes=[0, 1]) as study:
        study.tell(0, 0)
        study.tell(1, 1)
        study.describe(1, name="one")
        assert dict(study.state.labels) == {0: 0, 1: "one"}


def test_colours_texts_and_guidelines_are_events_that_say_something_new(study):
    study.describe("low", colour="#1b9e77", text="below 5")
    study.describe(text="In doubt, skip.")
    seq = study.state.seq
    study.describe("low", colour="#1b9e77")
    study.describe(text="In doubt, skip.")
    study.describe("low", name="low")
    assert study.state.seq == seq
    state = reopened(study)
    assert state.described[0] == ("#1b9e77", "below 5")
    assert state.guidelines == "In doubt, skip."
    study.describe("low", text="")
    assert study.state.described[0] == ("#1b9e77", "")
    for wrong in ("red", "#12345", "#12345g", "url(x)"):
        with pytest.raises(BadParameter, match="colour"):
            study.describe("low", colour=wrong)
