"""One self-contained page with the figures, the tables and the claims."""

from __future__ import annotations

import base64
import platform
from collections.abc import Iterable
from html import escape
from importlib.metadata import version
from pathlib import Path
from typing import Any

import polars as pl

from goalward.lab.paper.findings import Claim, Findings
from goalward.lab.paper.pictures import Picture
from goalward.lab.paper.studies import Size

__all__ = ["write_report"]


STYLE = """
:root { --ink: #1d2329; --soft: #5a6570; --line: #e3e7eb; --good: #1d7a46; --part: #9a6700;
  --bad: #b3261e; }
body { font: 16px/1.55 system-ui, sans-serif; color: var(--ink); margin: 0 auto; max-width: 1080px;
  padding: 32px 24px 80px; }
h1 { font-size: 30px; line-height: 1.2; margin: 0 0 4px; } h2 { margin: 48px 0 12px; font-size: 22px; }
p.lead, figcaption, .meta { color: var(--soft); } figure { margin: 20px 0 32px; }
figure img { width: 100%; height: auto; border: 1px solid var(--line); border-radius: 6px; }
figcaption { font-size: 14.5px; margin-top: 6px; }
table { border-collapse: collapse; width: 100%; font-size: 14px; margin: 10px 0 24px; }
th { text-align: left; border-bottom: 2px solid var(--line); padding: 6px 8px; vertical-align: bottom; }
td { border-bottom: 1px solid var(--line); padding: 6px 8px; vertical-align: top; }
td.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.scroll { overflow-x: auto; } .verdict { font-weight: 600; white-space: nowrap; }
.reproduced { color: var(--good); } .partly { color: var(--part); } .not { color: var(--bad); }
code { background: #f4f6f8; padding: 1px 5px; border-radius: 4px; font-size: 13px; }
details { margin: 8px 0 20px; } summary { cursor: pointer; color: var(--soft); }
.rule { color: var(--soft); font-size: 13px; }
"""


def write_report(
    out: Path,
    size: Size,
    findings: Findings,
    pictures: dict[str, Picture],
    tables: dict[str, pl.DataFrame],
    judged: list[Claim],
    seconds: float,
) -> Path:
    """Write report.html, with the figures that are in `out`, and return its path."""
    tables = dict(tables)
    body = [
        "<h1>Goal-oriented active learning, reproduced</h1>",
        '<p class="lead">The experiments of Xu and Kazantsev, <em>Understanding Goal-Oriented Active '
        "Learning via Influence Functions</em> (2019), run again with goalward. Figures, captions "
        "and verdicts are computed from the data of this run.</p>",
        f'<p class="meta">{_meta(size, seconds)}</p>',
        *(f'<p class="meta">Note: {escape(note)}</p>' for note in findings.notes),
        "<h2>Claims</h2>",
        _claims(judged),
        "<h2>Data</h2>",
        _table(tables.pop("datasets")),
    ]
    if "rt-polarity" in findings.datasets:
        body.append(
            '<p class="meta">The paper embeds rt-polarity with BERT-base [CLS] (768). The vectors '
            "named in the table stand in for it here.</p>"
        )
    body.append("<h2>Figures</h2>")
    for name, picture in pictures.items():
        image = base64.b64encode((out / "figures" / f"{name}.png").read_bytes()).decode()
        caption = escape(picture.caption)
        body.append(
            f'<figure id="{name}"><img alt="{caption}" src="data:image/png;base64,{image}">'
            f"<figcaption>{caption}</figcaption></figure>"
        )
        if name in tables:
            body.append(_folded(name, tables.pop(name)))
    body += ["<h2>More tables</h2>", *(_folded(name, table) for name, table in tables.items())]
    path = out / "report.html"
    path.write_text(
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>goalward: reproduction</title><style>{STYLE}</style></head>"
        f"<body>{''.join(body)}</body></html>",
        encoding="utf-8",
    )
    return path


def _meta(size: Size, seconds: float) -> str:
    versions = ", ".join(
        f"{n} {version(n)}" for n in ("goalward", "numpy", "scipy", "scikit-learn")
    )
    return (
        f"{size.seeds} seed(s), 0 to {size.seeds - 1}; up to {size.queries} queries in batches of 10; "
        f"{size.pool} candidates for the approximation. {versions}, Python "
        f"{platform.python_version()}. This run took {seconds / 60:.1f} minutes, rounds found on disk "
        "not counted."
    )


def _claims(claims: list[Claim]) -> str:
    rows = (
        f"<td>{escape(c.says)}<div class='rule'>Rule: {escape(c.rule)}.</div></td>"
        f"<td>{escape(c.measured)}</td>"
        f"<td class='verdict {c.verdict.split()[0]}'>{c.verdict}</td>"
        f"<td><code>{escape(c.command)}</code></td>"
        for c in claims
    )
    return _rows(("The paper says", "Measured here", "Verdict", "Command"), rows)


def _folded(name: str, table: pl.DataFrame) -> str:
    return f"<details><summary>Table: {escape(name)}</summary>{_table(table)}</details>"


def _table(table: pl.DataFrame) -> str:
    names = (escape(name.replace("_", " ")) for name in table.columns)
    return _rows(names, ("".join(map(_cell, row)) for row in table.iter_rows()))


def _rows(names: Iterable[str], rows: Iterable[str]) -> str:
    head = "".join(f"<th>{name}</th>" for name in names)
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f"<div class='scroll'><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return f"<td>{escape(value)}</td>"
    text = "–" if value is None else f"{value:.4g}" if isinstance(value, float) else f"{value:,}"
    return f"<td class='n'>{text}</td>"
