"""What an answer may be: one class, several labels at once, or a number."""

from goalward.studio.study.kind import Kind
from goalward.studio.study.one_number import OneNumber
from goalward.studio.study.several_labels import SeveralLabels

KINDS: dict[str, Kind] = {kind.name: kind for kind in (Kind(), SeveralLabels(), OneNumber())}
