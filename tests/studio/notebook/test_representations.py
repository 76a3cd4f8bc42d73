"""What a notebook shows of an object: its numbers, and nothing that a row's text could run."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest

import goalward as gw
from goalward.core.card import LINES, card
from tests.conftest import need

HOSTILE = '<img src=x onerror="window.hit=1"><script>window.hit=1</script>'
RNG = np.random.default_rng(0)
X, TWO = RNG.normal(size=(24, 3)), [HOSTILE, "good"] * 12


class Page(HTMLParser):
    """The tags and the words of what is shown."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.words, self.open = set(), [], []
        self.feed(html)
        assert self.open == [], "a tag is left open"

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        if tag not in ("img", "image"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data.strip())


def suggestion(tmp_path):
    ids = [f"{HOSTILE} {i}" for i in range(24)]
    return gw.strategies.Margin().suggest(gw.Logistic().fit(X, TWO), X, 12, rows=ids)


def study(tmp_path):
    need("sqlalchemy")
    texts = [f"{HOSTILE} number {i}" for i in range(24)]
    made = gw.Study.create(tmp_path / "s.db", pool=texts, classes=[HOSTILE, "good"], dev=0)
    made.tell_many([(row, TWO[row]) for row in range(12)])
    return made


SHOWN = {
    "suggestion": (suggestion, ["score", "the model says", "probability"]),
    "fitted": (lambda _: gw.Logistic().fit(X, TWO), ["24 labelled rows", "C = 1"]),
    "relabelled": (lambda _: gw.relabel(gw.Logistic().fit(X, TWO)), ["the model says", "doubt"]),
    "study": (study, ["12 of 24 rows have a label", "No model yet", "6"]),
    "doubts": (lambda folder: study(folder).doubts(), ["12 answers", "the model says"]),
    "predictions": (lambda folder: study(folder).predict(), ["24 predictions", "probability"]),
}


@pytest.mark.parametrize("name", SHOWN)
def test_numbers_are_shown_and_texts_run_nothing(name, tmp_path):
    make, expected = SHOWN[name]
    page = Page(make(tmp_path)._repr_html_())
    assert page.tags <= {"div", "strong", "table", "thead", "tbody", "tr", "th", "td", "span"}
    said = " | ".join(page.words)
    assert all(words in said for words in expected), said
    assert "<script>" in said  # as words


def test_curves_are_a_table_and_a_chart():
    need("polars")
    need("matplotlib")
    curves = gw.lab.simulate("wine", ["random"], budget=10, batch=5, seeds=2, n_jobs=1)
    shown = curves._repr_html_()
    last = float(curves.curve("random")[1][:, -1].mean())
    words = Page(shown).words
    assert f"{last:.3g}" in words
    assert "data:image/png;base64," in shown


@pytest.mark.parametrize(
    ("numbers", "most", "ems"),
    [
        ([2.0, 1.0, np.nan], None, ["6.00", "3.00", "0.00"]),
        ([-1.0, -2.0, -4.0], None, ["4.50", "3.00", "0.00"]),  # more is longer, below 0 too
        ([0.5, 0.25, 0.0], 1.0, ["3.00", "1.50", "0.00"]),
        ([0.0, 0.0, 0.0], None, ["0.00"] * 3),
    ],
)
def test_bars_are_as_long_as_their_numbers(numbers, most, ems):
    shown = card("t", {"row": [1, 2, 3], "u": numbers}, bar="u", most=most)
    assert re.findall(r"height:.7em;width:([\d.]+)em", shown) == ems


def test_a_long_table_is_cut_and_says_so():
    shown = card("t", {"row": range(1234), "u": np.zeros(1234)}, bar="u")
    assert shown.count("<tr>") == LINES + 1
    assert "... and 1,224 more" in shown
    assert "more" not in card("t", {"row": [], "u": []}, bar="u")


def test_a_suggestion_before_any_label_has_no_probabilities():
    shown = gw.suggest(None, None, None, X, 3)._repr_html_()
    assert "the model says" not in shown
    assert Page(shown).words.count("score") == 1
