"""How these studies were made, by goalward 0.1.0: python make.py FOLDER, in an empty folder.

Kept to show what they hold; later versions read them and do not make them again.
"""

import csv
import json
import sys
from importlib.metadata import version
from itertools import count
from pathlib import Path

import numpy as np

import goalward as gw
import goalward.samples

CLASSES = {"messages": ["waste", "roads", "other"], "numbers": ["low", "high"]}
WORDS = {"waste": ("bin", "rubbish", "collect"), "roads": ("road", "kerb", "pothole", "street")}


def truth(row):
    """Return the label of a row as `study.show` gives it."""
    if "text" not in row:
        return CLASSES["numbers"][sum(float(value) for value in row["columns"].values()) > 0]
    said = row["text"].lower()
    return next((k for k, words in WORDS.items() if any(w in said for w in words)), "other")


def read(path):
    with open(path, newline="") as file:
        return list(csv.reader(file))


def tables(folder):
    messages = read(f"{goalward.samples.__path__[0]}/messages.csv")[:121]
    with open(folder / "messages.csv", "w", newline="") as file:
        csv.writer(file).writerows([[name, text] for name, text, *_ in messages])
    rng = np.random.default_rng(5)
    with open(folder / "numbers.csv", "w", newline="") as file:
        rows = [[f"{value:.4f}" for value in line] for line in rng.normal(size=(90, 3))]
        csv.writer(file).writerows([["width", "height", "weight"], *rows])


def studies(folder):
    texts = gw.tables.Table(str(folder / "messages.csv"), text="text")
    numbers = gw.tables.Table(str(folder / "numbers.csv"))
    said = [line[1] for line in read(folder / "messages.csv")[1:61]]
    rng = np.random.default_rng(6)
    return {
        "text-auto": (texts, "messages", {"strategy": "auto"}),
        "numbers-dev-spread": (numbers, "numbers", {"strategy": "dev/spread", "dev": 0.3}),
        "numbers-dev-split": (numbers, "numbers", {"strategy": "dev-split/spread", "dev": 0.4}),
        "memory-cautious": (
            rng.normal(size=(60, 4)),
            "numbers",
            {"strategy": "dev/spread/cautious", "dev": 0.3},
        ),
        "texts-margin": (said, "messages", {"strategy": "margin", "dev": 0.2, "answers": 2}),
    }


def go_on(study, by, answers):
    """Ask and answer; return the rows."""
    asked = []
    for _ in range(answers):
        row = study.ask(1, by=by)[0]
        study.tell(row, truth(study.show(row)), by=by)
        asked.append(row)
    return asked


def seen(study):
    """Return what every later version must find again, answering a little more."""
    before = {str(row): label for row, label in study.state.labels.items()}
    ranked = study.refresh(force=True)
    X = np.asarray(study.pool.X)
    return {
        "labels": before,
        "skipped": sorted(study.state.skipped),
        "notes": {str(k): [n.text for n in v] for k, v in study.state.notes.items()},
        "recipe": ranked.recipe,
        "queue": list(ranked.queue[:12]),
        "utilities": list(ranked.utilities[:12]),
        "features": X[:4].astype(float).tolist(),
        "asked": go_on(study, "bo", 12),
    }


def main(folder):
    tables(folder)
    expected = {"goalward": version("goalward")}
    for name, (pool, kind, options) in studies(folder).items():
        clock = (1.76e9 + second for second in count())
        place = folder / f"{name}.sqlite"
        with gw.Study.create(
            place,
            pool=pool,
            classes=CLASSES[kind],
            seed=3,
            clock=lambda c=clock: next(c),
            **options,
        ) as study:
            go_on(study, "ann", 36)
            row = study.ask(1, by="ann")[0]
            study.skip(row, by="ann")
            study.note(row, "hard to say", by="ann")
            go_on(study, "ann", 3)
            study.undo(by="ann")
        whole = place.read_bytes()
        with gw.Study.open(place, clock=lambda c=clock: next(c)) as study:
            expected[name] = seen(study)
            study.export(folder / "export.csv")
            expected[name]["export"] = (folder / "export.csv").read_text()
        (folder / "export.csv").unlink()
        # The study as it was before `seen` answered more.
        place.write_bytes(whole)
    (folder / "expected.json").write_text(json.dumps(expected, indent=1))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
