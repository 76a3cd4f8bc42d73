"""What comes in and goes out over HTTP, as pydantic checks it and /openapi.json describes it."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr

__all__ = [
    "Answer",
    "Asking",
    "Because",
    "Effects",
    "Invitation",
    "Mark",
    "Next",
    "Problem",
    "Remark",
    "Row",
    "RowNumber",
    "Told",
    "Undone",
    "Who",
]

RowNumber = Annotated[int, Field(ge=0, le=2**53, description="The row's number, from 0.")]
Label = StrictBool | StrictInt | StrictFloat | StrictStr


class Who(BaseModel):
    """Somebody."""

    model_config = ConfigDict(extra="forbid")
    by: str = Field(min_length=1, max_length=200, description="The annotator's name.")


class Asking(Who):
    """A wish for rows."""

    n: int = Field(3, ge=1, le=100, description="How many rows to have in hand.")


class Mark(Who):
    """A row that is meant."""

    row: RowNumber


class Answer(Mark):
    """A label for a row."""

    label: Label = Field(description="One of the classes.")


class Remark(Mark):
    """Something worth knowing about a row."""

    text: str = Field(min_length=1, max_length=100_000)


class Row(BaseModel):
    """A row as a person sees it."""

    row: int
    text: str | None
    length: int = Field(description="Characters of the whole text; more than shown where cut.")
    image: str | None = Field(description="Where its picture is.")
    columns: list[tuple[str, str]]
    utility: float | None = Field(description="The score that led to it being asked.")
    ranking: int | None = Field(description="The number of the ranking it was asked from.")
    notes: list[dict[str, str]]


class Next(BaseModel):
    """The rows an annotator has in hand, the one to show first."""

    next: list[Row]


class Told(Next):
    """An answer is on disk."""

    seq: int = Field(description="Its number in the journal.")


class Undone(Next):
    """The last thing was undone; None if there was nothing."""

    row: int | None


class Effects(BaseModel):
    """What a label of a row would do."""

    label: Any
    probability: float
    utility: float
    helps: list[dict[str, Any]]
    hurts: list[dict[str, Any]]


class Because(BaseModel):
    """Why a row is asked."""

    row: int
    gain: float
    recipe: str
    labels: list[Effects]


class Invitation(BaseModel):
    """A link that opens the page once."""

    path: str


class Problem(BaseModel):
    """What went wrong, and what to do."""

    error: str
