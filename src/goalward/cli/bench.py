"""`goalward bench`: speed, as ratios."""

from __future__ import annotations

import math
import os
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from typer import Argument, Option

from goalward.cli.app import AsJson, command
from goalward.cli.console import Spinner, console, in_json
from goalward.errors import BadParameter

if TYPE_CHECKING:
    from goalward.lab.speed import Ratio

__all__ = ["BenchOptions", "bench"]

PARTS = (
    *("query", "eer", "scoring", "suggest", "turns", "disk", "predict"),
    *("retrain", "implicit", "page", "imports"),
)


@dataclass(frozen=True)
class BenchOptions:
    """What `goalward bench` takes."""

    parts: list[str] | None = Argument(None, help=f"{', '.join(PARTS)}; all by default.")
    quick: bool = Option(
        False, "--quick", help="Fewer repeats, smaller sizes: to see that it runs."
    )
    gpu: bool = Option(False, "--gpu", help="Add the rows measured on a GPU.")
    out: Path = Option(Path("out/bench"), help="Folder for bench.json and bench.md.")
    as_json: AsJson = False


@command(BenchOptions)
def bench(options: BenchOptions) -> None:
    """Measure speed against peers and limits, in turns in one process.

    One BLAS thread, unless a row says otherwise. Ratios are medians over the repeats, with the
    least and the most. A peer that is not installed
    is reported as missing: `pip install goalward[bench]` brings it.

    Examples: `goalward bench --quick`, `goalward bench query scoring`, `goalward bench --gpu`
    """
    from goalward.lab import speed

    wanted, out = options.parts or PARTS, options.out
    for part in wanted:
        if part not in PARTS:
            raise BadParameter(
                f"{part!r} is no part of the bench; one of {', '.join(PARTS)} was expected."
            )
    results: list[Ratio] = []
    with Spinner() as tick:
        for part in (*wanted, *(["gpu"] * options.gpu)):
            tick(part)
            results += speed.PARTS[part](options.quick)
    machine = {"platform": platform.platform(), "cores": os.cpu_count()}
    saved = in_json({"machine": machine, "ratios": [ratio.as_dict() for ratio in results]})
    out.mkdir(parents=True, exist_ok=True)
    (out / "bench.json").write_text(saved, encoding="utf-8")
    (out / "bench.md").write_text(_markdown(results), encoding="utf-8")
    if options.as_json:
        print(saved)
        return
    for ratio in results:
        console.print(_line(ratio), soft_wrap=True)
    console.print(f"Saved: {out / 'bench.json'}", soft_wrap=True)


def _number(ratio: Ratio) -> tuple[str, str]:
    """Return what was measured, with its unit, and its spread."""
    if math.isnan(ratio.value):
        return "not measured", ""
    unit = " x faster" if ratio.faster else "" if ratio.theirs else " s"
    least, most = min(ratio.values), max(ratio.values)
    return f"{ratio.value:,.3g}{unit}", f"{least:,.3g} to {most:,.3g}"


def _markdown(results: list[Ratio]) -> str:
    """Return the measurements as a table for a page."""
    lines = [
        "| work | against | measured | least to most | asked | met | note |",
        "|---|---|---|---|---|---|---|",
    ]
    for ratio in results:
        met = {True: "yes", False: "**no**", None: ""}[ratio.met]
        names = (name.replace("|", "\\|") for name in (ratio.what, ratio.peer))
        cells = (*names, *_number(ratio), ratio.target, met, ratio.note)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _line(ratio: Ratio) -> str:
    """Return one measurement as two lines."""
    measured, spread = _number(ratio)
    mark = {True: "yes", False: " no", None: "   "}[ratio.met]
    against = " than" if ratio.faster else " of" if ratio.theirs else ","
    asked = f"asked {ratio.target}" if ratio.target else ""
    off = "" if math.isnan(ratio.error) else f"results differ by {ratio.error:.0e}"
    said = "; ".join(filter(None, (spread, asked, off, ratio.note)))
    return f"{mark}  {ratio.what}\n     {measured}{against} {ratio.peer} ({said})"
