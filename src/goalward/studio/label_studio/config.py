"""The question that a project's label config asks of each task."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from numpy.typing import NDArray

from goalward.errors import Unsupported
from goalward.studio.store.events import Label
from goalward.studio.study.exchange import NoAnswer
from goalward.studio.tables.cells import short

DIGITS = 6
"""Digits of a number that is shown to annotators."""


class Control:
    """A tag that asks for one of some choices; other controls override what differs."""

    kind: ClassVar[str] = "class"
    """The kind of study it is for."""
    key: ClassVar[str] = "choices"
    """The key and the type of an answer in a region."""
    names: ClassVar[str] = "classes"
    asks: ClassVar[str] = "one class"
    tag: ClassVar[str] = 'a Choices tag with choice="single"'
    fewest: ClassVar[int] = 2
    """Choices that it must have; 0 where it has none."""

    def answer(self, values: Sequence[Any], classes: Sequence[Label]) -> Any:
        """Return the answer, or `NoAnswer`; `values` are those of the regions under `key`."""
        chosen: list[str] = []
        known = {str(label): label for label in classes}
        for value in values:
            if not isinstance(value, list):
                return NoAnswer(f"{short(value)} instead of a list of choices")
            chosen += map(str, value)
        if self.kind == "class" and len(chosen) != 1:
            return NoAnswer(f"{len(chosen)} choices instead of one")
        for name in chosen:
            if name not in known:
                return NoAnswer(f"{name[:100]!r} is not one of the {self.names}")
        # No region at all is none of several labels.
        return known[chosen[0]] if self.kind == "class" else set(chosen)

    def unchanged(self, stored: Any, answer: Any) -> bool:
        """Return whether an annotation's answer is the study's; None is a skip."""
        return bool(stored == answer)

    def believed(self, outcomes: NDArray[Any], classes: Sequence[Label]) -> Any:
        """Return the model's answer as a region holds it, from probabilities or the number."""
        return [str(classes[int(outcomes.argmax())])]


class SeveralChoices(Control):
    """A tag that asks which of some labels hold."""

    kind = names = "labels"
    asks = "any of some labels"
    tag = 'a Choices tag with choice="multiple"'
    fewest = 1

    def unchanged(self, stored: Any, answer: Any) -> bool:
        if stored is None or answer is None:
            return stored is answer
        asked = len(stored)
        return bool(stored == answer[:asked] and not any(answer[asked:]))

    def believed(self, outcomes: NDArray[Any], classes: Sequence[Label]) -> Any:
        return [str(name) for name, p in zip(classes, outcomes, strict=True) if p > 0.5]


class NumberField(Control):
    """A tag that asks for a number."""

    kind = "numbers"
    key = "number"
    asks = "one number"
    tag = "a Number tag"
    fewest = 0

    def answer(self, values: Sequence[Any], classes: Sequence[Label]) -> Any:
        if len(values) != 1:
            return NoAnswer(f"{len(values)} numbers instead of one")
        number = values[0]
        real = isinstance(number, (int, float)) and not isinstance(number, bool)
        if not real or not abs(number) <= sys.float_info.max:
            return NoAnswer(f"{short(number)} is not a finite number")
        return float(number)

    def believed(self, outcomes: NDArray[Any], classes: Sequence[Label]) -> Any:
        return float(f"{outcomes[0]:.{DIGITS}g}")


@dataclass(frozen=True)
class LabelConfig:
    """The control tag of a label config that a study uses, and the tag that shows the data."""

    control: str
    subject: str
    field: str
    kind: str
    fields: tuple[str, ...]
    classes: tuple[str, ...]
    asks: Control

    @classmethod
    def parse(cls, text: str, control: str | None = None, kind: str | None = None) -> LabelConfig:
        """Return the parsed config; `control` names one of several tags, `kind` is the study's."""
        # Entities make small texts grow large.
        if "<!DOCTYPE" in text or "<!ENTITY" in text:
            raise Unsupported("The label config must not declare entities. Use plain tags.")
        try:
            root = ElementTree.fromstring(text)
        except ElementTree.ParseError as error:
            raise Unsupported(
                f"The label config is not XML ({error}). Set it in the project's settings."
            ) from error
        tag, control_type = _chosen(root, control, kind)
        name, subject = tag.get("name", ""), tag.get("toName", "")
        if (reason := _obstacle(tag, root)) is not None:
            raise Unsupported(
                f"{tag.tag} {name!r} cannot be used: {reason}. Use {control_type.tag}, or name another "
                "control with --control."
            )
        # Annotations hold the alias where a choice has one.
        names = [c.get("alias") or c.get("value") or "" for c in tag.iter("Choice")]
        fewest = control_type.fewest
        if fewest and not fewest <= len(set(filter(None, names))) == len(names):
            raise Unsupported(
                f"Choices {name!r} must have {fewest} or more distinct choices, got {names}. Add some."
            )
        about = next((other for other in root.iter() if other.get("name") == subject), None)
        value = about.get("value", "") if about is not None else ""
        if about is None or not value.startswith("$") or len(value) < 2:
            raise Unsupported(
                f"{tag.tag} {name!r} must be about a tag that shows a key of the task's data, got "
                f'{subject!r} with value {value!r}. Write value="$text" there.'
            )
        values = [other.get("value", "") for other in root.iter() if other.tag != "Choice"]
        fields = tuple(dict.fromkeys(v[1:] for v in values if v.startswith("$")))
        classes = tuple(names) if fewest else (name,)
        return cls(name, subject, value[1:], about.tag, fields, classes, control_type())

    def answer(self, result: Any, classes: Sequence[Label]) -> Any:
        """Return the answer in an annotation's result, as a study takes it; or `NoAnswer`."""
        if not isinstance(result, list):
            return NoAnswer("its result is no list")
        ours = [r for r in result if isinstance(r, dict) and r.get("from_name") == self.control]
        values = [region.get("value") for region in ours]
        values = [value.get(self.asks.key) if isinstance(value, dict) else None for value in values]
        return self.asks.answer(values, classes)

    def result(self, outcomes: NDArray[Any], classes: Sequence[Label]) -> list[dict[str, Any]]:
        """Return a prediction's result: the model's answer; no choice is no region."""
        believed, key = self.asks.believed(outcomes, classes), self.asks.key
        region = {"from_name": self.control, "to_name": self.subject, "type": key}
        return [] if believed == [] else [{**region, "value": {key: believed}}]


def _obstacle(tag: Element, root: Element) -> str | None:
    """Return why a control cannot be used, or None."""
    choice, choices = tag.get("choice", "single"), tag.tag == "Choices"
    hidden = (inner for part in root.iter() if part.get("visibleWhen") for inner in part.iter())
    obstacles = {
        "it is asked for each region or item": "true" in (tag.get("perRegion"), tag.get("perItem")),
        f"choice={choice!r} is not known": choice not in ("single", "single-radio", "multiple"),
        "its choices come from the task's data": choices and tag.get("value"),
        "its choices are nested": tag.find(".//Choice//Choice") is not None,
        # Then no choice may be no answer.
        "it is shown only sometimes (visibleWhen)": choice == "multiple" and tag in list(hidden),
    }
    return next((reason for reason, there in obstacles.items() if there), None)


def _chosen(root: Element, name: str | None, kind: str | None) -> tuple[Element, type[Control]]:
    """Return the tag of a name, or the only one that asks for answers of a kind."""
    controls: dict[str, tuple[Element, type[Control]]] = {}
    for tag in root.iter():
        several = SeveralChoices if tag.get("choice") == "multiple" else Control
        if control := {"Choices": several, "Number": NumberField}.get(tag.tag):
            controls[tag.get("name", "")] = tag, control
    if not controls:
        others = sorted({tag.tag for tag in root.iter() if tag.get("toName")})
        raise Unsupported(
            "The label config must have a Choices or a Number tag, got "
            f"{', '.join(others) or 'no control'}. Add one to the project's label config."
        )
    if name is not None and name not in controls:
        raise Unsupported(
            f"The label config has the controls {', '.join(map(repr, controls))} and none called "
            f"{name!r}. Name one of them with --control."
        )
    named = list(controls.values()) if name is None else [controls[name]]
    fitting = [pair for pair in named if pair[1].kind == kind]
    if kind is None:
        fitting = [pair for pair in named if pair[0].tag == "Choices"] or named
    if not fitting:
        wanted = next(c for c in (Control, SeveralChoices, NumberField) if c.kind == kind)
        asked = [f"{tag.tag} {tag.get('name')!r}, which asks for {c.asks}" for tag, c in named]
        raise Unsupported(
            f"The study asks for {wanted.asks} and needs {wanted.tag}; the label config has "
            f"{' and '.join(asked)}. Change the label config, or use another study."
        )
    if len(fitting) > 1:
        names = ", ".join(repr(tag.get("name", "")) for tag, _ in fitting)
        raise Unsupported(f"The label config has the controls {names}. Name one with --control.")
    return fitting[0]
