"""A study that is made, or is not."""

import multiprocessing

import numpy as np
import pytest

import goalward as gw
from goalward.errors import BadInput, BadParameter, GoalwardError, StudyExists

X = np.eye(4)


def test_a_study_that_could_not_be_made_leaves_nothing_behind(tmp_path):
    table = tmp_path / "rows.csv"
    table.write_text("text,size\na,1\nb,2\n")
    place = tmp_path / "labels.db"
    wrong = gw.tables.Table(str(table), text="txt")
    with pytest.raises(gw.errors.GoalwardError, match="txt"):
        gw.Study.create(place, pool=wrong, classes=["x", "y"])
    assert not place.exists()
    right = gw.tables.Table(str(table), text="text")
    with gw.Study.create(place, pool=right, classes=["x", "y"]) as study:
        assert study.n_rows == 2


@pytest.mark.parametrize("options", [{"dev": "25%"}, {"dev": None}, {"classes": None}])
def test_wrong_types_are_said_to_be(tmp_path, options):
    with pytest.raises(BadParameter, match="must be"):
        gw.Study.create(tmp_path / "a.db", pool=X, **{"classes": ["a", "b"]} | options)


def test_texts_with_half_a_character_are_refused_by_their_row(tmp_path):
    with pytest.raises(BadInput, match="row 1 holds half of a character pair"):
        gw.Study.create(tmp_path / "a.db", pool=["fine", "a \ud800"], classes=["a", "b"])
    assert not (tmp_path / "a.db").exists()


CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["tests.studio.study.test_create"])
ROUNDS = 25


def make(places, by, gate, report):
    """Create at each place, at the same moment as others; `by` "wrong" cannot succeed."""
    for place in places:
        pool = "absent.csv" if by == "wrong" else X + ord(by)
        gate.wait(120)
        try:
            gw.Study.create(place, pool=pool, classes=["a", "b"]).close()
            report.send("made")
        except GoalwardError as error:
            report.send(type(error).__name__)


def raced(places, names):
    """Return what each of several processes came to, place by place."""
    gate = CONTEXT.Barrier(len(names))
    pipes = [CONTEXT.Pipe(duplex=False) for _ in names]
    workers = [
        CONTEXT.Process(target=make, args=(places, name, gate, report))
        for name, (_, report) in zip(names, pipes, strict=True)
    ]
    for worker in workers:
        worker.start()
    said = [tuple(heard.recv() for heard, _ in pipes) for _ in places]
    for worker in workers:
        worker.join()
    return said


def check_race(places):
    for place, said in zip(places, raced(places, ("1", "2", "wrong")), strict=True):
        assert sorted(said[:2]) == ["StudyExists", "made"]
        assert said[2] not in ("made", "StudyExists")
        with gw.Study.open(place) as study:
            assert len(study._ledger.store.read()) == 1
            winner = "12"[said.index("made")]
            assert study.pool.X[0, 1] == ord(winner)


@pytest.mark.heavy
@pytest.mark.attack("two that create at one place")
def test_of_two_that_create_at_one_place_one_wins(storage, tmp_path, tried):
    named = "?study={}" if storage.startswith("postgresql") else ".{}"
    check_race([storage + named.format(n) for n in range(ROUNDS)])
    assert len(list(tmp_path.iterdir())) in (0, ROUNDS)
    tried(ROUNDS)


def test_an_empty_file_is_a_free_place(tmp_path):
    (tmp_path / "a.db").touch()
    gw.Study.create(tmp_path / "a.db", pool=X, classes=["a", "b"]).close()
    with pytest.raises(StudyExists):
        gw.Study.create(tmp_path / "a.db", pool=X, classes=["a", "b"])
