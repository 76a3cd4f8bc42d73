"""What an answer is: one class. Several labels and numbers say here how they differ."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from numpy.typing import NDArray

from goalward.errors import BadParameter, UnknownLabel, Unsupported
from goalward.models.logistic import Logistic
from goalward.strategies.recipes import RECOMMENDED_FOR
from goalward.studio.store.events import Label

if TYPE_CHECKING:
    from goalward.studio.study.answered import Answered


def position(classes: Sequence[Label], label: Any) -> int | None:
    """Return the place of a label among classes; 1 and True are equal to Python, and two answers."""
    for place, known in enumerate(classes):
        if known == label and isinstance(known, bool) == isinstance(label, bool):
            return place
    return None


def place_of(classes: Sequence[Label], renamed: Mapping[Label, Label], name: Any) -> int:
    """Return the place of a class; `UnknownLabel` where there is none of that name, nor was."""
    value = name.item() if hasattr(name, "item") else name
    for known in (value, renamed.get(value) if isinstance(value, Label) else None):
        place = position(classes, known)
        if place is not None:
            return place
    raise UnknownLabel(
        f"The label {name!r} came; one of {', '.join(map(repr, classes[:12]))} was expected. "
        "Correct it, or declare it with add_class."
    )


class Kind:
    """One class for each row; the other kinds differ in what is written here.

    An answer is kept as JSON keeps it: a class; for several labels a list of true, false and null in
    the order of the labels, which ends early where labels were declared later; a number.
    """

    name: ClassVar[str] = "class"
    learner: ClassVar[Any] = Logistic
    auto: ClassVar[str] = RECOMMENDED_FOR["class"]
    """What "auto" stands for in new studies."""
    measure: ClassVar[str | None] = None
    """What says how good a model is; None is accuracy."""
    waits: ClassVar[str] = "answer until two classes have labels"
    typing: ClassVar[str] = "number or name: answer"
    """What to type for an answer in a terminal."""
    each: ClassVar[str] = " of each class"
    """What there must be some of before anything is said about stopping."""

    def check_names(self, names: Sequence[Label]) -> None:
        """Raise where names cannot be those of a study's classes."""
        if len(names) < 2 or len(set(names)) < len(names):
            raise BadParameter(
                f"classes={list(names)!r}; two or more distinct classes were expected. Declare all "
                "of them, also those without a label yet."
            )

    def fitter(self, params: Mapping[str, Any], classes: Sequence[Label]) -> Any:
        """Return the learner; a class without a label yet penalises the intercepts."""
        penalized = params.get("penalize_intercept") or "until-seen"
        return Logistic(**{**params, "penalize_intercept": penalized, "classes": list(classes)})

    def checked(self, said: Any, classes: Sequence[Label], renamed: Mapping[Label, Label]) -> Any:
        """Return an answer as it is kept; `UnknownLabel` or `BadParameter` where it is none."""
        return classes[place_of(classes, renamed, said)]

    def read(self, text: str, classes: Sequence[Label]) -> Any:
        """Return what somebody typed, to be checked."""
        return {str(name): name for name in classes}.get(text, text)

    def typed(self, line: str, classes: Sequence[Label]) -> Any:
        """Return the answer that somebody typed in a terminal; None where it is none."""
        return by_number(classes).get(line)

    def pressed(self, sent: Any, classes: Sequence[Label]) -> Any:
        """Return the answer that a widget sent: the place of a class."""
        return classes[sent]

    def offered(self, classes: Sequence[Label]) -> str:
        """Return what can be answered, for a terminal."""
        return "  ".join(f"{i}: {label}" for i, label in enumerate(classes, start=1))

    def targets(self, answers: Sequence[Any], classes: Sequence[Label]) -> Any:
        """Return what a model is fitted to."""
        return list(answers)

    def truth(self, state: Answered) -> NDArray[Any]:
        """Return the answers used, as what a model says is compared with: places of classes."""
        return state.used[1]

    def example(self, place: int) -> Any:
        """Return some answer, another for the next place."""
        return place % 2

    def counted(self, answer: Any) -> Iterator[tuple[Any, ...]]:
        """Give what is counted of a row's answer."""
        yield (answer,)

    def per_class(self, state: Answered) -> dict[Label, int]:
        """Return how many rows each class has."""
        found = dict.fromkeys(state.classes, 0)
        for (_, label), n in state.counts.items():
            found[label] = found.get(label, 0) + n
        return found

    def least(self, state: Answered) -> dict[str, int]:
        """Return how often there is what there must be some of (`each`)."""
        return {str(label): n for label, n in self.per_class(state).items()}

    def ready(self, state: Answered) -> bool:
        """Return whether a model can be fitted: labels of two classes among the training rows."""
        return sum(not dev for dev, _ in state.counts) >= 2

    def fits(self, answer: Any, name: str, classes: Sequence[Label]) -> bool:
        """Return whether an answer is, or holds, what has a name."""
        return str(answer) == name

    def words(self, answer: Any, classes: Sequence[Label]) -> str:
        """Return an answer as people read it."""
        return str(answer)

    def good(self, value: float, low: float, high: float, also: Mapping[str, Any]) -> str:
        """Return how good a model is, in words."""
        # Outwards: what is shown must hold the truth as often as what was computed.
        ends = f"{math.floor(100 * low)} to {math.ceil(100 * high)} %"
        return f"About {100 * value:.0f} % right ({ends})."

    def mistaken(self, answer: Any, says: Any, doubt: float, classes: Sequence[Label]) -> bool:
        """Return whether an answer is likely a mistake, by what the model says without it."""
        return bool(answer != says)

    def doubted(self, says: Any, doubt: float, classes: Sequence[Label]) -> tuple[str, str]:
        """Return what the model would have said of a row, and how far from the answer that is."""
        return str(says), f"it gives this label {100 * (1 - doubt):.0f} %"

    def declared(self, answer: Any, classes: tuple[Label, ...]) -> tuple[Label, ...]:
        """Return the classes that an answer speaks of, where their declaration was lost."""
        return classes if answer in classes else (*classes, answer)

    def need(self, what: str) -> None:
        """Raise where something is about classes, and this is another kind."""
        if self.name != "class":
            raise Unsupported(
                f"{what} came with a study of {self.name}; one of one class for each row was expected. "
                "It is not there for others yet."
            )


def by_number(classes: Sequence[Label]) -> dict[str, Label]:
    """Return what stands for each class: its place, from 1, and its name."""
    numbered = {str(i): label for i, label in enumerate(classes, start=1)}
    return numbered | {str(label): label for label in classes}


def outwards(low: float, high: float) -> str:
    """Return the ends of an interval, rounded so that it holds no less."""
    return f"{math.floor(100 * low) / 100:.2f} to {math.ceil(100 * high) / 100:.2f}"
