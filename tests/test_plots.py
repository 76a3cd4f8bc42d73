"""Figures in a notebook say their values; everywhere else they are matplotlib's."""

import re
from io import BytesIO
from types import SimpleNamespace

import numpy as np

from tests.conftest import need

need("matplotlib")

from matplotlib.figure import Figure  # noqa: E402

from goalward.lab.plots import MOST, figure, progress  # noqa: E402


def drawn(axes):
    axes.plot([1, 2, 3], [0.5, np.nan, 0.75], label="<b>margin</b>")
    axes.axhline(0.6)
    axes.axvline(2)
    axes.scatter([1.5], [0.7], label="ours")
    axes.set_xlim(0.5, 2.9)  # the third point is outside


def test_points_say_their_values_and_lines_of_help_do_not():
    fig = figure(4, 3)
    drawn(fig.subplots())
    shown = fig._repr_html_()
    assert shown.count('class="gw-point"') == 2
    assert re.search("&lt;b&gt;margin&lt;/b&gt;: 1, 0.50*<", shown)
    assert "<b>" not in shown
    assert re.search("ours: 1.50*, 0.70*<", shown)


def test_bars_say_their_names():
    fig = figure(4, 3)
    fig.subplots().bar(["wine", "digits"], [3.0, 1.5])
    shown = fig._repr_html_()
    assert ">wine, 3<" in shown
    assert re.search(">digits, 1.50*<", shown)


def test_a_script_gets_the_figure_that_it_always_got():
    ours, plain = figure(4, 3), Figure(figsize=(4, 3), layout="constrained", dpi=150)
    files = []
    for fig in (ours, plain):
        drawn(fig.subplots())
        fig.savefig(into := BytesIO(), format="png")
        files.append(into.getvalue())
    assert files[0] == files[1]


def test_many_points_are_thinned():
    fig = figure(4, 3)
    fig.subplots().scatter(np.arange(2 * MOST), np.arange(2 * MOST))
    assert MOST / 2 < fig._repr_html_().count('class="gw-point"') <= MOST


def test_the_progress_of_a_study_has_a_point_for_every_model_that_was_measured():
    rounds = [
        {"bought": 5, "accuracy": None, "low": None, "high": None},
        {"bought": 10, "accuracy": 0.7, "low": 0.5, "high": 0.8},
        {"bought": 20, "accuracy": 0.9, "low": 0.8, "high": 0.95},
    ]
    shown = progress(SimpleNamespace(curve=lambda: rounds))._repr_html_()
    assert shown.count('class="gw-point"') == 2
    assert re.search("20, 0.90*<", shown)
    assert (
        'class="gw-point"' not in progress(SimpleNamespace(curve=lambda: rounds[:1]))._repr_html_()
    )
