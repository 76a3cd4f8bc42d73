"""What the errors of a database mean to a person."""

from __future__ import annotations

from goalward.errors import Damaged, Locked, NotAStudy, NotWritten

__all__ = ["broken", "meaning", "no_study"]


def meaning(name: str, error: BaseException | None) -> Exception:
    """Return ours for a database's error: what came, what was expected, what to do."""
    said = str(error).strip().split("\n")[0]
    lower = said.lower()
    if "unable to open" in lower:
        return NotWritten(
            f"{name} cannot be opened ({said}): it was moved or deleted, or its folder is not there. "
            "Nothing was stored: put it back where it was, or check the path."
        )
    if "locked" in lower or "lock timeout" in lower or "busy" in lower:
        return Locked(
            f"{name} is held by another process ({said}). Nothing was stored: try again, or close "
            "the program that holds it."
        )
    if "not a database" in lower:
        return NotAStudy(
            f"{name} is not a database ({said}). It was left as it is: check the path."
        )
    if "malformed" in lower or "corrupt" in lower or "could not decode" in lower:
        return Damaged(
            f"{name} is damaged ({said}); it was left as it is. Restore a backup, or save every "
            "event that is whole with `goalward recover` or Study.recover."
        )
    if "readonly" in lower or "read-only" in lower:
        return NotWritten(
            f"{name} cannot be written ({said}). Nothing was stored: make the file and its folder "
            "writable, or copy them."
        )
    if "full" in lower or "disk i/o" in lower or "space" in lower or "too large" in lower:
        return NotWritten(
            f"{name} could not be written ({said}). Nothing was stored, and all earlier answers "
            "are safe: free some space, and answer again."
        )
    return NotWritten(
        f"{name} could not be reached ({said}). Nothing was stored: check the address, that the "
        "folder or the server is there, and that it may be used."
    )


def broken(name: str, seq: int) -> Damaged:
    """Return what to say of an event that does not follow from those before it."""
    return Damaged(
        f"Event {seq} of {name} is not what was written: its digest does not follow from the events "
        "before it. Nothing was changed. Restore a backup, or save every event that is whole with "
        f"`goalward recover` or Study.recover({name!r}, 'rescued.db')."
    )


def no_study(name: str) -> NotAStudy:
    """Return what to say of a place without a study."""
    return NotAStudy(
        f"There is no study at {name}; one was expected. Check the address, or make one with "
        "Study.create or `goalward label`."
    )
