"""What age costs is measured on a study that is what its journal says."""

import goalward as gw
from goalward.lab.speed.age import PAGES, age, aged, kept_per_ranking


def test_an_aged_study_is_whole(tmp_path):
    place = aged(tmp_path, 400)
    with gw.Study.open(place) as study:
        assert study.status()["answers"] == 400
        assert study.check() == 401
        assert len(study.state.annotators) == 50


def test_rankings_leave_little_behind():
    # 38 KB before; what stays are numbers.
    assert kept_per_ranking(500) < 8.0


def test_every_page_and_answer_of_an_aged_study_is_timed():
    opened, page, answer = age((300,), tells=50, every=0.1)
    assert len(opened.ours) == 3
    assert all(name in page.note for name in PAGES)
    assert "50 answers" in answer.note
    assert "stay per ranking" in answer.note
