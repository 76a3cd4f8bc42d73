"""What a label config asks."""

import numpy as np
import pytest

from goalward.errors import Unsupported
from goalward.studio.label_studio import LabelConfig

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
    with pytest.raises(Unsupported, match=r"'a', 'b'\. Name one with --control"):
        config(both)
    with pytest.raises(Unsupported, match="none called 'c'"):
        config(both, "c")


@pytest.mark.parametrize(
    ("inside", "reason"),
    [
        (
            '<Labels name="l" toName="t"><Label value="x"/></Labels>',
            "must have a Choices or a Number tag, got Labels",
        ),
        (f'<Choices name="c" toName="t" choice="any">{TWO}</Choices>', "choice='any' is not known"),
        (f'<Choices name="c" toName="t" perRegion="true">{TWO}</Choices>', "each region"),
        ('<Choices name="c" toName="t" value="$options"/>', "from the task's data"),
        (
            '<Choices name="c" toName="t"><Choice value="a"><Choice value="b"/></Choice></Choices>',
            "nested",
        ),
        ('<Choices name="c" toName="t"><Choice value="a"/></Choices>', "must have 2 or more"),
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
    assert found.answer(found.result(np.array([0.8, 0.2]), found.classes), found.classes) == "yes"
    other = [{"from_name": "other", "value": {"choices": ["yes"]}}, 3]
    assert found.answer(other, found.classes) == "0 choices instead of one"


MULTIPLE = f'<Choices name="m" toName="t" choice="multiple">{TWO}</Choices>'
SINGLE = f'<Choices name="c" toName="t">{TWO}</Choices>'
NUMBER = '<Number name="n" toName="t"/>'


def parsed(inside, control=None, kind=None):
    return LabelConfig.parse(f"<View>{TEXT}{inside}</View>", control, kind)


@pytest.mark.parametrize(
    ("inside", "kind", "classes"),
    [
        (SINGLE, "class", ("yes", "no")),
        (MULTIPLE, "labels", ("yes", "no")),
        (NUMBER, "numbers", ("n",)),
        # A number beside choices is a remark, as it always was.
        (NUMBER + SINGLE, "class", ("yes", "no")),
    ],
)
def test_the_config_says_what_an_answer_is(inside, kind, classes):
    found = parsed(inside)
    assert (found.asks.kind, found.classes) == (kind, classes)


@pytest.mark.parametrize(("kind", "control"), [("class", "c"), ("labels", "m"), ("numbers", "n")])
def test_of_several_controls_the_one_that_fits_the_study_is_taken(kind, control):
    assert parsed(SINGLE + MULTIPLE + NUMBER, kind=kind).control == control
    assert parsed(SINGLE + MULTIPLE + NUMBER, control).asks.kind == kind


@pytest.mark.parametrize(
    ("inside", "control", "kind", "reason"),
    [
        (
            SINGLE,
            None,
            "labels",
            r"labels and needs a Choices tag with choice=\"mul.*'c', which asks for one class",
        ),
        (
            MULTIPLE,
            None,
            "class",
            r"needs a Choices tag with .*sin.*'m', which asks for any of some labels",
        ),
        (NUMBER, None, "class", "needs a Choices tag .*Number 'n', which asks for one number"),
        (NUMBER, None, "labels", "The study asks for any of some labels .* Change the label"),
        (SINGLE, None, "numbers", "needs a Number tag"),
        (SINGLE + NUMBER, None, "labels", "one class and Number 'n', which asks for one number"),
        (
            SINGLE + NUMBER,
            "n",
            "class",
            "needs a Choices tag.*Number 'n', which asks for one number",
        ),
        (
            NUMBER + NUMBER.replace('"n"', '"k"'),
            None,
            "numbers",
            "'n', 'k'. Name one with --control",
        ),
        (NUMBER + NUMBER.replace('"n"', '"k"'), None, None, "'n', 'k'. Name one with --control"),
        (SINGLE + MULTIPLE, None, None, "'c', 'm'. Name one with --control"),
        (NUMBER, "c", "numbers", "'n' and none called 'c'"),
    ],
)
def test_a_control_that_does_not_fit_the_study_is_refused_in_words(inside, control, kind, reason):
    with pytest.raises(Unsupported, match=reason):
        parsed(inside, control, kind)


@pytest.mark.parametrize(
    ("inside", "reason"),
    [
        (
            MULTIPLE.replace("multiple", 'multiple" perItem="true'),
            "each region or item. Use .*multiple",
        ),
        (f'<View visibleWhen="choice-selected">{MULTIPLE}</View>', "shown only sometimes"),
        (MULTIPLE.replace("<Choices ", '<Choices visibleWhen="x" '), "shown only sometimes"),
        ('<Choices name="m" toName="t" choice="multiple"/>', r"must have 1 or more .* got \[\]"),
        ('<Number name="n" toName="t" perRegion="true"/>', "each region or item. Use a Number tag"),
        ('<Number name="n" toName="x"/>', "Number 'n' must be about .* got 'x'"),
    ],
)
def test_several_choices_and_numbers_that_cannot_be_used_are_refused(inside, reason):
    with pytest.raises(Unsupported, match=reason):
        parsed(inside)


def test_one_label_is_enough_where_any_may_hold():
    one = '<Choices name="m" toName="t" choice="multiple"><Choice value="yes"/></Choices>'
    assert parsed(one).classes == ("yes",)


@pytest.mark.parametrize(
    ("outcomes", "said"), [([0.9, 0.6], {"yes", "no"}), ([0.2, 0.6], {"no"}), ([0.1, 0.5], set())]
)
def test_several_labels_round_trip_through_a_result(outcomes, said):
    found = parsed(MULTIPLE)
    result = found.result(np.array(outcomes), found.classes)
    assert found.answer(result, found.classes) == said
    assert bool(result) == bool(said)


@pytest.mark.parametrize(("number", "shown"), [(3.14159265, 3.14159), (-1e300, -1e300)])
def test_a_number_round_trips_with_six_digits(number, shown):
    found = parsed('<Number name="n" toName="t"/>')
    result = found.result(np.array([number]), found.classes)
    assert result[0]["type"] == "number"
    assert found.answer(result, found.classes) == shown


LISTS = [
    ("good", "'good' instead of a list"),
    (None, "None instead of a list"),
    ({"a": 1}, "instead of a list"),
]


@pytest.mark.parametrize("inside", [SINGLE, MULTIPLE])
@pytest.mark.parametrize(("value", "reason"), LISTS)
def test_choices_that_are_no_list_are_no_answer(inside, value, reason):
    found = parsed(inside)
    result = [{"from_name": found.control, "value": {"choices": value}}]
    assert reason in found.answer(result, found.classes)
    assert found.answer([{"from_name": found.control, "value": 3}], found.classes).startswith(
        "None"
    )
    assert found.answer({"from_name": found.control}, found.classes) == "its result is no list"
