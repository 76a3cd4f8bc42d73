"""What the code may take: `python scripts/budget.py` holds it to [tool.goalward.budget] of pyproject.toml.

Budgets only go down: who needs room takes something away. Walks are counted on the second call.
"""

import ast
import sys
import tempfile
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "goalward"


def entered(call: Callable[[], Any]) -> tuple[int, int]:
    """Return how many functions of ours a call enters, and in how many files."""
    met = set()

    def seen(frame: Any, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and "/goalward/" in code.co_filename and code.co_name[0] != "<":
            met.add((code.co_filename, code.co_qualname))

    call()
    sys.setprofile(seen)
    try:
        call()
    finally:
        sys.setprofile(None)
    return len(met), len({file for file, _ in met})


def walks() -> dict[str, int]:
    """Return the functions and files of the calls that most users make."""
    import numpy as np

    import goalward as gw
    from goalward.testing import problem

    task = problem()
    strategy = gw.GoalOriented(task.goal)
    suggested = entered(lambda: strategy.suggest(task.fitted, task.X_pool, batch=5))
    X = np.asarray(task.X_pool)
    y = np.arange(20) % 2
    one_call = entered(lambda: gw.suggest(None, X[:20], y, X[20:], batch=5))
    retrained = entered(lambda: gw.utility.Retrain()(task.fitted, task.goal, task.X_pool))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "labels.db"
        with gw.Study.create(path, pool=X, classes=["a", "b"], dev=0.0) as study:
            rows = iter(range(len(X)))
            for row in (next(rows) for _ in range(20)):
                study.tell(row, "ab"[row % 2])
            told = entered(lambda: study.tell(next(rows), "a"))
            refreshed = entered(lambda: study.refresh(force=True))
    found = {"suggest": suggested, "one_call": one_call, "retrain": retrained}
    found |= {"tell": told, "refresh": refreshed}
    return {
        f"{name}_{what}": count
        for name, both in found.items()
        for what, count in zip(("functions", "files"), both, strict=True)
    }


def sizes() -> dict[str, int]:
    """Return lines, files, folders, commands and the longest function."""
    from goalward.cli import app

    files = sorted(SOURCE.rglob("*.py"))
    trees = [ast.parse(file.read_text("utf-8")) for file in files]
    functions = [n for t in trees for n in ast.walk(t) if isinstance(n, ast.FunctionDef)]
    bodies = [(n.body[1:] if ast.get_docstring(n) else n.body) for n in functions]
    own = {n.name for t in trees for n in ast.walk(t) if isinstance(n, ast.ClassDef)}
    return {
        "lines": sum(len(file.read_text("utf-8").splitlines()) for file in files),
        "files": len(files),
        "rooms": sum(any(path.rglob("*.py")) for path in SOURCE.iterdir() if path.is_dir()),
        "commands": len(app.registered_commands) + len(app.registered_groups),
        "longest_function": max(b[-1].end_lineno - b[0].lineno + 1 for b in bodies if b),
        "own_isinstance": sum(
            isinstance(n, ast.Call)
            and getattr(n.func, "id", "") == "isinstance"
            and bool({getattr(m, "id", getattr(m, "attr", "")) for m in ast.walk(n.args[1])} & own)
            for t in trees
            for n in ast.walk(t)
        ),
    }


def main() -> int:
    """Print every figure beside its budget; fail where one is exceeded."""
    budget = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["goalward"][
        "budget"
    ]
    found = sizes() | walks()
    for name, most in budget.items():
        over = found[name] > most
        print(f"{name:20} {found[name]:>7,} of {most:,}{'   OVER' if over else ''}")
    return int(any(found[name] > most for name, most in budget.items()))


if __name__ == "__main__":
    sys.exit(main())
