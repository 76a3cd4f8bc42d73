"""What happened to a study, in order: append and replay, nothing else."""

from goalward.core.arguments import needing

with needing("A study"):
    from goalward.studio.store.events import Created, Event, Mark, Ranked, Recorded, Told, Undone
    from goalward.studio.store.store import Store, Transaction

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
]
