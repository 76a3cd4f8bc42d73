"""`pip install goalward` without extras, and what an import costs."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import need

ROOT = Path(__file__).parents[1]
HEAVY = {"matplotlib", "numpy", "pandas", "polars", "scipy", "sklearn", "sqlalchemy"}
BLOCK = """
import sys
from importlib.machinery import PathFinder
from goalward.core.arguments import EXTRAS

class Bare(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name.partition(".")[0] not in EXTRAS:
            return PathFinder.find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Bare
"""


def bare(code, *arguments):
    """Run `code` in a process that finds no package of an extra."""
    run = [sys.executable, "-W", "ignore", "-c", BLOCK + code, *arguments]
    return subprocess.run(run, capture_output=True, text=True, check=False)


def command(*arguments):
    return bare("from goalward.cli import main; main()", *arguments)


def test_the_import_loads_no_other_library():
    code = f"import sys, goalward; print({HEAVY} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_a_first_use_loads_neither_tables_nor_figures_nor_a_database():
    apart = HEAVY - {"numpy", "pandas", "scipy", "sklearn"}
    code = f"import sys, goalward as gw; gw.Logistic, gw.GoalOriented; print({apart} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_the_bare_library_suggests_and_ranks():
    done = bare(
        "import numpy as np, goalward as gw\n"
        "from goalward import *\n"
        "task = gw.testing.problem()\n"
        "goal = gw.goals.DecisionRisk(task.X_pool)\n"
        "print(gw.GoalOriented(goal).suggest(task.fitted, task.X_pool, batch=2).rows)\n"
        "print(gw.scale.rank(task.X_pool, task.fitted, goal, batch=2).rows)\n"
        "print(gw.recipe('decision-risk'), gw.stopping.criteria, gw.adapters.from_sklearn)\n"
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "use",
    [
        "import goalward as gw; gw.Study",
        "import goalward as gw; gw.lab",
        "import goalward as gw; gw.tables",
        "from goalward.studio.study import Study",
        "import goalward.lab",
        "import goalward.lab.plots",
        "import goalward.studio.store.events",
    ],
)
def test_one_error_says_what_to_install(use):
    done = bare(use)
    *_, last = done.stderr.strip().splitlines()
    assert re.match(r"goalward\.errors\.MissingExtra: .* which is not installed\.", last), last
    assert last.endswith('Run `pip install "goalward[app]"`.')


@pytest.mark.parametrize(
    ("use", "extra"),
    [
        ("gw.adapters.from_torch(None, [[0.0]], [0], weight_decay=1)", "torch"),
        ("gw.adapters.skactiveml", "skactiveml"),
        ("gw.scale.open_pool(sys.argv[1])", "app"),
    ],
)
def test_other_libraries_are_named_where_they_are_asked_for(use, extra, tmp_path):
    table = tmp_path / "pool.parquet"
    table.write_bytes(b"PAR1")
    done = bare(f"import goalward as gw; {use}", str(table))
    assert done.stderr.strip().endswith(f'Run `pip install "goalward[{extra}]"`.'), done.stderr


def test_what_is_missing_for_another_reason_is_said_as_it_is():
    done = bare(
        "from goalward.core.arguments import needing\nwith needing('It'): import no_such_thing"
    )
    assert "ModuleNotFoundError: No module named 'no_such_thing'" in done.stderr


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["doctor"], ["rank", "--help"]])
def test_commands_that_need_no_extra_run(arguments):
    done = command(*arguments)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (["label", "--sample"], "web"),
        (["label", "--sample", "--terminal"], "app"),
        (["status", "labels.db"], "app"),
        (["rank", "pool.npy", "--labels", "labels.csv"], "app"),
        (["simulate", "wine"], "app"),
    ],
)
def test_a_command_says_what_to_install(arguments, extra):
    done = command(*arguments)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert f"goalward[{extra}]" in done.stderr.replace("\n", " ")


@pytest.mark.heavy
def test_what_is_loaded_later_is_typed(tmp_path):
    """As mypy and an editor see it: no Any, and a misspelt name is an error."""
    need("mypy")
    names = ["Study", "Study.open", "lab.simulate", "scale.rank"]
    names += ["tables.read_table", "Logistic", "GoalOriented", "goals.DevLoss", "__version__"]
    lines = ["import goalward as gw", *(f"reveal_type(gw.{name})" for name in names), "gw.nothing"]
    page = tmp_path / "page.py"
    page.write_text("\n".join(lines))
    run = [sys.executable, "-m", "mypy", "--strict", str(page)]
    said = subprocess.run(run, capture_output=True, text=True, check=False, cwd=ROOT).stdout
    revealed = re.findall(r"Revealed type is \"(.*)\"", said)
    assert len(revealed) == len(names), said
    assert "Any" not in revealed
    assert 'Module has no attribute "nothing"' in said
