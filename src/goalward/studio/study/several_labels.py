"""An answer of several labels: each a yes or a no by itself, or not answered."""

from __future__ import annotations

import csv
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from goalward.errors import BadParameter
from goalward.models.multi_label import MultiLabel
from goalward.strategies.recipes import RECOMMENDED_FOR
from goalward.studio.store.events import Label
from goalward.studio.study.kind import Kind, by_number, outwards, place_of

if TYPE_CHECKING:
    from goalward.studio.study.answered import Answered


class SeveralLabels(Kind):
    """Each label is a yes or a no by itself, or not answered."""

    name = "labels"
    learner = MultiLabel
    auto = RECOMMENDED_FOR["labels"]
    measure = "macro-F1"
    waits = "answer until some label has a yes and a no"
    typing = "numbers or names with commas, or - for none: answer"
    each = " yes and as many no to each label"

    def check_names(self, names: Sequence[Label]) -> None:
        """Raise where names are no texts, or stand twice."""
        texts = all(isinstance(name, str) for name in names)
        if not names or not texts or len(set(names)) < len(names):
            raise BadParameter(
                f"classes={list(names)!r}; the names of the labels were expected: distinct texts, one at "
                "least. Write classes=['urgent', 'billing']."
            )

    def fitter(self, params: Mapping[str, Any], classes: Sequence[Label]) -> Any:
        """Return the learner."""
        return MultiLabel(**{**params, "labels": list(classes)})

    def checked(self, said: Any, classes: Sequence[Label], renamed: Mapping[Label, Label]) -> Any:
        """Return true, false or None for each label, of the set of those that hold or of a dict."""
        if isinstance(said, Mapping):
            given = {place_of(classes, renamed, name): value for name, value in said.items()}
            for value in given.values():
                if value is not None and not isinstance(value, (bool, np.bool_)):
                    raise BadParameter(
                        f"The answer {said!r} holds {value!r}; True, False or None was expected for each "
                        "label."
                    )
            answer = tuple(
                None if (v := given.get(k)) is None else bool(v) for k in range(len(classes))
            )
        elif isinstance(said, Collection) and not isinstance(said, (str, bytes)):
            yes = {place_of(classes, renamed, name) for name in said}
            answer = tuple(k in yes for k in range(len(classes)))
        else:
            raise BadParameter(
                f"The answer {said!r} came; the set of the labels that hold was expected, or a dict of "
                f"True, False or None. Write {{{classes[0]!r}}}, or set() where none holds."
            )
        if all(value is None for value in answer):
            raise BadParameter(
                "No label was answered; one at least was expected. Skip the row instead."
            )
        return answer

    def read(self, text: str, classes: Sequence[Label]) -> Any:
        """Return the labels between commas; a hyphen where none holds."""
        return [] if text == "-" else next(csv.reader([text], skipinitialspace=True), [])

    def typed(self, line: str, classes: Sequence[Label]) -> Any:
        """Return the labels that hold, by number or name; None where one of them is no label."""
        known = by_number(classes)
        if line in known:
            return [known[line]]
        words = [word.strip() for word in self.read(line, classes)]
        if len(words) == 1:
            words = words[0].split()
        found = [known[word] for word in words if word in known]
        return found if len(found) == len(words) and (found or line == "-") else None

    def pressed(self, sent: Any, classes: Sequence[Label]) -> Any:
        """Return the labels at the places that were sent."""
        return [classes[place] for place in sent]

    def targets(self, answers: Sequence[Any], classes: Sequence[Label]) -> NDArray[Any]:
        """Return (n, K): 1, 0, and NaN where a label was not answered."""
        table = np.full((len(answers), len(classes)), np.nan)
        for line, answer in zip(table, answers, strict=True):
            line[: len(answer)] = [np.nan if value is None else float(value) for value in answer]
        return table

    def truth(self, state: Answered) -> NDArray[Any]:
        """Return (n, K), as `targets`."""
        return self.targets([state.used_labels[code] for code in state.used[1]], state.classes)

    def example(self, place: int) -> Any:
        """Return the first label, in every second row."""
        return (place % 2 == 0,)

    def counted(self, answer: Any) -> Iterator[tuple[Any, ...]]:
        """Give each label that was answered, and how."""
        yield (True,)
        for place, value in enumerate(answer):
            if value is not None:
                yield place, value

    def per_class(self, state: Answered) -> dict[Label, int]:
        """Return in how many rows each label holds."""
        return {name: _both(state, place, True) for place, name in enumerate(state.classes)}

    def least(self, state: Answered) -> dict[str, int]:
        """Return how many yes and no each label has."""
        return {
            f"{name}: {word}": _both(state, place, value)
            for place, name in enumerate(state.classes)
            for word, value in (("yes", True), ("no", False))
        }

    def ready(self, state: Answered) -> bool:
        """Return whether some label has a yes and a no among the training rows."""
        return any(
            all(state.counted("label", False, place, value) for value in (True, False))
            for place in range(len(state.classes))
        )

    def fits(self, answer: Any, name: str, classes: Sequence[Label]) -> bool:
        """Return whether a label holds."""
        return any(
            value and str(known) == name for known, value in zip(classes, answer, strict=False)
        )

    def words(self, answer: Any, classes: Sequence[Label]) -> str:
        """Return the labels that hold, and those that nobody answered."""
        yes = [str(name) for name, value in zip(classes, answer, strict=False) if value]
        padded = (*answer, *[None] * (len(classes) - len(answer)))
        left = [str(name) for name, value in zip(classes, padded, strict=False) if value is None]
        said = ", ".join(yes) or "none of them"
        return f"{said} (not answered: {', '.join(left)})" if left else said

    def good(self, value: float, low: float, high: float, also: Mapping[str, Any]) -> str:
        """Return the share of right answers, and macro-F1."""
        share, least, most = also["right"]
        ends = f"{math.floor(100 * least)} to {math.ceil(100 * most)} %"
        right = f"About {100 * share:.0f} % of yes and no right ({ends})"
        return f"{right}, macro-F1 about {value:.2f} ({outwards(low, high)})."

    def mistaken(self, answer: Any, says: Any, doubt: float, classes: Sequence[Label]) -> bool:
        """Return whether some label is answered otherwise."""
        said = zip(classes, answer, strict=False)
        return any(value is not None and says.get(name, value) != value for name, value in said)

    def doubted(self, says: Any, doubt: float, classes: Sequence[Label]) -> tuple[str, str]:
        """Return the labels that would hold, and the chance of the least likely answer."""
        yes = ", ".join(str(name) for name in classes if says.get(name))
        return yes or "none of them", f"it gives one of these answers {100 * (1 - doubt):.0f} %"

    def declared(self, answer: Any, classes: tuple[Label, ...]) -> tuple[Label, ...]:
        """Return the labels, with a name for each that was lost."""
        return (*classes, *(f"lost label {k + 1}" for k in range(len(classes), len(answer))))


def _both(state: Answered, place: int, value: bool) -> int:
    return sum(state.counted("label", dev, place, value) for dev in (False, True))
