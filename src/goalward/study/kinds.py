"""What an answer is: one class, several labels at once, or a number."""

from __future__ import annotations

import csv
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from goalward.errors import BadParameter, UnknownLabel, Unsupported
from goalward.journal.events import Label
from goalward.learners import Logistic, MultiLabel, Ridge
from goalward.strategies.recipe_names import RECOMMENDED_FOR

if TYPE_CHECKING:
    from goalward.study.answered import Answered

__all__ = ["KINDS", "Kind", "place_of", "position"]


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
    """What says how good a model is; None is accuracy, which has an interval."""
    waits: ClassVar[str] = "answer until two classes have labels"

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

    def targets(self, answers: Sequence[Any], classes: Sequence[Label]) -> Any:
        """Return what a model is fitted to."""
        return list(answers)

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

    def ready(self, state: Answered) -> bool:
        """Return whether a model can be fitted: labels of two classes among the training rows."""
        return sum(not dev for dev, _ in state.counts) >= 2

    def fits(self, answer: Any, name: str, classes: Sequence[Label]) -> bool:
        """Return whether an answer is, or holds, what has a name."""
        return str(answer) == name

    def words(self, answer: Any, classes: Sequence[Label]) -> str:
        """Return an answer as people read it."""
        return str(answer)

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


class SeveralLabels(Kind):
    """Each label is a yes or a no by itself, or not answered."""

    name = "labels"
    learner = MultiLabel
    auto = RECOMMENDED_FOR["labels"]
    measure = "macro-F1"
    waits = "answer until some label has a yes and a no"

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

    def targets(self, answers: Sequence[Any], classes: Sequence[Label]) -> NDArray[Any]:
        """Return (n, K): 1, 0, and NaN where a label was not answered."""
        table = np.full((len(answers), len(classes)), np.nan)
        for line, answer in zip(table, answers, strict=True):
            line[: len(answer)] = [np.nan if value is None else float(value) for value in answer]
        return table

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

    def declared(self, answer: Any, classes: tuple[Label, ...]) -> tuple[Label, ...]:
        """Return the labels, with a name for each that was lost."""
        return (*classes, *(f"lost label {k + 1}" for k in range(len(classes), len(answer))))


class OneNumber(Kind):
    """One number for each row; the study's one name is what it is called."""

    name = "numbers"
    learner = Ridge
    auto = RECOMMENDED_FOR["numbers"]
    measure = "R²"
    waits = "answer until there are two numbers to learn from"

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

    def targets(self, answers: Sequence[Any], classes: Sequence[Label]) -> NDArray[Any]:
        """Return the numbers."""
        return np.array(answers, dtype=np.float64)

    def example(self, place: int) -> Any:
        """Return one number and another."""
        return float(place % 5)

    def counted(self, answer: Any) -> Iterator[tuple[Any, ...]]:
        """Give that there is a number; which, columns say."""
        yield (True,)

    def per_class(self, state: Answered) -> dict[Label, int]:
        """Return how many numbers there are."""
        return {state.classes[0]: state.n_labels}

    def ready(self, state: Answered) -> bool:
        """Return whether there are two numbers among the training rows."""
        return state.n_training >= 2

    def words(self, answer: Any, classes: Sequence[Label]) -> str:
        """Return a number without a point that says nothing."""
        return f"{answer:.15g}"

    def declared(self, answer: Any, classes: tuple[Label, ...]) -> tuple[Label, ...]:
        """Return the one name."""
        return classes


def _both(state: Answered, place: int, value: bool) -> int:
    return sum(state.counted("label", dev, place, value) for dev in (False, True))


KINDS: dict[str, Kind] = {kind.name: kind for kind in (Kind(), SeveralLabels(), OneNumber())}
