"""A study that says when its answers stop paying."""

import tempfile

from sklearn.datasets import load_digits

import goalward as gw
from goalward.lab.plots import figure, quiet

X, y = load_digits(return_X_y=True)
price = 0.0002  # of all rows that an answer must turn right: two points for 100 answers
ends, answers, high = None, [], []

place = tempfile.mkdtemp() + "/labels.db"
with gw.Study.create(place, pool=X / 16, classes=range(10), refit=20) as study:
    for _ in range(15):
        for row in study.ask(20, by="ann"):
            study.tell(row, int(y[row]), by="ann")
        study.refresh()
        advice = study.stop(price)
        answers.append(len(study.state.labels))
        high.append(float("nan") if advice.high is None else 100 * advice.high)
        if advice.stop and ends is None:
            ends = answers[-1]
            print(ends, advice.reason)
            print(study.status()["headline"])
    curve = study.curve()

fig = figure(7.6, 5.0)
top, bottom = fig.subplots(2, 1, sharex=True)
bought = [line["bought"] for line in curve]
low, value, top_end = ([100 * line[name] for line in curve] for name in ("low", "accuracy", "high"))
top.plot(bought, value, color="#17889b", marker="o", ms=3)
top.fill_between(bought, low, top_end, color="#17889b", alpha=0.2, lw=0)
bottom.plot(answers, high, color="#17889b", marker="o", ms=3)
bottom.axhline(100 * 100 * price, color="#888888", lw=1)
for axes in (top, bottom):
    quiet(axes)
    if ends is not None:
        axes.axvline(ends, color="#d1495b", ls="--", lw=1.2, label="the study says: stop")
top.set(ylabel="rows right, %")
top.legend(frameon=False, loc="lower right")
bottom.set(xlabel="answers", ylabel="gain of 100 answers, at most")
fig.savefig("when_to_stop.png")
