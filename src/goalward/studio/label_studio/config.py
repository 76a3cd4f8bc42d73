"""What a project's label config asks: one question for each task, or why it cannot be used."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from numpy.typing import NDArray

from goalward.errors import Unsupported
from goalward.studio.store.events import Label
from goalward.studio.study.exchange import NoAnswer
from goalward.studio.tables.cells import short

__all__ = ["CONTROLS", "Control", "LabelConfig", "control_of"]


# What a control of a label config is to a study: one choice, several at once, or a number.


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


@dataclass(frozen=True)
class LabelConfig:
    """The control of a label config that a study works with, and what it is about.

    Parameters
    ----------
    control, subject
        Names of the Choices or Number tag and of the tag it is about.
    field
        The key of a task's data that the subject shows: "text" for value="$text".
    kind
        The subject's tag: Text, Image and so on.
    fields
        All keys the config shows.
    classes
        The choices; an alias where a choice has one, since that is what annotations hold. Of a
        number its name.
    asks
        What an answer is: one choice, several at once, a number.

    Examples
    --------
    >>> config = LabelConfig.parse('''<View><Text name="t" value="$text"/>
    ...     <Choices name="c" toName="t"><Choice value="good"/><Choice value="bad"/></Choices>
    ... </View>''')
    >>> config.control, config.field, config.classes
    ('c', 'text', ('good', 'bad'))
    """

    control: str
    subject: str
    field: str
    kind: str
    fields: tuple[str, ...]
    classes: tuple[str, ...]
    asks: Control

    @classmethod
    def parse(cls, text: str, control: str | None = None, kind: str | None = None) -> LabelConfig:
        """Return what a label config asks.

        Parameters
        ----------
        control
            Names one of several tags.
        kind
            What the study's answers are ("class", "labels", "numbers"); None: what the config asks,
            its Choices before its Number.
        """
        root = _parsed(text)
        chosen, control_type = _chosen(root, control, kind)
        name, subject = chosen.get("name", ""), chosen.get("toName", "")
        asks = control_type.of(chosen, root)
        about = next((tag for tag in root.iter() if tag.get("name") == subject), None)
        value = about.get("value", "") if about is not None else ""
        if about is None or not value.startswith("$") or len(value) < 2:
            raise Unsupported(
                f"{chosen.tag} {name!r} is about {subject!r}, whose value is {value!r}; a key of the "
                'task\'s data was expected. Write value="$text" there.'
            )
        values = [tag.get("value", "") for tag in root.iter() if tag.tag != "Choice"]
        fields = dict.fromkeys(v[1:] for v in values if v.startswith("$"))
        return cls(name, subject, value[1:], about.tag, tuple(fields), asks.names(chosen), asks)

    def answer(self, result: Any, classes: Sequence[Label]) -> Any:
        """Return what an annotation's result says, as a study takes it; or `NoAnswer`."""
        if not isinstance(result, list):
            return NoAnswer("its result is no list")
        ours = [r for r in result if isinstance(r, dict) and r.get("from_name") == self.control]
        held = [region.get("value") for region in ours]
        key = self.asks.key
        values = [value.get(key) if isinstance(value, dict) else None for value in held]
        return self.asks.answer(values, classes)

    def result(self, outcomes: NDArray[Any], classes: Sequence[Label]) -> list[dict[str, Any]]:
        """Return a prediction's result: what a model believes of a row; no choice is no region."""
        believed, key = self.asks.believed(outcomes, classes), self.asks.key
        region = {"from_name": self.control, "to_name": self.subject, "type": key}
        return [] if believed == [] else [{**region, "value": {key: believed}}]


def _parsed(text: str) -> ElementTree.Element:
    # Entities are never needed here, and are how small texts grow large.
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise Unsupported("The label config declares entities; plain tags were expected.")
    try:
        return ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise Unsupported(
            f"The label config cannot be read ({error}); a config with a Choices or a Number tag was "
            "expected. Set it in the project's settings, under Labeling Interface."
        ) from error


def _chosen(
    root: ElementTree.Element, name: str | None, kind: str | None
) -> tuple[ElementTree.Element, type[Control]]:
    """Return the tag of a name, or the only one that answers of a kind can come from."""
    found = ((tag, control_of(tag)) for tag in root.iter())
    there = {tag.get("name", ""): (tag, control) for tag, control in found if control is not None}
    names = ", ".join(map(repr, there))
    if not there:
        tags = sorted({tag.tag for tag in root.iter() if tag.get("toName")})
        raise Unsupported(
            "The label config has no Choices tag and no Number tag (it has "
            f"{', '.join(tags) or 'no control'}); one was expected, since goalward asks for a class, "
            "for labels or for a number."
        )
    if name is not None and name not in there:
        raise Unsupported(
            f"The label config has the controls {names} and none called {name!r}; one to work with was "
            "expected. Name it with --control."
        )
    asked = list(there.values()) if name is None else [there[name]]
    if kind is None:
        fits = [one for one in asked if one[0].tag == "Choices"] or asked
    else:
        fits = [one for one in asked if one[1].kind == kind]
        if not fits:
            raise _unfit(asked, CONTROLS[kind])
    if len(fits) > 1:
        names = ", ".join(repr(tag.get("name", "")) for tag, _ in fits)
        raise Unsupported(
            f"The label config has the controls {names}; one to work with was expected. Name it with "
            "--control."
        )
    return fits[0]


def _unfit(
    asked: Sequence[tuple[ElementTree.Element, type[Control]]], wanted: type[Control]
) -> Unsupported:
    told = " and ".join(
        f"{tag.tag} {tag.get('name')!r}, which asks for {control.asks}" for tag, control in asked
    )
    return Unsupported(
        f"The label config has {told}; {wanted.tag} was expected, since the study asks for {wanted.asks}. "
        "Change the label config, or use another study."
    )
