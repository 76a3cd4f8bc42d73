"""What happened to a study, in order: append and replay, nothing else."""

from goalward.core.extras import needing

with needing("A study"):
    from goalward.journal.events import (
        Asked,
        Changed,
        ClassAdded,
        Created,
        Event,
        Lost,
        Noted,
        Ranked,
        Skipped,
        Told,
        Undone,
        Withdrawn,
    )
    from goalward.journal.store import Store
    from goalward.journal.transaction import Mark, Recorded

__all__ = [
    "Asked",
    "Changed",
    "ClassAdded",
    "Created",
    "Event",
    "Lost",
    "Mark",
    "Noted",
    "Ranked",
    "Recorded",
    "Skipped",
    "Store",
    "Told",
    "Undone",
    "Withdrawn",
]
