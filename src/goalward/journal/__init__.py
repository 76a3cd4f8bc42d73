"""What happened to a study, in order: append and replay, nothing else."""

from goalward.journal.events import (
    Asked,
    ClassAdded,
    Created,
    Event,
    Noted,
    Ranked,
    Skipped,
    Told,
    Undone,
    Withdrawn,
)
from goalward.journal.store import Recorded, Store

__all__ = [
    "Asked",
    "ClassAdded",
    "Created",
    "Event",
    "Noted",
    "Ranked",
    "Recorded",
    "Skipped",
    "Store",
    "Told",
    "Undone",
    "Withdrawn",
]
