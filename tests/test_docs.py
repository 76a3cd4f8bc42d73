"""The documentation is true: every block runs, every part is mentioned."""

import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest
from typer.main import get_command

import goalward as gw
from goalward.cli import app
from tests.conftest import need

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").glob("*.md")),
]
NEEDS = {"ecosystem.md": ["torch", "skactiveml"]}
"""Optional packages that the blocks of a page use."""
ALL = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)


def blocks(page, language):
    pattern = rf"^( *)```{language}\n(.*?)^\1```"
    found = re.findall(pattern, page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return [dedent(block) for _, block in found]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_python_block_runs(page, tmp_path, monkeypatch):
    """Blocks of README stand alone; those of a page build on one another."""
    for module in NEEDS.get(page.name, ()):
        need(module)
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "page"}
    for block in blocks(page, "python"):
        if page.name == "README.md":
            namespace = {"__name__": "page"}
        exec(compile(block, page.name, "exec"), namespace)


def test_make_targets_in_the_pages_exist():
    makefile = (ROOT / "Makefile").read_text()
    commands = "\n".join(block for page in PAGES[:2] for block in blocks(page, "bash"))
    for target in re.findall(r"^make ([\w-]+)", commands, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)


def test_a_newcomer_needs_one_install_and_fewer_than_15_lines():
    """The first block of README ends in a ranking; test_every_python_block_runs runs it."""
    first = [line for line in blocks(PAGES[0], "python")[0].splitlines() if line.strip()]
    assert len(first) < 15
    assert ".suggest(" in first[-1]
    assert "pip install goalward" in "\n".join(blocks(PAGES[0], "bash"))


@pytest.mark.parametrize("room", ["goals", "solvers", "utility", "labels", "strategies"])
def test_every_part_appears_in_the_docs(room):
    internal = {"Belief", "Goal", "Kernel", "Model", "Operator", "Scored", "Scorer", "Term"}
    internal |= {"Curvature", "LinearCurvature", "Solution", "Solve", "Solver", "Utility"}
    internal |= {"Fidelity", "Strategy", "Suggestion", "Recipe", "Weighted"}
    for word in getattr(gw, room).__all__:
        if word[0].isupper() and word not in internal:
            assert re.search(rf"\b{word}\b", ALL), f"{room}.{word} is in no page"


@pytest.mark.parametrize("command", sorted(get_command(app).commands))
def test_every_command_appears_in_the_docs_and_helps_with_an_example(command):
    assert f"goalward {command}" in ALL
    run = [sys.executable, "-m", "goalward", command, "--help"]
    done = subprocess.run(run, capture_output=True, text=True, check=True)
    assert "Example" in done.stdout


@pytest.mark.parametrize("page", [*PAGES, ROOT / "ARCHITECTURE.md", ROOT / "CHANGELOG.md"])
def test_links_and_pictures_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), f"{page.name} points to {target}"
