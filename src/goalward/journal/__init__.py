"""What happened to a study, in order: append and replay, nothing else."""

from goalward.core.extras import needing

with needing("A study"):
    from goalward.journal import membership
    from goalward.journal.events import Created, Event, Mark, Ranked, Recorded, Told, Undone
    from goalward.journal.schema import Transaction
    from goalward.journal.store import Store

__all__ = [
    "Created",
    "Event",
    "Mark",
    "Ranked",
    "Recorded",
    "Store",
    "Told",
    "Transaction",
    "Undone",
    "membership",
]
