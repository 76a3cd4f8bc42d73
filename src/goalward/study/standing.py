"""What a state is made of: what annotators said, hold, did and wrote, row by row."""

from __future__ import annotations

from dataclasses import dataclass

from goalward.journal.events import Label

__all__ = ["Change", "Lease", "Note", "Standing"]


@dataclass(frozen=True)
class Standing:
    """What an annotator last said about a row; a label of None is a skip."""

    label: Label | None
    seq: int
    at: float


@dataclass(frozen=True)
class Lease:
    """A row in an annotator's hands until a time; `place` orders what they hold."""

    at: float
    until: float
    place: int

    def live(self, now: float) -> bool:
        """Return whether it still holds; a clock that jumped back ends it too."""
        return 0.0 < self.until - now <= self.until - self.at


@dataclass(frozen=True)
class Change:
    """A row, what its annotator had said of it before, and their change before this one."""

    row: int
    before: Standing | None
    earlier: Change | None


@dataclass(frozen=True)
class Note:
    """What somebody wrote about a row."""

    by: str
    text: str
    at: float
