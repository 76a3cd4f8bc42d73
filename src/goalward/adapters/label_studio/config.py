"""What a project's label config asks: one question with one answer, or why it cannot be used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

from goalward.errors import Unsupported

__all__ = ["LabelConfig"]


@dataclass(frozen=True)
class LabelConfig:
    """The Choices control of a label config, and what it is about.

    Parameters
    ----------
    control, subject
        Names of the Choices tag and of the tag it is about.
    field
        The key of a task's data that the subject shows: "text" for value="$text".
    kind
        The subject's tag: Text, Image and so on.
    fields
        All keys the config shows.
    classes
        The choices; an alias where a choice has one, since that is what annotations hold.

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

    @classmethod
    def parse(cls, text: str, control: str | None = None) -> LabelConfig:
        """Return what a label config asks; `control` names one of several Choices tags."""
        root = _parsed(text)
        chosen = _control(root, control)
        name, subject = chosen.get("name", ""), chosen.get("toName", "")
        _check_single(chosen, name)
        about = next((tag for tag in root.iter() if tag.get("name") == subject), None)
        value = about.get("value", "") if about is not None else ""
        if about is None or not value.startswith("$") or len(value) < 2:
            raise Unsupported(
                f"Choices {name!r} is about {subject!r}, whose value is {value!r}; a key of the task's "
                'data was expected. Write value="$text" there.'
            )
        values = [tag.get("value", "") for tag in root.iter() if tag.tag != "Choice"]
        fields = dict.fromkeys(v[1:] for v in values if v.startswith("$"))
        classes = [c.get("alias") or c.get("value") or "" for c in chosen.iter("Choice")]
        if len(classes) < 2 or len(set(classes)) < len(classes) or not all(classes):
            raise Unsupported(
                f"Choices {name!r} has {classes}; two or more distinct choices were expected. Complete "
                "the label config."
            )
        return cls(name, subject, value[1:], about.tag, tuple(fields), tuple(classes))

    def answer(self, result: Sequence[Any]) -> list[str]:
        """Return the choices an annotation's result holds for this control."""
        ours = [r for r in result if isinstance(r, dict) and r.get("from_name") == self.control]
        values = [region.get("value") for region in ours]
        return [str(c) for v in values if isinstance(v, dict) for c in v.get("choices", [])]

    def result(self, label: str) -> list[dict[str, Any]]:
        """Return a prediction's result that says `label`."""
        region = {"from_name": self.control, "to_name": self.subject, "type": "choices"}
        return [{**region, "value": {"choices": [label]}}]


def _parsed(text: str) -> ElementTree.Element:
    # Entities are never needed here, and are how small texts grow large.
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise Unsupported("The label config declares entities; plain tags were expected.")
    try:
        return ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise Unsupported(
            f"The label config cannot be read ({error}); a config with a Choices tag was expected. Set "
            "it in the project's settings, under Labeling Interface."
        ) from error


def _control(root: ElementTree.Element, name: str | None) -> ElementTree.Element:
    controls = {tag.get("name", ""): tag for tag in root.iter("Choices")}
    if name is None and len(controls) == 1:
        (name,) = controls
    if name is not None and name in controls:
        return controls[name]
    if not controls:
        tags = sorted({tag.tag for tag in root.iter() if tag.get("toName")})
        raise Unsupported(
            f"The label config has no Choices tag (it has {', '.join(tags) or 'no control'}); one was "
            "expected, since goalward asks for one class of each task."
        )
    raise Unsupported(
        f"The label config has the Choices {', '.join(map(repr, controls))}"
        + (f" and none called {name!r}" if name else "")
        + "; one to work with was expected. Name it with --control."
    )


def _check_single(tag: ElementTree.Element, name: str) -> None:
    reason = None
    if tag.get("choice", "single") not in ("single", "single-radio"):
        reason = f'choice="{tag.get("choice")}" allows several answers'
    elif tag.get("perRegion") == "true" or tag.get("perItem") == "true":
        reason = "it is asked for each region or item"
    elif tag.get("value"):
        reason = "its choices come from the task's data"
    elif any(child.find(".//Choice") is not None for child in tag.iter("Choice")):
        reason = "its choices are nested"
    if reason is not None:
        raise Unsupported(
            f"Choices {name!r} cannot be used: {reason}; one answer per task out of a fixed list was "
            'expected. Use choice="single", or another control with --control.'
        )
