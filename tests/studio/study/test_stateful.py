"""A study against a dictionary: whatever is done, in whatever order, with crashes between."""

import tempfile
from pathlib import Path

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import goalward as gw

N = 12
ROWS = st.integers(0, N - 1)
PEOPLE = st.sampled_from(["ann", "bo"])
LABELS = st.sampled_from(["a", "b"])
POOL = np.arange(N)[:, None] / N


class Machine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.place = Path(self.folder.name) / "labels.db"
        self.now = 1000.0
        gw.Study.create(
            self.place, pool=POOL, classes=["a", "b"], lease=100.0, refit=3, clock=self.clock
        ).close()
        self.reopen()
        self.said = {}  # (row, by) -> (label or None, order)
        self.done = {"ann": [], "bo": []}
        self.order = 0

    def clock(self):
        return self.now

    def reopen(self):
        self.study = gw.Study.open(self.place, clock=self.clock)

    def say(self, row, by, what):
        self.order += 1
        self.done[by].append((row, self.said.get((row, by))))
        self.said[row, by] = (what, self.order)

    @rule(by=PEOPLE, n=st.integers(1, 4), resume=st.booleans())
    def ask(self, by, n, resume):
        free = [
            row for row in range(N) if not any((row, who) in self.said for who in ("ann", "bo"))
        ]
        rows = self.study.ask(n, by=by, resume=resume, at_most=True)
        assert len(set(rows)) == len(rows) <= n
        assert set(rows) <= set(free)

    @rule(row=ROWS, by=PEOPLE, label=LABELS)
    def tell(self, row, by, label):
        seq = self.study.tell(row, label, by=by)
        assert seq == self.study.tell(row, label, by=by)
        if self.said.get((row, by), (None, 0))[0] != label:
            self.say(row, by, label)

    @rule(row=ROWS, by=PEOPLE)
    def skip(self, row, by):
        self.study.skip(row, by=by)
        if (row, by) not in self.said or self.said[row, by][0] is not None:
            self.say(row, by, None)

    @rule(row=ROWS, by=PEOPLE)
    def withdraw(self, row, by):
        self.study.withdraw(row, by=by)
        if (row, by) in self.said:
            self.done[by].append((row, self.said.pop((row, by))))

    @rule(by=PEOPLE)
    def undo(self, by):
        row = self.study.undo(by=by)
        if not self.done[by]:
            assert row is None
            return
        expected, before = self.done[by].pop()
        assert row == expected
        if before is None:
            self.said.pop((row, by), None)
        else:
            self.said[row, by] = before

    @rule(step=st.floats(-50, 200))
    def time_goes(self, step):
        self.now += step

    @rule()
    def crash(self):
        """Nothing is closed or saved: the next one starts from the disk."""
        self.reopen()

    @precondition(lambda self: self.order % 2 == 0)
    @rule(row=ROWS, by=PEOPLE, label=LABELS)
    def another_process_tells(self, row, by, label):
        with gw.Study.open(self.place, clock=self.clock) as other:
            other.tell(row, label, by=by)
        if self.said.get((row, by), (None, 0))[0] != label:
            self.say(row, by, label)

    @invariant()
    def labels_are_the_latest(self):
        expected = {}
        for (row, _), (label, _) in sorted(self.said.items(), key=lambda item: item[1][1]):
            if label is not None:
                expected[row] = label
        state = self.study.state
        assert dict(state.labels) == expected
        skipped = {row for row, _ in self.said} - set(expected)
        assert state.skipped == skipped
        assert not state.pending & {row for row, by in self.said if (row, by) in state.leases}

    def teardown(self):
        self.study.close()
        self.folder.cleanup()


TestStudy = Machine.TestCase
TestStudy.settings = settings(
    max_examples=25,
    stateful_step_count=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
