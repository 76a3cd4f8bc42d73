"""One self-contained page with the figures, the tables and the claims."""

import platform
from base64 import b64encode
from collections import Counter
from collections.abc import Iterable
from html import escape
from importlib.metadata import version
from pathlib import Path
from string import Template
from typing import Any

import polars as pl

from goalward.lab.paper.findings import Claim, Findings
from goalward.lab.paper.protocol import Size

CAPTIONS = {
    "one-label": "What one more label would do. A model knows 50 labels; every unlabelled sentence is "
    "two points, one for each label that it might get. Across: how much the goal, here the "
    "log-likelihood of the dev rows, would change, predicted for all of them at once without retraining. "
    "Up: by how much it does change when the model is retrained. Rows are chosen by these numbers.",
    "pipelines": "Rows and model together, in small: wine, breast-cancer and the sample of letter, 2 "
    "seeds, every label charged; of a small pool at most half is bought.",
    "synth2": "synth2, draw 0. Left: six clusters, of which the two central ones hold all initial "
    "labels. Right: the initial labels give an almost horizontal boundary.",
    "approx-serial": "Utility of one more label: retrained (vertical) against first order "
    "(horizontal). Points keep their colour, the rank of their retrained oracle utility, in all "
    "panels; the same five rows are numbered.",
    "approx-serial-minilm": "The same with the vectors of MiniLM.",
    "approx-batch": "The same for sliding windows of 10 rows. Average, minimum and maximum run "
    "over all labelings of a window.",
    "approx-serial-softmax": "The same if the paper's C is read as a softmax's, twice ours.",
    "approx-serial-stated": "The same at the paper's C = 0.1, which belongs to other vectors.",
    "approx-batch-minilm": "The same with the vectors of MiniLM.",
    "expred": "Retrained utilities of windows of b rows: expected under the model's own prediction, "
    "and under the other operators. To first order the purple distribution is a single point.",
    "synth2-snapshots": "Which rows each strategy asks for on synth2 (darker: later), and the "
    "boundary it has learned by then.",
    "synth2-groups": "Queries spent on each group of clusters. Uncertainty exhausts the central "
    "clusters first.",
    "synth2-curves": "synth2: mean test accuracy over draws, with 95 % bands.",
    "goals": "Above: test accuracy. Below: the goal itself. One column for each goal, four ways to "
    "resolve the label; means over seeds with 95 % bands.",
    "utilities": "How the utilities of the rows still in the pool are spread as labels come in "
    "(seed 0, symmetric log scale).",
}
READINGS = [  # of what the paper leaves open
    "C for two classes: the paper's logistic regression is read as scikit-learn's, one weight vector "
    "and a sigmoid with a free intercept. Ours has a column for each class, K = 2 too, which is the "
    "same model at half the C. Read as a softmax of two penalised columns the paper's C would be "
    "ours as it stands; the figure approx-serial-softmax has that reading.",
    "The dev share: the paper's 53 dev rows of synth2 are a tenth of its pool. A random tenth of the "
    "pool is the dev set everywhere; dev rows stay in the pool, and their labels are charged only "
    "where it is said.",
    "Uncertainty: the rows whose likeliest label is least likely. For two classes entropy and margin "
    "give the same order; for letter they do not.",
    "rt-polarity's C: the paper's 0.1 is for BERT's vectors. MiniLM's keep it as they are stored; "
    "SmolLM2's, z-scored, have 0.01, chosen by us so that retraining stays near-linear, and so no "
    "test of the paper's choice; the figure approx-serial-stated has them at 0.1, beside the verdict.",
]
COMMANDS = {
    "one-label": "goalward reproduce approx-serial",
    "pipelines": "goalward benchmark --part pipelines -d wine -d breast-cancer -d letter:sample --seeds 2",
}
VERDICTS = ("reproduced", "partly", "not reproduced", "untestable")
OTHER_C = "approx-serial-stated"
SMALL = "<div class='rule'>on small samples</div>"
SAMPLES = (
    "Small samples that come along: 3,000 rows of letter, 2,000 sentences of rt-polarity, and synth2 as "
    "it is made. Rules are those of the full run, which is longer: goalward reproduce."
)
STAND_IN = (
    "The paper embeds rt-polarity with BERT-base [CLS] (768). The vectors named in the table stand "
    "in for it here."
)


def write_report(
    out: Path,
    findings: Findings,
    names: list[str],
    tables: dict[str, pl.DataFrame],
    claims: list[Claim],
    seconds: float,
) -> Path:
    """Write report.html, with the figures that are in `out`, and return its path."""
    notes = [_meta(findings.size, seconds), *(f"Note: {note}" for note in findings.notes)]
    if findings.size.samples:
        notes.append(SAMPLES)
    described = [STAND_IN] if "rt-polarity" in findings.datasets else []
    shown = {name: _figure(out, name, quick=findings.size.samples) for name in names}
    first = [shown.pop(name, "") for name in COMMANDS]
    for name in shown.keys() & tables.keys():
        shown[name] += _folded(name, tables[name])
    others = [name for name in tables if name not in names and name != "datasets"]
    readings = [text for text in READINGS if OTHER_C in names or OTHER_C not in text]
    page = Template(Path(__file__).with_name("report.html").read_text(encoding="utf-8"))
    path = out / "report.html"
    path.write_text(
        page.substitute(
            verdict=escape(verdict(claims)),
            one_label=first[0],
            pipelines=first[1],
            notes=_paragraphs(notes),
            claims=_claims(claims, [*names, *others]),
            datasets=_table(tables["datasets"]) + _paragraphs(described),
            readings=_paragraphs(readings),
            contents=", ".join(map(_link, names)) or "none",
            figures="\n".join(shown.values()),
            tables="\n".join(_folded(name, tables[name], name) for name in others),
        ),
        encoding="utf-8",
    )
    return path


def _figure(out: Path, name: str, *, quick: bool) -> str:
    """Return a figure with its caption; those that the report opens with have their command too."""
    image = b64encode((out / "figures" / f"{name}.png").read_bytes()).decode()
    dataset, _, kind = name.rpartition("-")
    caption = escape(CAPTIONS.get(name) or f"{dataset}. {CAPTIONS[kind]}")
    drawn = f'<img alt="{caption}" src="data:image/png;base64,{image}">'
    if name in COMMANDS:
        more = " --quick" * (quick and "reproduce" in COMMANDS[name])
        caption += f"<br>{_code(COMMANDS[name] + more)}"
    else:
        # Several panels: on a phone they are scrolled, by keyboard too.
        drawn = f"<div class='scroll' tabindex='0' role='group' aria-label='Figure'>{drawn}</div>"
        caption = f"<strong>{name}.</strong> {caption}"
    return f'<figure id="{name}">{drawn}<figcaption>{caption}</figcaption></figure>'


def verdict(claims: list[Claim]) -> str:
    """Return how many claims were reproduced, in the sentence that the report opens with."""
    counts = Counter(claim.verdict for claim in claims)
    untested = counts.pop("not tested", 0)
    on = " on small samples" * any(claim.sample for claim in claims)
    summary = f"{counts['reproduced']} of {counts.total()} claims reproduced{on}"
    rest = [f"{counts[name]} {name}" for name in VERDICTS[1:] if counts[name]]
    if untested:
        rest.append(f"{untested} not tested by a run of this size")
    return f"{summary}: {', '.join(rest)}." if rest else f"{summary}."


def untested(claims: list[Claim]) -> tuple[list[Claim], str]:
    """Return the claims that a run was too small for, and the command that tests them."""
    left = [claim for claim in claims if claim.verdict == "not tested"]
    runs = dict.fromkeys(run for claim in left for run in claim.figure.split())
    return left, f"goalward reproduce {' '.join(runs)}"


def _link(name: str) -> str:
    return f'<a href="#{name}">{name}</a>'


def _code(command: str) -> str:
    # Words stay whole where a line ends.
    return f"<code>{' '.join(f'<span>{escape(word)}</span>' for word in command.split())}</code>"


def _paragraphs(texts: list[str]) -> str:
    return "\n".join(f'<p class="meta">{escape(text)}</p>' for text in texts)


def _meta(size: Size, seconds: float) -> str:
    names = ("goalward", "numpy", "scipy", "scikit-learn")
    return (
        f"{size.seeds} seed{'s' * (size.seeds > 1)}, 0 to {size.seeds - 1}; up to {size.queries} queries in batches of 10; "
        f"{size.pool} candidates for the approximation. "
        f"{', '.join(f'{name} {version(name)}' for name in names)}, Python "
        f"{platform.python_version()}. This run took {seconds / 60:.1f} minutes, sessions found on disk "
        "not counted."
    )


def _claims(claims: list[Claim], places: list[str]) -> str:
    """Return the claims as a table, each with links to the figures and tables it rests on."""
    rows = []
    for c in claims:
        if c.verdict == "not tested":
            continue
        seen = [
            _link(place)
            for place in places
            if any(f"{place}-".startswith(f"{run}-") for run in c.figure.split())
        ]
        rows.append(
            f"<td>{escape(c.says)}<div class='rule'>Rule: {escape(c.rule)}.</div></td>"
            f"<td>{escape(c.measured)}<div class='rule'>{', '.join(seen)}</div></td>"
            f"<td class='verdict {c.verdict.replace(' ', '-')}'>{c.verdict}"
            f"{SMALL * c.sample}</td>"
            f"<td>{_code(c.command)}</td>"
        )
    others, command = untested(claims)
    said = escape(" ".join(claim.says for claim in others))
    left = f"<p>Not tested by a run of this size: {said} {_code(command)}</p>" * bool(others)
    head = ("The paper says", "Measured here", "Verdict", "Command")
    return (_rows(head, rows, "claims") if rows else "") + left


def _folded(name: str, table: pl.DataFrame, place: str = "") -> str:
    there = f' id="{place}"' if place else ""
    return f"<details{there}><summary>Table: {escape(name)}</summary>{_table(table)}</details>"


def _table(table: pl.DataFrame) -> str:
    names = (escape(name.replace("_", " ")) for name in table.columns)
    return _rows(names, ("".join(map(_cell, row)) for row in table.iter_rows()))


def _rows(names: Iterable[str], rows: Iterable[str], kind: str = "plain") -> str:
    head = "".join(f"<th>{name}</th>" for name in names)
    body = "\n".join(f"<tr>{row}</tr>" for row in rows)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table>"
    # By keyboard too: a part that scrolls can be reached.
    return f"<div class='scroll {kind}' tabindex='0' role='group' aria-label='Table'>{table}</div>"


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return f"<td>{escape(value)}</td>"
    text = "–" if value is None else f"{value:.4g}" if isinstance(value, float) else f"{value:,}"
    return f"<td class='n'>{text}</td>"
