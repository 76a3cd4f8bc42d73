"""Recipes made of recipes: in turn, one until or unless another, one among another's rows."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from goalward.strategies.among import Among
from goalward.strategies.schedule import InTurn, Then, UnlessSurprised, WhileUnseen
from goalward.strategies.strategy import Strategy

__all__ = ["SURPRISED", "Compound", "enclosed", "made_of"]

SURPRISED, UNSEEN = "unless surprised", "while classes are unseen"
IN_TURN = " in turn"
LINKS: tuple[tuple[str, str, Callable[[int, list[Any], int], Strategy]], ...] = (
    (
        r"(.+?) until ([1-9]\d*) then (.+)",
        "{} until N then {}",
        lambda count, built, seed: Then(*built, labels=count, seed=seed),
    ),
    (
        rf"(.+?) {SURPRISED} then (.+)",
        f"{{}} {SURPRISED} then {{}}",
        lambda _, built, seed: UnlessSurprised(*built, seed=seed),
    ),
    (
        rf"(.+?) {UNSEEN} then (.+)",
        f"{{}} {UNSEEN} then {{}}",
        lambda _, built, seed: WhileUnseen(*built, seed=seed),
    ),
    (
        r"(.+) among ([1-9]\d*) by (.+)",
        "{} among N by {}",
        lambda count, built, seed: Among(built[0], by=built[1], most=count, seed=seed),
    ),
)


def enclosed(text: str) -> str:
    """Return a part as it stands among others: what is made of several is one part there."""
    return f"({text})" if text.endswith(IN_TURN) or " then " in text else text


class Compound(NamedTuple):
    """A strategy of several: their recipes, the text around them, and how to join them."""

    parts: list[str]
    text: str
    join: Callable[[list[Any], int], Strategy]


def made_of(text: str) -> Compound | None:
    """Return what "A, B, C in turn", "A until N then B" and their kin are made of.

    What stands in parentheses is one part, whatever is in it.
    """
    groups: list[str] = []

    def hidden(found: re.Match[str]) -> str:
        groups.append(found[1])
        return f"<{len(groups) - 1}>"

    def shown(part: str) -> str:
        if alone := re.fullmatch(r"<(\d+)>", part):
            return shown(groups[int(alone[1])])
        return re.sub(r"<(\d+)>", lambda found: f"({shown(found[0])})", part)

    while (flat := re.sub(r"\(([^()]*)\)", hidden, text)) != text:
        text = flat
    if alone := re.fullmatch(r"<\d+>", text):
        return made_of(shown(alone[0]))
    if text.endswith(IN_TURN):
        parts = text.removesuffix(IN_TURN).split(", ")
        around = ", ".join(["{}"] * len(parts)) + IN_TURN
        join: Any = lambda built, seed: InTurn(tuple(built), seed=seed)
        return Compound([shown(part) for part in parts], around, join)
    for pattern, around, link in LINKS:
        if found := re.fullmatch(pattern, text):
            first, *number, last = found.groups()
            count = int(number[0]) if number else 0
            parts = [shown(first), shown(last)]
            return Compound(parts, around.replace("N", str(count)), partial(link, count))
    return None
