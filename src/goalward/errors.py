"""Every error raised on purpose, and every warning.

::

    GoalwardError
    ├── BadInput (ValueError)
    │   └── NotFinite, TooLarge, ShapeMismatch, Empty, OneClass, UnknownLabel, BadParameter,
    │       PoolExhausted, DuplicateRows, DataMissing, WouldOverwrite, Unsupported
    ├── MissingExtra (ImportError)
    ├── Separable, NotConverged, ClusterLost (RuntimeError)
    ├── LabelStudioError (RuntimeError)
    │   └── NotReached
    └── StudyError (RuntimeError)
        └── NotAStudy, StudyExists, NewerVersion, Damaged, Replaced, Locked, NotWritten, PoolChanged

    GoalwardWarning (UserWarning)
    └── EventsLost, NetworkFile, VacuousUtility, LooseFit, UnseenClass, WeakGoal

A message has three clauses: what came, what was expected, what to do.
"""

__all__ = [
    "BadInput",
    "BadParameter",
    "ClusterLost",
    "Damaged",
    "DataMissing",
    "DuplicateRows",
    "Empty",
    "EventsLost",
    "GoalwardError",
    "GoalwardWarning",
    "LabelStudioError",
    "Locked",
    "LooseFit",
    "MissingExtra",
    "NetworkFile",
    "NewerVersion",
    "NotAStudy",
    "NotConverged",
    "NotFinite",
    "NotReached",
    "NotWritten",
    "OneClass",
    "PoolChanged",
    "PoolExhausted",
    "Replaced",
    "Separable",
    "ShapeMismatch",
    "StudyError",
    "StudyExists",
    "TooLarge",
    "UnknownLabel",
    "UnseenClass",
    "Unsupported",
    "VacuousUtility",
    "WeakGoal",
    "WouldOverwrite",
]


class GoalwardError(Exception):
    """Anything goalward raises on purpose."""


class BadInput(GoalwardError, ValueError):
    """Input that cannot be used."""


class NotFinite(BadInput):
    """NaN or infinite numbers."""


class TooLarge(BadInput):
    """Numbers so large that their products overflow."""


class ShapeMismatch(BadInput):
    """Dimensions that do not fit one another."""


class Empty(BadInput):
    """No rows where rows are needed."""


class OneClass(BadInput):
    """Labels of a single class only."""


class UnknownLabel(BadInput):
    """A label that is not one of the classes."""


class BadParameter(BadInput):
    """An option outside its range."""


class PoolExhausted(BadInput):
    """No row is left, or none that a budget pays for."""


class DuplicateRows(BadInput):
    """A row id that stands twice."""


class DataMissing(BadInput):
    """A data file that is absent, or not what it should be."""


class WouldOverwrite(BadInput):
    """A file that is there already and nobody said to replace, or that is an input."""


class Unsupported(BadInput):
    """A model or goal that cannot be represented here."""


class MissingExtra(GoalwardError, ImportError):
    """An optional package that is not installed."""


class Separable(GoalwardError, RuntimeError):
    """Labelled rows fitted so perfectly that their curvature is lost in rounding."""


class NotConverged(GoalwardError, RuntimeError):
    """A solver stopped short of its tolerance; the number is withheld."""


class StudyError(GoalwardError, RuntimeError):
    """A study that cannot be read or written."""


class NotAStudy(StudyError):
    """A file or database that holds something else, or nothing."""


class StudyExists(StudyError):
    """A place where there is something already."""


class NewerVersion(StudyError):
    """A study written by a newer goalward."""


class Damaged(StudyError):
    """Bytes that are not those that were written."""


class Replaced(StudyError):
    """Another study, or an older copy of it, stands where the one that was opened stood."""


class Locked(StudyError):
    """A study that another process holds for too long."""


class NotWritten(StudyError):
    """Disk full, read-only, or a server gone: nothing was stored."""


class PoolChanged(StudyError):
    """The pool's file is gone, or is not the one the study was made with."""


class ClusterLost(GoalwardError, RuntimeError):
    """A Dask cluster whose scheduler does not answer, or that has no workers left."""


class LabelStudioError(GoalwardError, RuntimeError):
    """A Label Studio server that refuses, or answers in a way that is not known here."""


class NotReached(LabelStudioError):
    """A server that does not answer, or fails; later it may be well again."""


class GoalwardWarning(UserWarning):
    """Anything goalward warns of."""


class VacuousUtility(GoalwardWarning):
    """Every candidate scores the same (Remark 1 of the paper)."""


class LooseFit(GoalwardWarning):
    """A model handed in away from its optimum."""


class UnseenClass(GoalwardWarning):
    """A class that has no label yet."""


class WeakGoal(GoalwardWarning):
    """A goal with little behind it: dev rows that are all right, or hardly any that count."""


class EventsLost(GoalwardWarning):
    """A damaged study of which not all could be saved."""


class NetworkFile(GoalwardWarning):
    """A study on a network file system, whose locks cannot be trusted."""
