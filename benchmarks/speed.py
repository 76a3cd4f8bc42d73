"""Speed against peers and limits, as ratios: `python benchmarks/speed.py --quick`.

One BLAS thread, unless a row says otherwise. Both sides of a ratio run in turns in one process; ratios
are medians over the repeats, with the smallest and the largest. A peer that is not installed is
reported as missing: `pip install "goalward[bench]"` installs it.
"""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Callable
from pathlib import Path

import typer
from typer import Argument, Option

from goalward.cli.console import console, in_json, spinner
from goalward.errors import BadParameter
from race import Ratio
from speed_page import page
from speed_peers import against_error_reduction, against_margin, imports, retraining, stepping
from speed_scoring import gpu, mapped, out_of_core, predicting, scoring, suggesting, turns

PARTS: dict[str, Callable[[bool], list[Ratio]]] = {
    "query": against_margin,
    "eer": against_error_reduction,
    "scoring": scoring,
    "suggest": suggesting,
    "turns": turns,
    "features": mapped,
    "disk": out_of_core,
    "predict": predicting,
    "retrain": retraining,
    "implicit": stepping,
    "page": page,
    "imports": imports,
    "gpu": gpu,
}
"""Name -> what measures it, given whether a quick look is enough."""
USUAL = [name for name in PARTS if name != "gpu"]
CHOICE = f"{', '.join(USUAL)}; all by default."


def main(
    parts: list[str] = Argument(None, help=CHOICE),
    quick: bool = Option(False, "--quick", help="Fewer repeats and smaller sizes."),
    on_gpu: bool = Option(False, "--gpu", help="Add the rows measured on a GPU."),
    out: Path = Option(Path("out/speed"), help="Folder for speed.json and speed.md."),
    as_json: bool = Option(False, "--json", help="Print JSON for a program to read."),
) -> None:
    """Measure speed against peers and limits."""
    wanted = [*(parts or USUAL), *(["gpu"] * on_gpu)]
    for part in wanted:
        if part not in PARTS:
            raise BadParameter(f"part must be one of {', '.join(PARTS)}, got {part!r}.")
    results: list[Ratio] = []
    with spinner() as tick:
        for part in wanted:
            tick(part)
            results += PARTS[part](quick)
    machine = {"platform": platform.platform(), "cores": os.cpu_count()}
    saved = in_json({"machine": machine, "ratios": [ratio.as_dict() for ratio in results]})
    out.mkdir(parents=True, exist_ok=True)
    (out / "speed.json").write_text(saved, encoding="utf-8")
    (out / "speed.md").write_text(_markdown(results), encoding="utf-8")
    if as_json:
        print(saved)
        return
    for ratio in results:
        console.print(_text(ratio), soft_wrap=True)
    console.print(f"Saved: {out / 'speed.json'}", soft_wrap=True)


def _number(ratio: Ratio) -> tuple[str, str]:
    """Return the measurement with its unit, and its spread."""
    if math.isnan(ratio.value):
        return "not measured", ""
    unit = " x faster" if ratio.faster else "" if ratio.theirs else " s"
    least, most = min(ratio.values), max(ratio.values)
    return f"{ratio.value:,.3g}{unit}", f"{least:,.3g} to {most:,.3g}"


def _markdown(results: list[Ratio]) -> str:
    """Return the measurements as a table for a page."""
    lines = [
        "| work | against | measured | least to most | target | met | note |",
        "|---|---|---|---|---|---|---|",
    ]
    for ratio in results:
        met = {True: "yes", False: "**no**", None: ""}[ratio.met]
        names = (name.replace("|", "\\|") for name in (ratio.what, ratio.peer))
        cells = (*names, *_number(ratio), ratio.target, met, ratio.note)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _text(ratio: Ratio) -> str:
    """Return one measurement as two lines."""
    measured, spread = _number(ratio)
    mark = {True: "yes", False: " no", None: "   "}[ratio.met]
    against = " than" if ratio.faster else " of" if ratio.theirs else ","
    target = f"target {ratio.target}" if ratio.target else ""
    error = "" if math.isnan(ratio.error) else f"results differ by {ratio.error:.0e}"
    notes = "; ".join(filter(None, (spread, target, error, ratio.note)))
    return f"{mark}  {ratio.what}\n     {measured}{against} {ratio.peer} ({notes})"


if __name__ == "__main__":
    typer.run(main)
