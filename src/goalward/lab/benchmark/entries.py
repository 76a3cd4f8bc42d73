"""Who takes part, and on which data."""

from __future__ import annotations

from dataclasses import dataclass

from goalward.errors import BadParameter
from goalward.strategies import recipe
from goalward.strategies.recipe_names import RECOMMENDED

__all__ = ["CONFIRMED", "DATASETS", "DESIGNED", "ENTRIES", "FAST", "MAIN", "QUICK", "Entry"]

DESIGNED = ("digits", "breast-cancer", "wine", "segment", "vehicle", "spambase")
"""Datasets on which the label-free goals were designed, with other splits."""
CONFIRMED = (
    "letter",
    "rt-polarity:minilm",
    "satimage",
    "penbased",
    "texture",
    "optdigits",
    "vowel",
    "magic",
)
"""Datasets that took no part in the design of the recommended goal. letter and rt-polarity had been
used for other goals before; the rest had not been used at all."""
DATASETS = DESIGNED + CONFIRMED
QUICK = (*DESIGNED, "vowel", "satimage")


@dataclass(frozen=True)
class Entry:
    """A strategy and what it does with dev labels.

    Parameters
    ----------
    recipe
        As `gw.recipe` takes it.
    dev
        "none": it buys none. "trained": it buys them first and trains on them, nothing else.
        "goal": it buys them first and is steered by them; the deployed model trains on them too.
    """

    recipe: str
    dev: str = "none"

    @classmethod
    def of(cls, text: str) -> Entry:
        """Return the entry of a name: a recipe, with " + dev" where dev labels train a baseline."""
        plain = text.removesuffix(" + dev")
        needs = recipe(plain).needs
        if "truth" in needs:
            raise BadParameter(
                f"{text!r} needs the true labels, which the benchmark does not give: it compares what "
                "can be used. Try it with `goalward simulate`."
            )
        if plain != text:
            if "dev" in needs:
                raise BadParameter(
                    f"{text!r} came; {plain!r} is steered by dev labels and trains on them already. "
                    "Leave ' + dev' out."
                )
            return cls(plain, "trained")
        # Left-out dev rows are honest though they train.
        trained = plain.startswith("dev-left-out")
        return cls(plain, "trained" if trained else "goal" if "dev" in needs else "none")

    @property
    def name(self) -> str:
        """The recipe; with " + dev" for a baseline that trains on dev labels."""
        own = "dev" in recipe(self.recipe).needs
        return f"{self.recipe} + dev" if self.dev == "trained" and not own else self.recipe


BASELINES = ("random", "margin", "entropy", "least-confident", "core-set", "badge", "bait", "bald")
STEERED = (
    "dev/average/first-order/top",
    "dev/spread/first-order/top",
    "dev/spread/first-order/stochastic",
    "dev/spread/first-order/sequential-curvature",
    "dev/spread/implicit/top",
    "dev/min/first-order/sequential-curvature",
    "calibrated/spread/first-order/sequential-curvature",
    "accuracy/spread/first-order/sequential-curvature",
    "dev-rotated/spread/first-order/sequential-curvature",
    "dev-left-out/spread/first-order/sequential-curvature",
)
LABEL_FREE = (
    RECOMMENDED,
    "decision-risk until 100 then margin",
    "decision-risk/average/information/top",
    "decision-risk/average/information/stochastic",
    "epig",
    "fisher-ratio",
    "soft-pool/spread/first-order/sequential-curvature",
    "leave-one-out/spread/first-order/sequential-curvature",
    "entropy/spread/first-order/sequential-curvature",
    "entropy/average/first-order/top",
    "fisher/average/first-order/top",
)
MAIN = (RECOMMENDED, "random", "margin", "entropy", "core-set", "badge", "bait")
"""The comparison that the recommended recipe must win."""

BOTH_WAYS = (*BASELINES, *(f"{name} + dev" for name in BASELINES), f"{RECOMMENDED} + dev")
ENTRIES = tuple(map(Entry.of, (*BOTH_WAYS, *STEERED, *LABEL_FREE)))
SOME = ("dev/average/first-order/top", "dev/spread/first-order/sequential-curvature", "epig")
FAST = tuple(map(Entry.of, (*MAIN, *(f"{name} + dev" for name in MAIN), *SOME)))
"""For a quick look."""
