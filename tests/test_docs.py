"""The documentation is true: every block runs, every part is mentioned, every figure is drawn."""

import os
import re
import runpy
import subprocess
import sys
import warnings
from pathlib import Path
from textwrap import dedent

import pytest
from matplotlib.image import imread
from typer.main import get_command

import goalward as gw
from goalward.cli import app
from tests.conftest import need, some_heavy

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted(DOCS.rglob("*.md")),
]
EVERY = [*PAGES, ROOT / "ARCHITECTURE.md", ROOT / "CHANGELOG.md"]
NEEDS = {
    "docs/coming-from.md": ["modAL", "skactiveml", "small_text"],
    "docs/ecosystem.md": ["torch", "skactiveml"],
    "docs/examples/network_head.py": ["torch"],
    "docs/how-to/cluster.md": ["distributed"],
    "docs/how-to/gpu.md": ["torch"],
    "docs/how-to/notebook.md": ["anywidget"],
}
"""Large packages that the blocks of a page use."""
NOISY = {"docs/coming-from.md", "docs/how-to/cluster.md"}
"""Pages whose other libraries, modAL and Dask, warn on their own account."""
TUTORIALS = [*sorted((DOCS / "tutorials").glob("*.md")), DOCS / "how-to/llm-review.md"]
"""Pages whose commands run, too."""
EXAMPLES = sorted((DOCS / "examples").glob("*.py"))
LARGE = [*(ROOT / name for name in NEEDS), *EXAMPLES[1:], DOCS / "how-to/llm-review.md"]
TABLES = [*DOCS.glob("goals*.csv"), DOCS / "guide-operators.csv"]
"""Tables of pages, which the site shows in them."""
ALL = "\n".join(page.read_text(encoding="utf-8") for page in [*PAGES, *TABLES])


def name_of(page):
    return page.relative_to(ROOT).as_posix()


def blocks(page, language):
    pattern = rf"^( *)```{language}\n(.*?)^\1```"
    found = re.findall(pattern, page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return [dedent(block) for _, block in found]


def prepared(page, folder, monkeypatch):
    """Skip a page whose packages are missing; otherwise start it in an empty folder."""
    for module in NEEDS.get(name_of(page), ()):
        need(module)
    monkeypatch.chdir(folder)


@pytest.mark.parametrize(
    "page", some_heavy([p for p in PAGES if p not in TUTORIALS], LARGE), ids=name_of
)
def test_every_python_block_runs(page, tmp_path, monkeypatch):
    """Blocks of README stand alone; those of a page build on one another."""
    prepared(page, tmp_path, monkeypatch)
    namespace = {"__name__": "page"}
    with warnings.catch_warnings():
        if name_of(page) in NOISY:
            warnings.simplefilter("ignore")
        for block in blocks(page, "python"):
            if page.name == "README.md":
                namespace = {"__name__": "page"}
            exec(compile(block, page.name, "exec"), namespace)


@pytest.mark.parametrize("page", some_heavy(TUTORIALS, LARGE), ids=name_of)
def test_every_command_of_a_tutorial_runs_between_its_blocks(page, tmp_path, monkeypatch):
    """As a reader would: from top to bottom, in one folder. Questions are answered 1, 2, 1, 2."""
    prepared(page, tmp_path, monkeypatch)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    namespace = {"__name__": "page"}
    pattern = r"^```(python|bash)\n(.*?)^```"
    commands = 0
    for language, block in re.findall(pattern, page.read_text("utf-8"), re.MULTILINE | re.DOTALL):
        if language == "python":
            exec(compile(block, page.name, "exec"), namespace)
            continue
        run = ["bash", "-euo", "pipefail", "-c", block]
        done = subprocess.run(
            run, input="1\n2\n" * 8 + "q\n", capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{block}{done.stdout}{done.stderr}"
        commands += 1
    assert commands > 0 or page.stem == "software"


@pytest.mark.parametrize("example", some_heavy(EXAMPLES, LARGE), ids=name_of)
def test_every_example_draws_its_figure_and_has_a_page_with_it(example, tmp_path, monkeypatch):
    prepared(example, tmp_path, monkeypatch)
    run = [sys.executable, "-W", "error", str(example)]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    drawn = imread(tmp_path / f"{example.stem}.png")
    kept = imread(DOCS / "figures/examples" / f"{example.stem}.png")
    assert drawn.std() > 0.01
    assert drawn.shape == kept.shape, "draw it again: make figures"
    page = example.with_suffix(".md").read_text("utf-8")
    assert f"{{literalinclude}} {example.name}" in page
    assert f"](../figures/examples/{example.stem}.png)" in page
    assert f":link: {example.stem}\n" in (DOCS / "examples/index.md").read_text("utf-8")


def test_the_figures_of_the_method_are_those_of_its_script(tmp_path):
    figures = runpy.run_path(str(ROOT / "scripts/method_figures.py"), run_name="drawn")["FIGURES"]
    page = (DOCS / "method.md").read_text("utf-8")
    for name, draw in figures.items():
        draw().savefig(tmp_path / f"{name}.png")
        assert (
            imread(tmp_path / f"{name}.png").shape
            == imread(DOCS / "figures/method" / f"{name}.png").shape
        )
        assert f"](figures/method/{name}.png)" in page


@pytest.mark.parametrize("room", [*gw.__all__, "Study", "lab", "tables"])
def test_every_public_name_is_in_the_reference(room):
    """`automodule` documents what `__all__` lists; `make docs` fails where it cannot."""
    reference = "\n".join(page.read_text("utf-8") for page in (DOCS / "api").glob("*.md"))
    inside = {
        "GoalOriented": "strategies",
        "recipe": "strategies",
        "LogisticClassifier": "adapters",
        "Opinion": "labels",
        "Study": "studio.study",
        "plots": "lab.plots",
        "selection": "strategies.selectors",
        "stopping": "studio.stopping",
        "tables": "studio.tables",
        "relabel": "utility",
        "suggest": "adapters",
    }
    target = inside.get(room, room)
    assert re.search(rf":: goalward\.{target}$", reference, re.MULTILINE)


def test_the_map_names_every_file_and_no_other():
    """ARCHITECTURE.md says where things live: a file that moved takes its line along."""
    said = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    source = ROOT / "src/goalward"
    there = [path for kind in ("py", "js") for path in source.rglob(f"*.{kind}")]
    paths = {path.relative_to(ROOT).as_posix() for path in [*there, *ROOT.glob("benchmarks/*.py")]}
    for path in there:
        if path.suffix == ".py" and not path.stem.startswith("__"):
            assert re.search(rf"\b{path.stem}\b", said), f"{path} is not on the map"
    for word in re.findall(r"`([\w/]+\.(?:py|js))`", said):
        assert any(f"/{path}".endswith(f"/{word}") for path in paths), f"{word} is on the map only"


def test_make_targets_in_the_pages_exist():
    makefile = (ROOT / "Makefile").read_text()
    commands = "\n".join(block for page in PAGES[:2] for block in blocks(page, "bash"))
    for target in re.findall(r"^make ([\w-]+)", commands, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)


def test_a_newcomer_needs_one_install_and_fewer_than_15_lines():
    """The first block of README ends in predictions; test_every_python_block_runs runs it."""
    first = [line for line in blocks(PAGES[0], "python")[0].splitlines() if line.strip()]
    assert len(first) < 15
    assert ".model.predict(" in first[-1]
    assert 'pip install "goalward' in "\n".join(blocks(PAGES[0], "bash"))


def test_readme_is_read_in_a_minute_or_three():
    assert len(PAGES[0].read_text("utf-8").split()) <= 600


def code_lines(block):
    return sum(
        bool(line.strip()) and not line.strip().startswith("#") for line in block.split("\n")
    )


def test_a_loop_takes_five_lines_fewer_than_anywhere_else():
    section = PAGES[0].read_text("utf-8").split("## You build software")[1]
    loop = re.search(r"```python\n(.*?)```", section, re.DOTALL)[1]
    assert code_lines(loop) - loop.count("import ") == 5
    assert "gw.suggest(" in loop
    page = DOCS / "coming-from.md"
    starts = {"small_text": "small-text", "modAL": "modAL", "skactiveml": "scikit-activeml"}
    lines = {}
    for block in blocks(page, "python"):
        for word, name in {**starts, "import goalward": "goalward"}.items():
            if f"from {word}" in block or block.startswith(word):
                lines.setdefault(name, code_lines(block))
    said = re.findall(r"^\| ([\w-]+) \| (\d+) \|$", page.read_text("utf-8"), re.MULTILINE)
    assert {name: int(count) for name, count in said} == lines
    assert min(lines, key=lines.get) == "goalward"


@pytest.mark.parametrize("room", ["goals", "solvers", "utility", "labels", "strategies"])
def test_every_part_appears_in_the_docs(room):
    internal = {"Belief", "Goal", "Kernel", "Model", "Operator", "Resolver", "Scored", "Scorer"}
    internal |= {"Curvature", "Inverse", "LinearCurvature", "Solution", "Solve", "Solver", "Term"}
    internal |= {"Fidelity", "Recipe", "Strategy", "Suggestion", "Utility", "Weighted"}
    for word in getattr(gw, room).__all__:
        if word[0].isupper() and word not in internal:
            assert re.search(rf"\b{word}\b", ALL), f"{room}.{word} is in no page"


@pytest.mark.parametrize("command", sorted(get_command(app).commands))
def test_every_command_appears_in_the_docs_and_helps_with_an_example(command):
    assert f"goalward {command}" in ALL
    run = [sys.executable, "-m", "goalward", command, "--help"]
    done = subprocess.run(run, capture_output=True, text=True, check=True)
    assert "Example" in done.stdout


@pytest.mark.parametrize("page", EVERY, ids=name_of)
def test_pages_stay_within_100_columns(page):
    """Tables are as wide as they are."""
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        assert len(line) <= 100 or line.lstrip().startswith("|"), f"{page.name}:{number}: {line}"


@pytest.mark.parametrize("page", EVERY, ids=name_of)
def test_pages_hold_no_unfinished_merge(page):
    """A formatter of prose folds the markers into a paragraph, where no other check sees them."""
    text = page.read_text(encoding="utf-8")
    assert not re.search(r"<{7}|>{7}", text), page.name


@pytest.mark.parametrize("page", EVERY, ids=name_of)
def test_links_and_pictures_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), f"{page.name} points to {target}"
