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

A message says what is expected, what was given and what to do.
"""


class GoalwardError(Exception):
    """Any error raised on purpose."""


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
    """No row is left, or none within the budget."""


class DuplicateRows(BadInput):
    """A row id that occurs twice."""


class DataMissing(BadInput):
    """A data file that is absent, or not what it should be."""


class WouldOverwrite(BadInput):
    """A file that exists and was not to be replaced, or that is an input."""


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
    """A file or database without a study in it."""


class StudyExists(StudyError):
    """A file or database that exists already."""


class NewerVersion(StudyError):
    """A study written by a newer goalward."""


class Damaged(StudyError):
    """Stored data that differ from what was written."""


class Replaced(StudyError):
    """The opened study was replaced by another, or by an older copy."""


class Locked(StudyError):
    """A study that another process locks for too long."""


class NotWritten(StudyError):
    """Nothing was stored: disk full, read-only, or the server is gone."""


class PoolChanged(StudyError):
    """The pool's file is missing, or not the one the study was made with."""


class ClusterLost(GoalwardError, RuntimeError):
    """A Dask cluster without a scheduler that answers, or without workers."""


class LabelStudioError(GoalwardError, RuntimeError):
    """A Label Studio server that refuses, or gives an unknown answer."""

    passes: bool = False
    """Whether the same request may work later."""


class NotReached(LabelStudioError):
    """A server that does not answer, or fails for now."""

    passes = True


class GoalwardWarning(UserWarning):
    """Any warning of goalward."""


class VacuousUtility(GoalwardWarning):
    """Every candidate scores the same (Remark 1 of the paper)."""


class LooseFit(GoalwardWarning):
    """A model that is not at its optimum."""


class UnseenClass(GoalwardWarning):
    """A class that has no label yet."""


class WeakGoal(GoalwardWarning):
    """A goal that rests on few rows: dev rows that are all right, or hardly any that count."""


class EventsLost(GoalwardWarning):
    """A damaged study that could not be recovered whole."""


class NetworkFile(GoalwardWarning):
    """A study on a network file system, whose locks cannot be trusted."""
