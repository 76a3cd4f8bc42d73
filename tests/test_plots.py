"""Figures show themselves in a notebook; everywhere else they are matplotlib's."""

from io import BytesIO
from types import SimpleNamespace

from tests.conftest import need

need("matplotlib")

from matplotlib.figure import Figure  # noqa: E402

from goalward.lab.plots import figure, progress  # noqa: E402


def test_a_script_gets_the_figure_that_it_always_got():
    ours, plain = figure(4, 3), Figure(figsize=(4, 3), layout="constrained", dpi=150)
    files = []
    for fig in (ours, plain):
        fig.subplots().plot([1, 2, 3], [0.5, 0.6, 0.75])
        fig.savefig(into := BytesIO(), format="png")
        files.append(into.getvalue())
    assert files[0] == files[1]
    assert ours._repr_png_().startswith(b"\x89PNG")


def test_the_progress_of_a_study_has_a_point_for_every_model_that_was_measured():
    rounds = [
        {"bought": 5, "accuracy": None, "low": None, "high": None},
        {"bought": 10, "accuracy": 0.7, "low": 0.5, "high": 0.8},
        {"bought": 20, "accuracy": 0.9, "low": 0.8, "high": 0.95},
    ]
    (line,) = progress(SimpleNamespace(curve=lambda: rounds)).axes[0].lines
    assert line.get_xydata().tolist() == [[10, 0.7], [20, 0.9]]
    (line,) = progress(SimpleNamespace(curve=lambda: rounds[:1])).axes[0].lines
    assert not len(line.get_xydata())
