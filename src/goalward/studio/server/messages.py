"""What comes in and goes out over HTTP, as pydantic checks it and /openapi.json describes it.

Nothing is turned into a number or a text that was not one: row 3 is neither "3", 3.0 nor true, and
not "1_0" in an address, all of which pydantic would take.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
)

from goalward.studio.study.settings import LONGEST_NOTE

__all__ = [
    "Annotator",
    "AnswerFilter",
    "AnswerRequest",
    "AnswerStored",
    "ChosenTable",
    "Classes",
    "Digits",
    "ErrorMessage",
    "NewStudy",
    "NextRows",
    "NoteRequest",
    "PageNumber",
    "Plain",
    "RowRequest",
    "RowView",
    "RowsRequest",
    "UndoResult",
]


def _written(pattern: str, expected: str) -> BeforeValidator:
    def check(text: Any) -> Any:
        if isinstance(text, str) and not re.fullmatch(pattern, text):
            raise ValueError(expected)
        return text

    return BeforeValidator(check)


def _storable(text: str) -> str:
    if "\0" in text:
        raise ValueError("there is a NUL character in it, which not every database can hold")
    return text


Digits = _written(
    r"0|[1-9][0-9]{0,15}", "a whole number in plain digits was expected, 17 for example"
)
Plain = _written(r"[0-9.eE+-]{1,40}", "a number was expected, 0.001 or 1e-3 for example")
Text = Annotated[StrictStr, AfterValidator(_storable)]
RowNumber = Annotated[StrictInt, Field(ge=0, le=2**53, description="The row's number, from 0.")]
PageNumber = Annotated[int, Digits, Field(ge=0, le=10**6, description="Which page, from 0.")]
Label = StrictBool | StrictInt | StrictFloat | StrictStr


class Annotator(BaseModel):
    """Somebody."""

    model_config = ConfigDict(extra="forbid")
    by: Text | None = Field(
        None,
        min_length=1,
        max_length=200,
        description="The annotator's name; not needed of who signed in, whose name it must be.",
    )


class RowsRequest(Annotator):
    """A wish for rows."""

    n: StrictInt = Field(3, ge=1, le=100, description="How many rows to have in hand.")


class RowRequest(Annotator):
    """A row that is meant."""

    row: RowNumber


class AnswerRequest(RowRequest):
    """A label for a row."""

    label: Label | list[Text] | dict[Text, StrictBool | None] = Field(
        description="One of the classes; the list of the labels that hold, or true, false or null for "
        "each; a number."
    )


class NoteRequest(RowRequest):
    """Something worth knowing about a row."""

    text: Text = Field(min_length=1, max_length=LONGEST_NOTE)


class Classes(BaseModel):
    """A class that is to be added, or what is to be said of one; without a class, of all rows."""

    model_config = ConfigDict(extra="forbid")
    label: Label | None = Field(None, description="The class that is meant; none: guidelines.")
    name: Text | None = Field(None, min_length=1, max_length=1000, description="Its new name.")
    colour: Text | None = Field(None, max_length=20, description="#1b9e77, or empty for none.")
    text: Text | None = Field(None, max_length=100_000, description="What belongs to it.")


class ChosenTable(BaseModel):
    """A table of the start page, by its number, and the sheet of a workbook."""

    model_config = ConfigDict(extra="forbid")
    table: StrictInt = Field(ge=0, le=10**6)
    sheet: Text | None = Field(None, max_length=100)


class NewStudy(ChosenTable):
    """What a study is to be made of: the classes, and what each column is for."""

    classes: list[Text] = Field(max_length=1000)
    uses: dict[Text, Literal["text", "numeric", "category", "image", "answers", "shown"]]


class AnswerFilter(BaseModel):
    """Which answers to list; an empty text means any."""

    label: str = Field("", max_length=1000, description="The label used, as text.")
    by: str = Field("", max_length=1000, description="An annotator who said something.")
    only: Literal["all", "open", "doubted", "skipped", "disagreeing", "noted", "dev"] = "all"
    search: str = Field("", max_length=1000, description="Words the row must hold.")


class RowView(BaseModel):
    """A row as a person sees it."""

    row: int
    name: str = Field(description="What people call it: its id in the table, or its number.")
    text: str | None
    length: int = Field(description="Characters of the whole text; more than shown where cut.")
    image: str | None = Field(description="Where its picture is.")
    columns: list[tuple[str, str]]
    utility: float | None = Field(description="The score that led to it being asked.")
    ranking: int | None = Field(description="The number of the ranking it was asked from.")
    notes: list[dict[str, str]] = Field(description="A page of 20, the newest first of all.")
    n_notes: int = Field(description="How many there are in all.")
    guess: tuple[Label, float] | None = Field(
        None, description="What was guessed, or what the model would say, and how sure that is."
    )


class NextRows(BaseModel):
    """The rows an annotator has in hand, the one to show first."""

    next: list[RowView]


class AnswerStored(NextRows):
    """An answer is on disk."""

    seq: int = Field(description="Its number in the journal.")


class UndoResult(NextRows):
    """The last thing was undone; None if there was nothing."""

    row: int | None


class ErrorMessage(BaseModel):
    """What went wrong, and what to do."""

    error: str
