"""What a control of a label config is to a study: one choice, several at once, or a number."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self
from xml.etree.ElementTree import Element

from numpy.typing import NDArray

from goalward.errors import Unsupported
from goalward.journal.events import Label
from goalward.study.cells import NoAnswer
from goalward.tables.labels import short

__all__ = ["CONTROLS", "Control", "control_of"]

DIGITS = 6
"""Digits of a number that is shown to annotators, where the control has no step."""


@dataclass(frozen=True)
class Control:
    """One class out of some choices; the other controls differ in what is written here."""

    kind: ClassVar[str] = "class"
    """The kind of study it is for."""
    key: ClassVar[str] = "choices"
    """What an answer stands under, and the type of its region."""
    asks: ClassVar[str] = "one class"
    tag: ClassVar[str] = 'a Choices tag with choice="single"'
    fewest: ClassVar[int] = 2
    listed: ClassVar[bool] = True
    """Whether its names are the study's, one by one."""

    @classmethod
    def of(cls, tag: Element, root: Element) -> Self:
        """Return what a tag of a config is; `Unsupported` where it cannot be used."""
        reason = None
        if tag.get("perRegion") == "true" or tag.get("perItem") == "true":
            reason = "it is asked for each region or item"
        reason = reason or cls._hindrance(tag, root)
        if reason is not None:
            raise Unsupported(
                f"{tag.tag} {tag.get('name')!r} cannot be used: {reason}; {cls.asks} for each task "
                f"was expected. Use {cls.tag}, or another control with --control."
            )
        return cls._made(tag)

    @classmethod
    def _hindrance(cls, tag: Element, root: Element) -> str | None:
        """Return why a tag cannot be used, or None."""
        if tag.get("choice", "single") not in ("single", "single-radio", "multiple"):
            return f"choice={tag.get('choice')!r} is not known"
        if tag.get("value"):
            return "its choices come from the task's data"
        if any(child.find(".//Choice") is not None for child in tag.iter("Choice")):
            return "its choices are nested"
        return None

    @classmethod
    def _made(cls, tag: Element) -> Self:
        return cls()

    def names(self, tag: Element) -> tuple[str, ...]:
        """Return the choices; an alias where one has it, since that is what annotations hold."""
        names = [c.get("alias") or c.get("value") or "" for c in tag.iter("Choice")]
        if len(names) < self.fewest or len(set(names)) < len(names) or not all(names):
            least = "two" if self.fewest == 2 else "one"
            raise Unsupported(
                f"Choices {tag.get('name')!r} has {names}; {least} or more distinct choices were "
                "expected. Complete the label config."
            )
        return tuple(names)

    def answer(self, values: Sequence[Any], classes: Sequence[Label]) -> Any:
        """Return what an annotation says, as a study takes it; or `NoAnswer`.

        `values` is what its regions hold under `key`, None where they hold something else.
        """
        chosen = _choices(values)
        known = {str(label): label for label in classes}
        if isinstance(chosen, NoAnswer):
            return chosen
        if len(chosen) != 1:
            return NoAnswer(f"{len(chosen)} choices where one was expected")
        if chosen[0] not in known:
            return NoAnswer(f"{chosen[0][:100]!r} is not one of the classes")
        return known[chosen[0]]

    def unchanged(self, stands: Any, said: Any) -> bool:
        """Return whether what an annotation says is what the study has; None is a skip."""
        return bool(stands == said)

    def believed(self, outcomes: NDArray[Any], classes: Sequence[Label]) -> Any:
        """Return what a model believes of a row, as a region holds it.

        `outcomes` are the probabilities of classes or labels, or the number.
        """
        return [str(classes[int(outcomes.argmax())])]


class SeveralChoices(Control):
    """Any of some choices: those chosen hold, the others do not."""

    kind = "labels"
    asks = "any of some labels"
    tag = 'a Choices tag with choice="multiple"'
    fewest = 1

    @classmethod
    def _hindrance(cls, tag: Element, root: Element) -> str | None:
        hidden = (one for one in root.iter() if one.get("visibleWhen"))
        if any(tag is inner for one in hidden for inner in one.iter()):
            return "it is shown only sometimes (visibleWhen), so no choice may be no answer"
        return super()._hindrance(tag, root)

    def answer(self, values: Sequence[Any], classes: Sequence[Label]) -> Any:
        """Return the labels that hold; no region at all is none of them."""
        chosen = _choices(values)
        if isinstance(chosen, NoAnswer):
            return chosen
        unknown = [name for name in chosen if name not in classes]
        if unknown:
            return NoAnswer(f"{unknown[0][:100]!r} is not one of the labels")
        return set(chosen)

    def unchanged(self, stands: Any, said: Any) -> bool:
        """Return whether the labels that an answer speaks of are as they were.

        One that was declared later was not asked: until somebody chooses it, nothing is said of it.
        """
        if stands is None or said is None:
            return stands is said
        asked = len(stands)
        return bool(stands == said[:asked] and not any(said[asked:]))

    def believed(self, outcomes: NDArray[Any], classes: Sequence[Label]) -> Any:
        """Return the labels that are likelier to hold than not."""
        return [str(name) for name, p in zip(classes, outcomes, strict=True) if p > 0.5]


@dataclass(frozen=True)
class NumberField(Control):
    """A number. What is shown to annotators fits the bounds, or they could not submit it."""

    kind = "numbers"
    key = "number"
    asks = "one number"
    tag = "a Number tag"
    listed = False

    low: float = -math.inf
    high: float = math.inf
    step: float | None = None

    @classmethod
    def _hindrance(cls, tag: Element, root: Element) -> str | None:
        return None

    @classmethod
    def _made(cls, tag: Element) -> Self:
        given = {name: _bound(tag, name) for name in ("min", "max", "step")}
        low = -math.inf if given["min"] is None else given["min"]
        high = math.inf if given["max"] is None else given["max"]
        step = given["step"]
        if low > high or (step is not None and step <= 0):
            raise Unsupported(
                f"Number {tag.get('name')!r} has min={tag.get('min')!r}, max={tag.get('max')!r} and "
                f"step={tag.get('step')!r}; min below max and a step above 0 were expected. Correct "
                "the label config."
            )
        return cls(low, high, step)

    def names(self, tag: Element) -> tuple[str, ...]:
        """Return what the number is called."""
        return (tag.get("name", ""),)

    def answer(self, values: Sequence[Any], classes: Sequence[Label]) -> Any:
        """Return the number."""
        if len(values) != 1:
            return NoAnswer(f"{len(values)} numbers where one was expected")
        number = _finite(values[0])
        return NoAnswer(f"{short(values[0])} is not a finite number") if number is None else number

    def believed(self, outcomes: NDArray[Any], classes: Sequence[Label]) -> Any:
        """Return the number, within the control's bounds and at one of its steps."""
        number = float(outcomes[0])
        # Steps that are lost in a number's last digits are none.
        if self.step is None or self.step < 1e-12 * abs(number):
            return min(max(float(f"{number:.{DIGITS}g}"), self.low), self.high)
        start = self.low if math.isfinite(self.low) else 0.0
        steps = round((min(max(number, self.low), self.high) - start) / self.step)
        if math.isfinite(self.high):
            steps = min(steps, math.floor((self.high - start) / self.step + 1e-9))
        return float(f"{start + steps * self.step:.12g}")


def _choices(values: Sequence[Any]) -> list[str] | NoAnswer:
    """Return the choices of all regions; they are texts, and numbers where somebody sent such."""
    strange = [value for value in values if not isinstance(value, list)]
    if strange:
        return NoAnswer(f"{short(strange[0])} where a list of choices was expected")
    return [str(choice) for value in values for choice in value]


def _finite(value: Any) -> float | None:
    """Return a number that floats hold; JSON knows larger ones, and texts are none."""
    real = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if real and abs(value) <= sys.float_info.max else None


def _bound(tag: Element, name: str) -> float | None:
    text = tag.get(name)
    if text is None:
        return None
    try:
        value = _finite(float(text))
    except ValueError:
        value = None
    if value is None:
        raise Unsupported(
            f"Number {tag.get('name')!r} has {name}={text!r}; a number was expected. Correct the label "
            "config."
        )
    return value


CONTROLS: dict[str, type[Control]] = {
    one.kind: one for one in (Control, SeveralChoices, NumberField)
}


def control_of(tag: Element) -> type[Control] | None:
    """Return what a tag is; None where it is no control that a study can work with."""
    if tag.tag == "Number":
        return NumberField
    if tag.tag != "Choices":
        return None
    return SeveralChoices if tag.get("choice") == "multiple" else Control
