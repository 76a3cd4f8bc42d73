"""An answer of one number."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from goalward.errors import BadParameter
from goalward.models.ridge import Ridge
from goalward.strategies.recipes import RECOMMENDED_FOR
from goalward.studio.store.events import Label
from goalward.studio.study.kind import Kind, outwards

if TYPE_CHECKING:
    from goalward.studio.study.answered import Answered


class OneNumber(Kind):
    """One number for each row; the study's one name is what it is called."""

    name = "numbers"
    learner = Ridge
    auto = RECOMMENDED_FOR["numbers"]
    measure = "R²"
    waits = "answer until there are two numbers to learn from"
    typing = "a number: answer"
    each = ""

    def check_names(self, names: Sequence[Label]) -> None:
        """Raise where there is not one name."""
        if len(names) != 1 or not isinstance(names[0], str):
            raise BadParameter(
                f"classes={list(names)!r}; the name of one number was expected, since a study asks one "
                "number of each row. Write classes=['price']."
            )

    def fitter(self, params: Mapping[str, Any], classes: Sequence[Label]) -> Any:
        """Return the learner."""
        return Ridge(**{**params, "outputs": list(classes)})

    def checked(self, said: Any, classes: Sequence[Label], renamed: Mapping[Label, Label]) -> Any:
        """Return the number."""
        value = said.item() if hasattr(said, "item") else said
        real = isinstance(value, Real) and not isinstance(value, bool)
        # Whole numbers have no end, and floats do.
        if not real or not abs(value) <= sys.float_info.max:
            raise BadParameter(f"The answer {said!r} came; a finite number was expected: 3.5, say.")
        return float(value)

    def read(self, text: str, classes: Sequence[Label]) -> Any:
        """Return the number, or the text where it is none."""
        try:
            return float(text)
        except ValueError:
            return text

    def typed(self, line: str, classes: Sequence[Label]) -> Any:
        """Return the number; None where it is none."""
        said = self.read(line, classes)
        return said if isinstance(said, float) else None

    def pressed(self, sent: Any, classes: Sequence[Label]) -> Any:
        """Return the number that was sent."""
        return sent

    def offered(self, classes: Sequence[Label]) -> str:
        """Return what the number is."""
        return f"{classes[0]}?"

    def targets(self, answers: Sequence[Any], classes: Sequence[Label]) -> NDArray[Any]:
        """Return the numbers."""
        return np.array(answers, dtype=np.float64)

    def truth(self, state: Answered) -> NDArray[Any]:
        """Return (n, 1): the numbers."""
        said = [state.used_labels[code] for code in state.used[1]]
        return self.targets(said, state.classes)[:, None]

    def example(self, place: int) -> Any:
        """Return one number and another."""
        return float(place % 5)

    def counted(self, answer: Any) -> Iterator[tuple[Any, ...]]:
        """Give that there is a number; which, columns say."""
        yield (True,)

    def per_class(self, state: Answered) -> dict[Label, int]:
        """Return how many numbers there are."""
        return {state.classes[0]: state.n_labels}

    def least(self, state: Answered) -> dict[str, int]:
        """Return nothing: a number is as good as another."""
        return {}

    def ready(self, state: Answered) -> bool:
        """Return whether there are two numbers among the training rows."""
        return state.n_training >= 2

    def words(self, answer: Any, classes: Sequence[Label]) -> str:
        """Return a number without a point that says nothing."""
        return f"{answer:.15g}"

    def good(self, value: float, low: float, high: float, also: Mapping[str, Any]) -> str:
        """Return R², and by how much a number is off."""
        error, least, most = (f"{x:.2g}" if abs(x) < 100 else f"{x:.0f}" for x in also["error"])
        r2 = f"R² about {value:.2f} ({outwards(low, high)})"
        return f"{r2}, typically off by {error} ({least} to {most})."

    def mistaken(self, answer: Any, says: Any, doubt: float, classes: Sequence[Label]) -> bool:
        """Return whether a number is further off than 19 in 20 would be."""
        return doubt > 0.95

    def doubted(self, says: Any, doubt: float, classes: Sequence[Label]) -> tuple[str, str]:
        """Return the number that is expected, and how few would be as far off."""
        few = "less than 1" if doubt > 0.99 else f"{100 * (1 - doubt):.0f}"
        return f"{says:.4g}", f"{few} of 100 answers are as far off"

    def declared(self, answer: Any, classes: tuple[Label, ...]) -> tuple[Label, ...]:
        """Return the one name."""
        return classes
