"""What a label config asks."""

import pytest

from goalward.adapters.label_studio import LabelConfig
from goalward.errors import Unsupported

TEXT = '<Text name="t" value="$text"/>'
TWO = '<Choice value="yes"/><Choice value="no"/>'


def config(inside, control=None):
    return LabelConfig.parse(f"<View>{TEXT}{inside}</View>", control)


def test_choices_their_subject_and_its_field_are_read():
    found = config(f'<Choices name="c" toName="t">{TWO}</Choices>')
    assert (found.control, found.subject, found.field, found.kind) == ("c", "t", "text", "Text")
    assert found.classes == ("yes", "no")


def test_an_alias_is_what_annotations_hold():
    two = '<Choice value="Yes, of course" alias="yes"/><Choice value="no"/>'
    assert config(f'<Choices name="c" toName="t">{two}</Choices>').classes == ("yes", "no")


def test_all_shown_fields_are_known():
    found = config(f'<Header value="$title"/><Choices name="c" toName="t">{TWO}</Choices>')
    assert found.fields == ("text", "title")


def test_one_of_several_controls_is_named():
    both = "".join(f'<Choices name="{n}" toName="t">{TWO}</Choices>' for n in "ab")
    assert config(both, "b").control == "b"
    with pytest.raises(Unsupported, match="'a', 'b'; one to work with"):
        config(both)
    with pytest.raises(Unsupported, match="none called 'c'"):
        config(both, "c")


@pytest.mark.parametrize(
    ("inside", "reason"),
    [
        (
            '<Labels name="l" toName="t"><Label value="x"/></Labels>',
            "no Choices tag .it has Labels",
        ),
        (f'<Choices name="c" toName="t" choice="multiple">{TWO}</Choices>', "several answers"),
        (f'<Choices name="c" toName="t" perRegion="true">{TWO}</Choices>', "each region"),
        ('<Choices name="c" toName="t" value="$options"/>', "from the task's data"),
        (
            '<Choices name="c" toName="t"><Choice value="a"><Choice value="b"/></Choice></Choices>',
            "nested",
        ),
        ('<Choices name="c" toName="t"><Choice value="a"/></Choices>', "two or more"),
        (f'<Choices name="c" toName="x">{TWO}</Choices>', "a key of the task's data"),
    ],
)
def test_what_cannot_be_used_is_refused_with_its_reason(inside, reason):
    with pytest.raises(Unsupported, match=reason):
        config(inside)


@pytest.mark.parametrize("text", ["", "<View>", '<!DOCTYPE x [<!ENTITY a "b">]><View/>'])
def test_what_is_no_config_is_refused(text):
    with pytest.raises(Unsupported):
        LabelConfig.parse(text)


def test_an_answer_round_trips_through_a_result():
    found = config(f'<Choices name="c" toName="t">{TWO}</Choices>')
    assert found.answer(found.result("yes")) == ["yes"]
    assert found.answer([{"from_name": "other", "value": {"choices": ["yes"]}}, 3]) == []
