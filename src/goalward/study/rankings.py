"""Rankings as a study remembers them: of the older ones what curves and stopping rules look at."""

from __future__ import annotations

from dataclasses import replace
from sys import intern

from goalward.journal import Ranked
from goalward.stopping.gains import BACK

__all__ = ["add_ranking"]

MODELS = 5
"""Models whose predictions are kept: the rules look at the last four."""


def add_ranking(rounds: list[tuple[int, Ranked]], seq: int, new: Ranked) -> None:
    """Add a ranking; the one before loses its queue.

    Predictions are compared with those of the last models and of the one 50 labels ago. As far back
    again they are kept, and the first, for when answers are taken back.
    """
    if rounds:
        number, last = rounds[-1]
        gone = {"queue": (), "utilities": (), "quantiles": (), "versions": {}, "features": ""}
        slim = replace(last, **gone, recipe=intern(last.recipe))  # type: ignore[arg-type]
        # Ranked again before a new label came, it is compared with nothing.
        again = last.labels == new.labels
        rounds[-1] = number, _forgotten(slim) if again else slim
        models, far = 1, False
        for place in range(0 if again else len(rounds) - 2, 0, -1):
            number, old = rounds[place]
            known = (old.stop_set or {}).get("predicted") is not None
            if far and models > MODELS:
                if not known:
                    break
                rounds[place] = number, _forgotten(old)
            models += known
            far = far or (known and old.labels <= new.labels - 2 * BACK)
    rounds.append((seq, new))


def _forgotten(old: Ranked) -> Ranked:
    return replace(old, stop_set=old.stop_set and {**old.stop_set, "predicted": None})
