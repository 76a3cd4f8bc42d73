"""`goalward bench`: speed, as ratios."""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from goalward.cli.app import AsJson, app
from goalward.cli.console import Spinner, console
from goalward.errors import BadParameter

if TYPE_CHECKING:
    from goalward.lab.speed import Ratio

__all__ = ["bench"]

PARTS = (
    "query",
    "eer",
    "scoring",
    "disk",
    "solve",
    "retrain",
    "implicit",
    "page",
    "imports",
    "growth",
)


@app.command()
def bench(
    parts: Annotated[
        list[str] | None, typer.Argument(help=f"{', '.join(PARTS)}; all by default.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer repeats, smaller sizes: to see that it runs.")
    ] = False,
    gpu: Annotated[bool, typer.Option("--gpu", help="Add the rows measured on a GPU.")] = False,
    out: Annotated[
        Path, typer.Option(help="Folder for bench.json, bench.md and the figure.")
    ] = Path("out/bench"),
    as_json: AsJson = False,
) -> None:
    """Measure speed against peers and limits, in turns in one process.

    One BLAS thread, unless a row says otherwise. Ratios are medians over the repeats, with the
    least and the most. A peer that is not installed
    is reported as missing: `pip install goalward[bench]` brings it.

    Examples: `goalward bench --quick`, `goalward bench query scoring`, `goalward bench --gpu`
    """
    from goalward.lab import speed

    wanted = tuple(parts or PARTS)
    for part in wanted:
        if part not in PARTS:
            raise BadParameter(
                f"{part!r} is no part of the bench; one of {', '.join(PARTS)} was expected."
            )
    few = 1 if quick else 3
    calls: dict[str, Callable[[], list[speed.Ratio]]] = {
        "query": lambda: speed.against_margin(quick=quick, repeats=1 if quick else 9),
        "eer": lambda: speed.against_error_reduction(quick=quick, repeats=few),
        "scoring": lambda: speed.scoring(quick=quick, repeats=1 if quick else 9),
        "disk": lambda: speed.out_of_core(quick=quick, repeats=few),
        "solve": lambda: speed.directions(quick=quick, repeats=few),
        "retrain": lambda: [
            *speed.retraining(repeats=few, n_pool=100 if quick else 500),
            *speed.windows(n_windows=2 if quick else 491),
        ],
        "implicit": lambda: speed.implicit(repeats=few, quick=quick),
        "page": lambda: speed.page(quick=quick),
        "imports": lambda: speed.imports(repeats=1 if quick else 9),
    }
    results: list[speed.Ratio] = []
    grown: list[speed.Growth] = []
    with Spinner() as tick:
        for part in wanted:
            tick(part)
            if part == "growth":
                grown = speed.growth(quick=quick, repeats=few)
                speed.picture(grown, out / "growth")
            else:
                results += calls[part]()
        if gpu:
            tick("gpu")
            results += speed.gpu(quick=quick, repeats=few if quick else 10)
    saved = {
        "machine": {"platform": platform.platform(), "cores": os.cpu_count()},
        "ratios": [ratio.as_dict() for ratio in results],
        "growth": [{**vars(g), "slope": g.slope} for g in grown],
    }
    out.mkdir(parents=True, exist_ok=True)
    (out / "bench.json").write_text(json.dumps(saved, indent=1), encoding="utf-8")
    (out / "bench.md").write_text(_markdown(results), encoding="utf-8")
    if as_json:
        typer.echo(json.dumps(saved))
        return
    for ratio in results:
        console.print(_line(ratio), markup=True, soft_wrap=True, highlight=False)
    for g in grown:
        console.print(f"{g.work} grows as {g.size}^{g.slope:.2f}")
    console.print(f"Saved: {out / 'bench.json'}", soft_wrap=True)


def _markdown(results: list[Ratio]) -> str:
    """Return the measurements as a table for a page."""
    lines = [
        "| work | against | measured | least to most | asked | met | note |",
        "|---|---|---|---|---|---|---|",
    ]
    for ratio in results:
        kind = " x faster" if ratio.faster else ("" if ratio.theirs else " s")
        spread = f"{min(ratio.values):,.3g} to {max(ratio.values):,.3g}"
        spread = "" if math.isnan(ratio.value) else spread
        met = {True: "yes", False: "**no**", None: ""}[ratio.met]
        what = ratio.what.replace("|", "\\|")
        peer = ratio.peer.replace("|", "\\|")
        measured = "not measured" if math.isnan(ratio.value) else f"{ratio.value:,.3g}{kind}"
        cells = (what, peer, measured, spread, ratio.target, met, ratio.note)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _line(ratio: Ratio) -> str:
    """Return one measurement as two lines."""
    if ratio.value != ratio.value:
        return f"  ?  {ratio.what} against {ratio.peer}: not measured\n     {ratio.note}"
    mark = {True: "[green]yes[/]", False: "[red] no[/]", None: "   "}[ratio.met]
    kind = " times faster than" if ratio.faster else (" of" if ratio.theirs else " s,")
    number = f"[bold]{ratio.value:,.3g}[/]{kind} {ratio.peer}"
    spread = f"{min(ratio.values):,.3g} to {max(ratio.values):,.3g}"
    target = f"; asked {ratio.target}" if ratio.target else ""
    off = "" if math.isnan(ratio.error) else f"; results differ by {ratio.error:.0e}"
    note = f". {ratio.note}" if ratio.note else ""
    return f"{mark}  {ratio.what}\n     {number} ({spread}{target}{off}){note}"
