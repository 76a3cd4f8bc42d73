"""What a project's label config asks: one question for each task, or why it cannot be used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

from numpy.typing import NDArray

from goalward.adapters.label_studio.controls import CONTROLS, Control, control_of
from goalward.errors import Unsupported
from goalward.journal.events import Label
from goalward.study.cells import NoAnswer

__all__ = ["LabelConfig"]


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
