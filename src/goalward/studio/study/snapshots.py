"""Where a study stood after every few thousand events, kept beside its journal: not all is read again.

A part holds what came since the part before: lines and questions as columns, notes and rankings, and
the small rest of the state whole. It follows from the events alone, so any process may write it, and
it can be checked against them. The journal is the truth; a part that does not fit it is made anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np
from rpds import HashTrieMap

from goalward.studio.store import Mark, Store, parts
from goalward.studio.store.events import START, canonical, parsed
from goalward.studio.store.parts import Kept
from goalward.studio.study.lines import KINDS, AskedRows, Lines
from goalward.studio.study.settings import Settings
from goalward.studio.study.state import Description, Lease, Note, State
from goalward.studio.study.tally import add_ranking

FORMAT = 1
PLAIN = ("identity", "pool", "classes", "turns", "dev_turns", "moves", "changed", "guidelines")
QUESTIONS = {"row": "i4", "utility": "f8", "ranking": "i4"}


class _Read(NamedTuple):
    small: dict[str, Any]
    news: dict[str, Any]
    lines: list[Any]
    asked: list[Any]


def part_of(state: State) -> Kept:
    """Return what came since the base of a state, and where it stands."""
    lines = state.since()
    asked = AskedRows.of((row, *why) for row, why in sorted(state.asked_since.items()))
    small: dict[str, Any] = {name: getattr(state, name) for name in PLAIN}
    small |= {
        "settings": state.settings.to_json(),
        "lost": state.lost,
        "people": lines.people,
        "names": lines.names,
        "tally": _sorted(state.tally.items()),
        "begun": _sorted(state.begun.items()),
        "described": _sorted(state.described.items()),
        "renamed": _sorted(state.renamed.items()),
        "leases": _sorted((r, b, x) for r, by in state.leases.items() for b, x in by.items()),
    }
    since = state.base.seq
    notes = ((n.seq, row, n) for row, said in state.notes.items() for n in said if n.seq > since)
    news = {
        "format": FORMAT,
        "after": state.base,
        "cuts": _sorted(state.cuts.items()),
        "notes": sorted(notes),
        "rounds": [(seq, canonical(r)) for seq, r in state.rounds if seq > since],
        "sizes": [len(lines), len(asked.row)],
    }
    texts = [json.dumps(each, sort_keys=True).encode() for each in (small, news)]
    columns = [getattr(lines, name) for name in KINDS] + list(asked)
    sizes = np.array([len(each) for each in texts], dtype="<i8")
    content = b"".join([sizes.tobytes(), *texts, *(column.tobytes() for column in columns)])
    return Kept(*state.mark, sha256(content).hexdigest(), content)


def _sorted(items: Iterable[Any]) -> list[Any]:
    """Return items in an order that no process's hashes decide."""
    return sorted(items, key=json.dumps)


def _read(content: bytes) -> _Read:
    sizes = np.frombuffer(content, "<i8", 2)
    at, texts = 16, []
    for size in sizes.tolist():
        texts.append(content[at : at + size])
        at += size
    news = json.loads(texts[1])
    columns = []
    for kinds, n in zip((KINDS, QUESTIONS), news["sizes"], strict=True):
        for kind in kinds.values():
            columns.append(np.frombuffer(content, kind, n, at))
            at += columns[-1].nbytes
    return _Read({"json": texts[0]}, news, columns[: len(KINDS)], columns[len(KINDS) :])


def load(store: Store) -> State:
    """Return where a study stood at its newest part that is whole and of its journal; or its start."""
    read: list[_Read] = []
    at = START
    for part in store.run(parts.found):
        if sha256(part.content).hexdigest() != part.checksum:
            break
        found = _read(part.content)
        if found.news["format"] != FORMAT or Mark(*found.news["after"]) != at:
            break
        at = Mark(part.seq, part.digest)
        read.append(found)
    if not read or store.run(partial(parts.digest, seq=at.seq)) != at.digest:
        return State()
    return restored(at, read)


def restored(at: Mark, read: Sequence[_Read]) -> State:
    """Return the state that parts which were read, one after the other, tell of."""
    small = json.loads(read[-1].small["json"])
    columns = [np.concatenate(each) for each in zip(*(part.lines for part in read), strict=True)]
    people = tuple(small["people"])
    names: Any = tuple(tuple(one) if isinstance(one, list) else one for one in small["names"])
    news = Lines(**dict(zip(KINDS, columns, strict=True)), people=people, names=names)
    gone = np.zeros(len(news), dtype=bool)
    for part in read:
        # Undone since: what an annotator did from a number on, up to where the part begins.
        for by, cut in part.news["cuts"]:
            first, end = np.searchsorted(news.seq, [cut, part.news["after"][0] + 1])
            gone[first:end] |= news.by[first:end] == news.people.index(by)
    if gone.any():
        kept = {name: getattr(news, name)[~gone] for name in KINDS}
        news = replace(news, **kept)
    rounds: list[Any] = []
    notes: dict[int, tuple[Note, ...]] = {}
    for part in read:
        for seq, body in part.news["rounds"]:
            add_ranking(rounds, seq, parsed(seq, body))  # type: ignore[arg-type]
        for _, row, note in part.news["notes"]:
            notes[row] = (*notes.get(row, ()), Note(*note))
    leases: dict[int, dict[str, Lease]] = {}
    for row, by, lease in small["leases"]:
        leases.setdefault(row, {})[by] = Lease(*lease)
    questions = (np.concatenate(each) for each in zip(*(part.asked for part in read), strict=True))
    pool = small["pool"]
    described = {place: Description(*said) for place, said in small["described"]}
    plain = {name: small[name] for name in PLAIN}
    return State(
        **{**plain, "classes": tuple(small["classes"])},
        seq=at.seq,
        digest=at.digest,
        base=at,
        settings=Settings.from_json(small["settings"]),
        aside=frozenset(pool.get("aside", ())),
        lines=Lines.of().joined(news, {}),
        asked=AskedRows.of().joined(AskedRows(*questions)),
        tally=HashTrieMap({tuple(fact): count for fact, count in small["tally"]}),
        begun=HashTrieMap(dict(small["begun"])),
        leases=HashTrieMap({row: HashTrieMap(held) for row, held in leases.items()}),
        notes=HashTrieMap(notes),
        rounds=tuple(rounds),
        described=HashTrieMap(described),
        renamed=HashTrieMap(dict(small["renamed"])),
        lost=tuple((seq, text) for seq, text in small["lost"]),
    )
